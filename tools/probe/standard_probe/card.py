"""The tables of the card: the number of items of each kind, counted from the probes, and what two models made of them.

The number of questions of difficulty 0, of `standard`, is put into the text. A table goes between two lines of the card
and replaces the text that was there:

    <!-- figures: standard -->
    <!-- end -->
    <!-- measured: standard -->
    <!-- end -->
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from forgetwatch.errors import ProbeError
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from standard_probe import measured


def with_figures(card: str, probes: Sequence[Probe]) -> str:
    """Put the figures of the probes into a card.

    Raises:
        ProbeError: If the card lacks the two lines of a probe, or the place of the number of easiest questions.
    """
    for probe in probes:
        card = _filled(card, f"figures: {probe.name}", figures(probe))
        if probe.name == "standard":
            card = _with_floor(card, probe)
    return card


def _with_floor(card: str, probe: Probe) -> str:
    """Put the number of questions of difficulty 0 before the names of their categories."""
    items = [item for item in probe if "difficulty:0" in item.tags]
    text = f"questions of {' and '.join(sorted({item.category for item in items}))}"
    card, found = re.subn(rf"\(\d+ {text}\)", f"({len(items)} {text})", card)
    if not found:
        raise ProbeError(f"the card needs '(0 {text})' for the number of questions of difficulty 0")
    return card


def with_measured(card: str, probe: Probe) -> str:
    """Put the measured difficulty of a probe into a card.

    Raises:
        ProbeError: If the card lacks the two lines, or an item was not measured.
    """
    rows = measured.read()
    if missing := [item.id for item in probe if item.id not in rows]:
        raise ProbeError(
            f"{len(missing)} items of {probe.name!r} were not measured, the first is {missing[0]}; run "
            "standard_probe.measured"
        )
    return _filled(card, f"measured: {probe.name}", f"\n{measured.tables(probe, rows)}\n\n")


def _filled(card: str, name: str, text: str) -> str:
    lines = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not lines.search(card):
        raise ProbeError(f"the card needs a line '<!-- {name} -->' and after it '<!-- end -->'")
    return lines.sub(lambda found: f"{found[1]}{text}{found[2]}", card)


def figures(probe: Probe) -> str:
    """Markdown table of a probe's items by category and task, by number of options and by difficulty."""
    difficulties, options = _difficulties(probe), _options(probe)
    header = ["category", "task", "items", *(f"k={k}" for k in options), *(f"difficulty {one}" for one in difficulties)]
    rows = []
    for category, own in groupby(sorted(probe, key=_category), key=_category):
        items = list(own)
        rows.append([f"**{category}**", "", *_counts(items, options, difficulties)])
        for task, of_task in groupby(sorted(items, key=_task), key=_task):
            rows.append(["", task, *_counts(list(of_task), options, difficulties)])
    rows.append(["**all**", "", *_counts(list(probe), options, difficulties)])
    lines = [header, ["---", "---", *["---:"] * (len(header) - 2)], *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"\n{len(probe):,} items, fingerprint `{probe.fingerprint[:16]}`.{_golds(probe, options)}\n\n{table}\n\n"


def _counts(items: Sequence[Item], options: Sequence[int], difficulties: Sequence[str]) -> list[str]:
    ks, tags = Counter(item.k for item in items), Counter(tag for item in items for tag in item.tags)
    numbers = [len(items), *(ks[k] for k in options), *(tags[f"difficulty:{one}"] for one in difficulties)]
    return [f"{number:,}" for number in numbers]


def _golds(probe: Probe, options: Sequence[int]) -> str:
    """Sentence with the number of right options at each position."""
    there = Counter((item.k, item.answer) for item in probe if item.choices)
    told = [f"of k={k}: {', '.join(str(there[k, gold]) for gold in range(k))}" for k in options]
    return f" Right options by place, {'; '.join(told)}." if told else ""


def _options(probe: Probe) -> list[int]:
    return sorted({item.k for item in probe if item.k is not None})


def _difficulties(probe: Probe) -> list[str]:
    tags = {tag for item in probe for tag in item.tags}
    return sorted(tag.removeprefix("difficulty:") for tag in tags if tag.startswith("difficulty:"))


def _category(item: Item) -> str:
    return item.category


def _task(item: Item) -> str:
    return item.task
