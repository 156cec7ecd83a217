"""Benchmarks of the hub as probes.

Read presets.toml first: it is the table of all of them.

    presets.toml        one table per benchmark: sources, licence, settings
    preset.py           the shape of a preset; one row as a question, and the helpers that read its fields
    row_functions.py    a row of each benchmark to a question
    load.py             a name to a probe: the grammar of names, and rows from the hub, its cache or a folder of copies
"""

from forgetwatch.probes.hub.load import PAPER, PRESETS, find_preset, is_preset, load_preset
from forgetwatch.probes.hub.preset import FORMS, Preset, Source
