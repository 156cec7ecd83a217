"""Benchmarks of the hub as probes: one file a family, a row of a table a preset.

    question    one row in the two forms in which it can be asked
    preset      where the rows are, and the forms
    rows        the rows, from the hub or a folder of copies
    mmlu, science, everyday, truth, bbh, reading, written, languages, small    the families
    names       the grammar of names, and the paper's twelve
    load        names to probes

Data sets, splits and licences as their pages on the hub had them in 2026.
"""

from forgetwatch.probes.hub.load import load_preset, read_preset
from forgetwatch.probes.hub.names import PAPER, PRESETS, is_preset

__all__ = ["PAPER", "PRESETS", "is_preset", "load_preset", "read_preset"]
