"""What a comparison or a run says below its first screen, as data: sections of sentences and tables.

    alarms       of a run, as sentences
    looks        of a run, a row for each look
    panels       measures with a table of their own, also the drift
    numbers      the table of all groups, corrections for guessing, the paper's numbers, notes

`document` builds it once. The page, Markdown and the detail in a terminal render it: each has one
way to show a table. The page adds figures, the list of questions and the method, which only a page
can show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from forgetwatch.comparing.causes import COLUMNS, Causes
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import Conclusion
from forgetwatch.comparing.groups import Level
from forgetwatch.comparing.paper_means import CategoryMeans, Spread
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.comparing.verdict import estimated_categories
from forgetwatch.measures.base import MISSING_CELL, Measure, sentence_of
from forgetwatch.measures.base_drift import DRIFT, REVERSE, SET_NAMES, reverse_sentence
from forgetwatch.measures.chance import ASSUMES, chance_rows
from forgetwatch.measures.option_mass import MASS
from forgetwatch.measures.scores import PASSAGES
from forgetwatch.report.cells import (
    HEADINGS,
    PANELS,
    drift_looks,
    drift_rows,
    group_cells,
    measure_rows,
    spread_looks,
)
from forgetwatch.report.sentences import LEG_HEADINGS, Summary, alarm_sentences, capital
from forgetwatch.report.stage_tables import category_table, paths_sentence, stage_table
from forgetwatch.text import count, percent
from forgetwatch.visible_text import without_folders

GROUPS: Final = 200
"""Groups of a level in a table; of more, those that lost most."""


LOOKS: Final = 100
"""Looks in a table; of more the first, every n-th, and the last."""


LEVELS: Final[Mapping[Level, str]] = {
    "all": "",
    "kind": "Scored and written",
    "wording": "Wordings",
    "category": "Categories",
    "task": "Tasks",
}
"""Heading of the groups of each level."""


_DRIFT: Final = (
    "The base generated short texts ({}), and each look computes their probability again. KL is "
    "the number of nats a token by which they are less likely now. It needs no right answer. "
    "“Sampled” is the mean over the tokens that the base generated; “summed” is over the base's "
    "likeliest tokens at each position, a lower bound and far less noisy; “exact” is over all "
    "tokens. The floor is the KL of the base itself in other batches, sampled then summed. "
    "Brackets hold 95 % intervals."
)


_INTERVALS: Final = (
    "Clearly known questions are counted without lucky guesses; net changes are the verdict's "
    "estimates. Brackets hold "
    "95 % intervals, those of the categories all together. --json has every number."
)


class Row(NamedTuple):
    """Row of a table: what kind of thing it is about, its name, and its cells by quantity."""

    level: str
    name: str
    cells: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table.

    Attributes:
        of: Heading of the names of its rows.
        headings: Heading of each column, by quantity.
        bodies: (heading, rows) of each part.
        attribute: What its rows are in the page's data attributes; empty for words.
        folded: Line under which the page hides it; empty for none.
    """

    of: str
    headings: Mapping[str, str]
    bodies: Sequence[tuple[str, Sequence[Row]]]
    attribute: str = ""
    folded: str = ""

    @classmethod
    def of_words(cls, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
        """Table of words; the first column has the names."""
        name_heading, *headings_left = headings
        by_heading = dict(zip(headings_left, headings_left, strict=True))
        return cls(
            of=name_heading,
            headings=by_heading,
            bodies=[
                (
                    "",
                    [
                        Row("", row[0], dict(zip(headings_left, row[1:], strict=True)))
                        for row in rows
                    ],
                )
            ],
        )


class Bullets(NamedTuple):
    """Sentences, each with whether it is an alarm."""

    lines: Sequence[tuple[str, bool]]


class Aside(NamedTuple):
    """A sentence on how to read what follows."""

    text: str


class Heading(NamedTuple):
    """A heading within a section, with its name in the page."""

    text: str
    key: str


Part = str | Aside | Bullets | Heading | Table


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading that a reader would search for, and what stands below it.

    Attributes:
        heading: The heading.
        key: Its name in the page; empty for none.
        parts: Sentences, tables and lists in their order.
    """

    heading: str
    parts: Sequence[Part]
    key: str = ""


def document(
    comparison: Comparison,
    screen: Summary,
    *,
    trajectory: Trajectory | None = None,
    causes: Causes | None = None,
    levels: Sequence[Level] = ("all", "kind", "wording", "category"),
) -> list[Section]:
    """Sections below a first screen.

    Args:
        comparison: The comparison; of a run, its last look against its baseline.
        screen: The first screen.
        trajectory: The run, if there is one.
        causes: Whether what was lost was barely known, or near the training rows; None if not
            asked.
        levels: Levels of the groups in tables.
    """
    sections: list[Section] = []
    run = trajectory if trajectory is not None and len(trajectory) > 1 else None
    if run is not None:
        sections += _of_run(run, screen.first.found)
        sections += [] if causes is None else _causes(causes)
    legs = [Table.of_words(LEG_HEADINGS, screen.legs)] if screen.legs else []
    sections.append(Section(heading="How sure is that?", key="sure", parts=[*legs, *screen.sure]))
    by_level = [
        [group.outcomes for group in comparison.by(level).values()]
        for level in ("category", "task")
    ]
    if by_level[0] == by_level[1] and "category" in levels:  # the same groups by other names
        levels = [level for level in levels if level != "task"]
    panels: list[Part] = []
    if run is not None or trajectory is None:  # the start compared with itself shows nothing
        for measure in PANELS:
            panels += (
                [] if comparison.all[measure] is None else _panel(measure, comparison, run, levels)
            )
    numbers = [*_numbers(comparison, levels), *panels, *_drift(comparison, run)]
    return [*sections, Section(heading="All numbers", key="numbers", parts=numbers)]


_AS_TABLE: Final = "The looks as a table"


def _of_run(run: Trajectory, conclusion: Conclusion) -> list[Section]:
    # Looks, alarms, and stages; none where there is nothing to write.
    parts: list[Part] = []
    if run.final.all.n:
        parts.append(
            Table(
                of="step",
                headings=HEADINGS,
                bodies=[("", _looks(run))],
                attribute="group",
                folded=_AS_TABLE,
            )
        )
    parts += _alarms(run, conclusion)
    if run.matrix is not None:
        parts += [Heading("Stages", "stages"), capital(f"{paths_sentence(run.matrix)}.")]
        parts += [Aside("Each stage, against the base and against the stage before.")]
        parts += [Table.of_words(*stage_table(run.matrix))]
        parts += [
            Aside(
                "Right answers in percent after each stage; in brackets questions lost and gained."
            )
        ]
        parts += [Table.of_words(*category_table(run.matrix))]
    return [Section(heading="The run, look by look", key="curves", parts=parts)] if parts else []


def _alarms(run: Trajectory, conclusion: Conclusion) -> list[Part]:
    # The guard's findings on alarms are those of the first list.
    guard = [
        (finding.line, True)
        for finding in run.findings
        if finding.line and finding.what not in ("alarm", "known")
    ]
    sentences = alarm_sentences(run, conclusion)
    alarms = [sentence for sentence in sentences if sentence[1]]
    parts: list[Part] = [Bullets(alarms)] if alarms else []
    parts += [Aside(sentence) for sentence, is_alarm in sentences if not is_alarm]
    parts += (
        [Aside("Other findings of the guard, as it logged them:"), Bullets(guard)] if guard else []
    )
    return [Heading("Alarms", "alarms"), *parts] if parts else []


def _causes(causes: Causes) -> list[Section]:
    # None where too few were lost for a test.
    if not causes.is_tested:
        return []
    heads = ["the lowest part", "the middle", "the highest part", "explains %", "permuted %", "p"]
    rows = []
    for cause in causes.causes:
        thirds = [cause.parts[at] for at in (0, len(cause.parts) // 2, -1)] if cause.parts else []
        cells = [
            f"{percent(third.lost / third.items)} % of {count(third.items)}" for third in thirds
        ]
        cells += [MISSING_CELL] * (3 - len(cells))
        if cause.separation is not None and cause.explained is not None:
            cells += [
                percent(cause.explained.share),
                percent(cause.explained.permuted),
                f"{cause.p_value:.2g}",
            ]
        rows.append([COLUMNS[cause.column], *cells, *[MISSING_CELL] * (len(heads) - len(cells))])
    parts: list[Part] = [
        " ".join(
            f"{capital(sentence)}."
            for sentence in (causes.answers_text(), str(causes), causes.between_text())
            if sentence
        ),
        Table.of_words(["lost, by", *heads], rows),
        Aside(_CAUSES if len(causes.causes) > 1 else f"{_CAUSES} {_MORE_CAUSES}"),
    ]
    if causes.categories:
        used = [
            [
                name,
                f"{count(lost)} of {count(items)}",
                MISSING_CELL if math.isnan(uses) else f"{uses:.1f}",
            ]
            for name, items, lost, uses in causes.categories
        ]
        parts.append(
            Table.of_words(["category", "lost", "its words in the training rows, per 1,000"], used)
        )
    return [Section(heading="Which knowledge it lost", key="causes", parts=parts)]


_CAUSES: Final = (
    "Of the questions that the base had right. “Explains” is the part of what was lost that goes "
    "with the column within categories; “permuted” is what 95 of 100 permuted columns stay below."
)


_MORE_CAUSES: Final = (
    "`forgetwatch report RUN --train FILE` adds how near the questions are to the training rows."
)


def _looks(run: Trajectory) -> list[Row]:
    # Each with the numbers of all items.
    shown_steps, looks = spread_looks(run, LOOKS), zip(run.steps, run.comparisons, strict=True)
    return [
        Row("look", f"{step:,}", group_cells(look.all))
        for step, look in looks
        if step in shown_steps
    ]


def _panel(
    measure: Any, comparison: Comparison, run: Trajectory | None, levels: Sequence[Level]
) -> list[Part]:
    # Groups, and looks of a run.
    bodies = []
    for level in levels:
        groups = [group for group in comparison.groups if group.level == level]
        if measure is MASS:
            groups.sort(key=lambda group: -group.forgotten)
        rows = [
            Row(group.level, group.name, cells) for group, cells in measure_rows(measure, groups)
        ]
        bodies += [(LEVELS[level], rows[:GROUPS])] if rows else []
    looks = []
    if run is not None and measure is PASSAGES:  # the curves of others are in --json
        shown_steps = spread_looks(run, LOOKS)
        looks = [
            Row("look", f"{step:,}", measure.cells(look.all[measure]))
            for step, look in zip(run.steps, run.comparisons, strict=True)
            if step in shown_steps
        ]
    about = f"{measure.about} {sentence_of(measure, comparison.all[measure])}".rstrip()
    return _measured(
        measure,
        about,
        "group",
        bodies,
        looks,
        "group" if measure.key == "passages" else measure.key,
    )


def _drift(comparison: Comparison, run: Trajectory | None) -> list[Part]:
    # None where drift was not measured.
    looks = {} if run is None else drift_looks(run, LOOKS)
    # The last look of a run may lack the drift that earlier ones have.
    latest = comparison.drift or next(reversed(looks.values()), None)
    if not latest:
        return []
    texts = [
        f"{count(set_drift.completions)} after {SET_NAMES.get(name, name)}"
        for name, set_drift in latest.items()
        if name != REVERSE
    ]
    rows_now = [Row("drift", name, cells) for name, cells in drift_rows(comparison.drift or {})]
    rows = [
        Row("look", f"{step:,}, {name}", cells)
        for step, drift in looks.items()
        for name, cells in drift_rows(drift)
    ]
    about = _DRIFT.format(", ".join(texts))
    for name, set_drift in latest.items():
        sentence = reverse_sentence(set_drift) if name == REVERSE else sentence_of(DRIFT, set_drift)
        if sentence:
            about += (
                f" {sentence}"
                if name == REVERSE
                else f" After the {SET_NAMES.get(name, name)}, {sentence}"
            )
    return _measured(DRIFT, about, "prompts", [("", rows_now)] if rows_now else [], rows, "group")


def _measured(
    measure: Measure[Any],
    about: str,
    of: str,
    bodies: Sequence[tuple[str, Sequence[Row]]],
    looks: Sequence[Row],
    attribute: str,
) -> list[Part]:
    headings = measure.headings
    parts: list[Part] = [Heading(measure.title, measure.key), Aside(about)]
    if bodies:
        parts.append(Table(of=of, headings=headings, bodies=bodies, attribute=attribute))
    else:
        parts.append(Aside("At the last look it was not measured."))
    if looks:
        parts.append(
            Table(
                of="step",
                headings=headings,
                bodies=[("", looks)],
                attribute=attribute,
                folded=_AS_TABLE,
            )
        )
    return parts


def _numbers(comparison: Comparison, levels: Sequence[Level]) -> list[Part]:
    # Groups, corrections for guessing, the paper's numbers, and notes.
    bodies, left_out = _groups(comparison, levels)
    parts: list[Part] = [Aside(f"{_INTERVALS} {left_out}".rstrip())]
    if bodies:
        parts.append(Table(of="group", headings=HEADINGS, bodies=bodies, attribute="group"))
    else:
        parts = [Aside("No question was compared; the table of passages below has all numbers.")]
    if rows := chance_rows(comparison.all.chance, comparison.all.n):
        corrected = [
            Row("", name, {"forgotten": lost, "gained": won, "text": ASSUMES[name]})
            for name, lost, won, _ in rows
        ]
        headings = {
            "forgotten": "forgotten %",
            "gained": "gained %",
            "text": "assumption and error",
        }
        parts.append(
            Table(
                of="corrected for guessing",
                headings=headings,
                bodies=[("", corrected)],
                attribute="correction",
            )
        )
    if comparison.paper_compat is not None:
        parts.append(_as_the_paper(comparison.paper_compat))
    if notes := comparison.notes:
        parts.append(Bullets([(without_folders(note), False) for note in notes]))
    return parts


def _groups(
    comparison: Comparison, levels: Sequence[Level]
) -> tuple[list[tuple[str, list[Row]]], str]:
    # In their order; the sentence is on those left out.
    bodies, left, many = [], [], len(estimated_categories(comparison))
    for level in levels:
        groups = [group for group in comparison.groups if group.level == level]
        if comparison.all.passages:  # groups of passages alone have a table of their own
            groups = [group for group in groups if group.n]
        # Chosen by what they lost, shown in the order of the probe.
        kept = {group.name for group in sorted(groups, key=lambda group: -group.forgotten)[:GROUPS]}
        if len(groups) > len(kept):
            left.append(
                f"{count(len(groups) - len(kept))} more {LEVELS[level].lower()} that lost no "
                "more are left out."
            )
        if groups:
            rows = [
                Row(group.level, group.name, group_cells(group, many))
                for group in groups
                if group.name in kept
            ]
            bodies.append((LEVELS[level], rows))
    return bodies, " ".join([*left, "--json and --output of a .csv file have all."] if left else [])


def _as_the_paper(macro: CategoryMeans) -> Table:
    rates_named = [("all", macro.forgetting, macro.backward_transfer)]
    rates_named += [(name, *rates) for name, rates in sorted(macro.by_category.items())]
    rows = [
        Row("", name, {"forgotten": _spread(lost), "gained": _spread(won)})
        for name, lost, won in rates_named
    ]
    headings = {"forgotten": "forgotten %", "gained": "gained %"}
    return Table(
        of="as the paper's code computes it",
        headings=headings,
        bodies=[("", rows)],
        attribute="paper",
    )


def _spread(spread: Spread) -> str:
    cell = percent(spread.mean)
    return cell if math.isnan(spread.sd) else f"{cell}, sd {percent(spread.sd)}"
