"""Benchmarks of the hub as probes: one file a family, a row of a table a preset.

    names.py                   the grammar of names, the paper's twelve
    preset.py                  where rows are, and the forms
    question.py                one row in both its forms
    rows.py                    rows, from hub or copies
    load.py                    names to probes
    mmlu.py                    MMLU, its redux, MMLU-Pro
    science.py                 ARC, OpenBookQA, GPQA
    everyday.py                HellaSwag, PIQA, SIQA, CSQA, WinoGrande
    truth.py                   TruthfulQA, SALAD-Bench
    bbh.py                     BIG-Bench Hard
    reading.py                 MuSR, MCTest
    written.py                 GSM8K, IFEval
    languages.py               Belebele, Global-MMLU
    small.py                   metabench, tinyBenchmarks

Data sets, splits and licences as their pages on the hub had them in 2026.
"""

from forgetwatch.probes.hub.load import load_preset, read_preset
from forgetwatch.probes.hub.names import PAPER, PRESETS, is_preset

__all__ = ["PAPER", "PRESETS", "is_preset", "load_preset", "read_preset"]
