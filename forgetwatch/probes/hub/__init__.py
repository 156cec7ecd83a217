"""Benchmarks of the hub as probes.

Read presets.toml first: it is the table of all of them.

    presets.toml          one table per benchmark: sources, licence, settings
    presets.py            the table as `Preset`s, with the functions of their rows
    preset.py             the shape of a preset; one row as a question, and the helpers that read its fields
    multiple_choice.py    row functions: a question and its options, each in a field
    reasoning.py          row functions: options inside the text, passages, open answers
    selections.py         row functions: metabench and tinyBenchmarks, on those of their parents
    rows.py               rows from the hub, its cache or a folder of copies
    load.py               a name to a probe; the grammar of names
"""

from forgetwatch.probes.hub.load import find_preset, is_preset, load_preset, read_preset
from forgetwatch.probes.hub.preset import FORMS, Preset, Source
from forgetwatch.probes.hub.presets import PAPER, PRESETS
