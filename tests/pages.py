"""Comparisons and runs for tests of pages: choices, samples, clusters, generated answers, and hostile text."""

import io
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from support import snapshot

from forgetwatch import Item, Probe, Snapshot, Trajectory, compare
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.flips import Flip, flips
from forgetwatch.comparing.ranking import ModelComparison, Target, rank_models, transition_matrix
from forgetwatch.comparing.trajectory import trajectory_of
from forgetwatch.report.eight_lines import first_table
from forgetwatch.report.terminal import comparison_detail, first_lines

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "</style><img src=x onerror=alert(3)>",
    '"><svg onload=alert(4)>',
    "{{ 7 * 7 }} {% raw %} ${7 * 7}",
    "<!-- <script>",
    "]]>&lt;b&gt;&amp;",
    "$\\frac{1}{0$ \\command $x_1$",
    "left\u202eright\u2066\u200f",
    "Z\u0351\u036b\u0343a\u0300l\u0334\u0301g\u0321o\u0489",
    "nul\x00 and \x1b[31mescape\x7f",
    "line\u2028and\u2029paragraph\r\nand\ttab",
    "漢字 العربية עברית 🦜",
    "w" * 3000,
)
"""Texts that would have an effect if a page treated them as anything but text."""


class Made(NamedTuple):
    """Inputs of a page."""

    comparison: Comparison
    changed: list[Flip]
    before: Snapshot
    after: Snapshot
    probe: Probe | None


def printed(*shown: object) -> str:
    """Text of what a console of 100 columns shows."""
    out = io.StringIO()
    console = Console(file=out, width=100, highlight=False)
    for one in shown:
        console.print(one)
    return out.getvalue()


def table(comparison: Comparison, **options: Any) -> Any:
    """The first table of a comparison, or of a run (`trajectory`), with its notes, for a console."""
    return first_lines(first_table(comparison, **options), comparison.notes)


def detail_of(
    comparison: Comparison, *, trajectory: Trajectory | None = None, **options: Any
) -> Any:
    """All sections of a comparison, or of a run at its last look, for a console."""
    first = first_table(comparison, trajectory=trajectory)
    return comparison_detail(comparison, first, trajectory=trajectory, **options)


def unfolded(table: str) -> str:
    """The first table with each label's text in one line."""
    return re.sub(r"\n {11}(?=\S)", " ", table)


def compared(
    before: Sequence[bool | None],
    after: Sequence[bool | None],
    *,
    null: Sequence[bool] | None = None,
    **columns: Any,
) -> Comparison:
    """Comparison of snapshots that have the same columns but for the outcomes."""
    again = None if null is None else snapshot(null, **columns)
    return compare(
        before=snapshot(before, **columns), after=snapshot(after, **columns), repeat=again
    )


def ranked(
    before: Snapshot, afters: Sequence[Snapshot], target: Target | None
) -> tuple[ModelComparison, list[Comparison]]:
    """Several models together, and the comparison of each with the base."""
    comparisons = [compare(before=before, after=after) for after in afters]
    matrix, ranking = transition_matrix([before, *afters]), rank_models(comparisons, target)
    return ModelComparison(matrix=matrix, ranking=ranking, target=target), comparisons


def watched(
    *looks: Sequence[bool | None], planned: int | None = None, every: int = 1, **columns: Any
) -> Trajectory:
    """Run whose looks have the same columns but for the outcomes."""
    meta = columns.pop("meta", {})
    made = [
        snapshot(right, meta={**meta, "step": at * every}, **columns)
        for at, right in enumerate(looks)
    ]
    return trajectory_of(made, planned=planned)


def made(before: Snapshot, after: Snapshot, probe: Probe | None = None, **options: Any) -> Made:
    comparison = compare(before=before, after=after, **options)
    return Made(comparison, flips(before, after, probe=probe), before, after, probe)


@cache
def choices(items: int = 240, *, seed: int = 0) -> Made:
    """Answers among four options in three categories and six tasks; a twentieth is unscored after."""
    probe = Probe(
        [
            Item(
                id=f"q{i}",
                task=f"task {i % 6}",
                category=("Arts", "Math", "Law")[i % 3],
                prompt=f"Question number {i}: which colour has {'kite' if i % 2 else 'boat'} {i}?",
                choices=(f" red {i}", f" green {i}", f" blue {i}", f" grey {i}"),
                answer=i % 4,
            )
            for i in range(items)
        ],
        name="colours",
    )
    rng = np.random.default_rng(seed)
    return made(*(_look(probe, rng, step) for step in (0, 100)), probe)


def _look(probe: Probe, rng: np.random.Generator, step: int) -> Snapshot:
    items = len(probe)
    gold = np.array([item.answers[0] for item in probe])
    logits = rng.normal(size=(items, 4))
    logits[np.arange(items), gold] += np.where(
        np.arange(items) % 3 == 1, 2.5 - step / 60, 1.5 + step / 100
    )
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    chosen, ranked = logits.argmax(axis=1), np.sort(logits, axis=1)
    correct: list[Any] = (chosen == gold).tolist()
    if step:
        correct[::20] = [None] * len(correct[::20])
    return Snapshot.from_columns(
        {
            **_names(probe),
            "k": [4] * items,
            "gold": gold,
            "chosen": chosen,
            "correct": correct,
            "gold_share": shares[np.arange(items), gold],
            "margin": ranked[:, -1] - ranked[:, -2],
            "choice_logprobs": np.log(shares).tolist(),
        },
        {"model": "org/toy", "step": step, "probe": {"name": probe.name}},
    )


def _names(probe: Probe) -> dict[str, Any]:
    return {
        "item_id": [item.id for item in probe],
        "content_hash": [item.content_hash for item in probe],
        "task": [item.task for item in probe],
        "category": [item.category for item in probe],
    }


def sure(times: int = 1, *, seed: int = 4) -> Made:
    """Answers with at least 95 % or at most 40 % of the probability, so that counts do not depend on what is sure.

    Of each 120 items with four options 60 are known, and 12 of these lost; 40 are surely wrong, of which 10 are on
    another wrong option after and 5 right; the rest are unsure and stay. By luck alone 40/3 are known and 10/2 lost.
    """
    n = 120 * times
    kind = np.arange(n) % 120
    was = np.where((kind < 60) | (kind >= 100), 0, 1)
    now = np.where(
        kind < 12,
        1,
        np.where((kind >= 60) & (kind < 70), 2, np.where((kind >= 70) & (kind < 75), 0, was)),
    )
    names = {
        "item_id": [f"q{i}" for i in range(n)],
        "content_hash": [f"h{i}" for i in range(n)],
        "task": [f"t{i % 4}" for i in range(n)],
        "category": ["AB"[i % 2] for i in range(n)],
        "k": [4] * n,
        "gold": [0] * n,
    }
    sides = []
    for chosen, name in ((was, "a"), (now, "b")):
        scores = np.random.default_rng(seed + len(sides)).uniform(0, 0.2, (120, 4))[kind]
        scores[np.arange(n), chosen] += np.where(kind < 100, 5.0, 0.4)
        shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        columns = {"chosen": chosen, "correct": (chosen == 0).tolist(), "gold_share": shares[:, 0]}
        columns["choice_logprobs"] = np.log(shares).tolist()
        sides.append(Snapshot.from_columns({**names, **columns}, {"model": name}))
    return made(*sides)


def samples() -> Made:
    """Sixty items with three samples each."""
    rng = np.random.default_rng(1)
    names = {
        "item_id": [f"q{i // 3}" for i in range(180)],
        "content_hash": [f"h{i // 3}" for i in range(180)],
        "sample": [i % 3 for i in range(180)],
        "task": ["t"] * 180,
        "category": ["AB"[i // 3 % 2] for i in range(180)],
    }
    return _outcomes(names, *((rng.random(180) < share).tolist() for share in (0.7, 0.6)))


def clusters() -> Made:
    """Ninety items in groups of five that flip together."""
    rng = np.random.default_rng(2)
    names = {
        "item_id": [f"q{i}" for i in range(90)],
        "content_hash": [f"h{i}" for i in range(90)],
        "task": [f"t{i % 2}" for i in range(90)],
        "category": ["AB"[i // 45] for i in range(90)],
        "cluster": [f"passage {i // 5}" for i in range(90)],
        "k": [4] * 90,
    }
    return _outcomes(
        names, *(np.repeat(rng.random(18) < share, 5).tolist() for share in (0.8, 0.5))
    )


def _outcomes(names: dict[str, Any], before: list[bool], after: list[bool]) -> Made:
    sides = (
        Snapshot.from_columns({**names, "correct": right}, {"model": model})
        for right, model in ((before, "a"), (after, "b"))
    )
    return made(*sides)


def written(outputs: Sequence[tuple[str, str]] = (("It is 7.", "It is 8, I think."),) * 4) -> Made:
    """Open answers, all right before and wrong after, with the generated texts."""
    probe = Probe(
        [
            Item(
                id=f"o{i}",
                task="open",
                category="Sums",
                prompt=f"What is {i} + 7?",
                answer="7",
                match="number",
            )
            for i in range(len(outputs))
        ],
        name="sums",
    )
    sides = [
        Snapshot.from_columns(
            {**_names(probe), "correct": [right] * len(outputs), "output": texts}, {"model": name}
        )
        for right, texts, name in zip((True, False), zip(*outputs, strict=True), "ab", strict=True)
    ]
    return made(*sides, probe)


@cache
def run(items: int = 240, looks: int = 5) -> tuple[Trajectory, Probe]:
    """A run that loses Math, look by look."""
    probe = choices(items).probe
    assert probe is not None
    rng = np.random.default_rng(3)
    return trajectory_of(
        [_look(probe, rng, 40 * look) for look in range(looks)], planned=looks - 1
    ), probe


@cache
def hostile() -> Made:
    """Hostile text in every field that holds foreign text; an unpaired surrogate in a name, which no table refuses."""
    long = "a b " * 250_000
    texts = [*HOSTILE, *(f"{text} again" for text in HOSTILE)]
    probe = Probe(
        [
            Item(
                id=f"{text}-{i}",
                task=f"{text} task",
                category=text,
                prompt=f"{text} {long if i == 0 else ''} {text}",
                choices=(text, f"{text} other", long if i == 1 else "c"),
                answer=i % 2,
            )
            for i, text in enumerate(texts)
        ],
        name=HOSTILE[0],
    )
    names = _names(probe)
    gold = [item.answers[0] for item in probe]
    sides = []
    for after in (0, 1):
        snapshot = Snapshot.from_columns(
            {
                **names,
                "k": [3] * len(probe),
                "gold": gold,
                "chosen": [(right + after) % 3 for right in gold],
                "correct": [not after] * len(probe),
                "output": [
                    f"{text} {long if i == 2 else ''}{after}" for i, text in enumerate(texts)
                ],
            },
            {"model": f"{HOSTILE[3]}\udfff{after}", "probe": {"name": HOSTILE[2]}},
            tuple(HOSTILE),
        )
        sides.append(snapshot)
    return made(*sides, probe)


def plain(text: str) -> str:
    """Text with runs of white space as one space, as a browser shows it."""
    return re.sub(r"\s+", " ", text).strip()
