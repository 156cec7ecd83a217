"""The figures of the card: the number of items of each kind, counted from the probes.

A table goes between two lines of the card and replaces the text that was there:

    <!-- figures: standard -->
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


def with_figures(card: str, probes: Sequence[Probe]) -> str:
    """Put the figures of the probes into a card.

    Raises:
        ProbeError: If the card lacks the two lines of a probe.
    """
    for probe in probes:
        lines = re.compile(rf"(<!-- figures: {re.escape(probe.name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not lines.search(card):
            raise ProbeError(f"the card needs a line '<!-- figures: {probe.name} -->' and after it '<!-- end -->'")
        card = lines.sub(rf"\g<1>{figures(probe)}\g<2>", card)
    return card


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
