"""Probes as lines of text: what one holds, an item in full, what a check found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from forgetwatch.item import PRIVATE, Item
from forgetwatch.probe import Probe
from forgetwatch.probes.checking import Finding
from forgetwatch.probes.hub import PRESETS, is_preset
from forgetwatch.probes.hub.preset import FORMS
from forgetwatch.probes.overlap import Overlap
from forgetwatch.probes.tables import SUFFIXES
from forgetwatch.probes.word_runs import training_text
from forgetwatch.report.numbers import fit

_CHOOSERS = ("position", "longest option")


def listing() -> Iterator[tuple[str, bool]]:
    """Every probe that can be named, a line each, and whether it is a heading."""

    def line(name: str, about: str, items: str, k: str) -> tuple[str, bool]:
        return f"  {fit(name, 14)} {fit(about, 37)} {items:>14}  {k}".rstrip(), False

    yield "shipped, without network", True
    yield line("standard", "nine categories, the default", "2,000", "k 2 to 5")
    yield line("quick", "its first 500", "500", "k 2 to 5")
    yield line("confirmation", "500 others, for looking twice", "500", "k 2 to 5")
    yield line("behaviour", "short answers, written and judged", "96", "open")
    yield line("demo", "an invented world, for the demo", "360", "k 2 to 5")
    yield "benchmarks of the hub: NAME[:PART[+PART ...]][:FORM]", True
    yield line("paper", "the paper's twelve, and IFEval", "about 49,000", "as these")
    for preset in PRESETS.values():
        k = f"k {preset.k}" if preset.k[0].isdigit() else preset.k
        yield line(preset.name, preset.about, preset.items, k)
    yield "forms", True
    for form, (about, _) in FORMS.items():
        yield f"  {form:<14} {about}", False
    yield "your own: rows with a question, options and an answer", True
    yield f"  {' '.join(SUFFIXES)}", False
    yield "  forgetwatch probe build mine.csv -o probe.jsonl", False


def about(name: str) -> Iterator[str]:
    """What is known of a benchmark of the hub; nothing of others."""
    if not Path(name).is_file() and is_preset(name) and name.split(":")[0] in PRESETS:
        preset = PRESETS[name.split(":")[0]]
        yield f"{preset.about}; licence: {preset.licence}; from {preset.sources[0].dataset}"
        if preset.note:
            yield preset.note


def summary(probe: Probe) -> Iterator[str]:
    """What a probe holds, and how it is asked."""
    ks = Counter("open" if item.k is None else f"k {item.k}" for item in probe)
    tasks = len({item.task for item in probe})
    yield f"{probe.name}: {len(probe):,} items, {tasks:,} task{'s' if tasks > 1 else ''}; {_counts(ks)}"
    yield f"categories: {_counts(Counter(item.category or 'none' for item in probe))}"
    settings = dict(probe.settings)
    decoding = settings.pop("decoding", None)
    yield ", ".join(f"{key} {value}" for key, value in settings.items())
    if decoding:
        yield "answers written: " + ", ".join(f"{key} {value}" for key, value in decoding.items() if value)
    yield f"fingerprint {probe.fingerprint}"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counter.most_common())


def shown(item: Item) -> Iterator[str]:
    """An item in full, its right options marked."""
    if PRIVATE in item.tags:
        yield "its text must not be published, and is not shown"
        return
    yield training_text(item.prompt)
    for place, choice in enumerate(item.choices):
        yield f"{'*' if place in item.answers else ' '}{choice}"
    if not item.choices:
        yield f"* {' | '.join(map(str, item.answers))}  (match {item.match})"


def finding_lines(finding: Finding) -> Iterator[str]:
    """What was looked for, how often it was found, and where first."""
    mark = "!" if finding.wrong else " "
    yield f"{mark} {fit(finding.name, 15)} {len(finding.items):>7,} of {finding.of:,}"
    if finding.wrong or not finding.items or finding.name in _CHOOSERS:
        yield f"    {finding.about}"
    if finding.wrong and finding.name not in _CHOOSERS:
        shown = ", ".join(f"{task} {name}" for task, name in finding.items[:3])
        yield f"    {shown}{', ...' if len(finding.items) > 3 else ''}"


def overlaps(found: Overlap) -> bool:
    """Whether anything of the probe was found."""
    return bool(found.exact) or any(found.grams.values())


def overlap_lines(found: Overlap) -> Iterator[str]:
    """What of the probe stands in the training set, and where first."""
    yield f"{'!' if overlaps(found) else ' '} training data   {found.sentence}"
    for task, name, row in found.examples:
        yield f"    {task} {name}: row {row:,}"
