"""What a comparison or a run says below its first screen, as data: sections of sentences and tables.

    alarms       of a run, as sentences
    looks        of a run, a row for each look
    panels       measures with a table of their own, also the drift
    numbers      the table of all groups, corrections for guessing, the paper's numbers, notes

`document` builds it once. The page, Markdown and the detail in a terminal render it: each has one way to show a table.
The page adds figures, the list of questions and the method, which only a page can show.

**Cells.** The numbers of a group as cells, for Markdown, page and notebook; each measure rounds its own.

    group_cells     one text for each quantity in `HEADINGS`, the columns of the table of all groups
    PANELS          measures that have a table of their own, with `measure_rows`
    measure_tables  such tables of several comparisons, with a row for each
    drift_rows      the table of the drift, and `drift_looks` those of the looks of a run

Rates are in percent and differences in points, both to one decimal, changes of a log score in nats; brackets hold 95 %
intervals.

**Stages** of one model as text: the matrix, and the paths of the questions.

stage_lines      the first table in a terminal: a line for each stage
stage_table, category_table    tables of the page and of Markdown: each stage, and each category by stage
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rich.table import Table as Lines

from forgetwatch.comparing.causes import COLUMNS, Causes
from forgetwatch.comparing.comparison import CategoryMeans, Comparison, Spread
from forgetwatch.comparing.decision import Conclusion
from forgetwatch.comparing.groups import Group, Level
from forgetwatch.comparing.trajectory import StageMatrix, Trajectory
from forgetwatch.comparing.verdict import estimated, estimated_categories, leg_interval
from forgetwatch.measures.base import MISSING_CELL, GroupMeasure, Measure, Quantity, sentence_of
from forgetwatch.measures.base_drift import DRIFT, REVERSE, SET_NAMES, LookDrift, reverse_sentence
from forgetwatch.measures.chance import ASSUMES, chance_rows
from forgetwatch.measures.option_mass import MASS
from forgetwatch.measures.quantities import MEASURE_OF, MEASURES
from forgetwatch.measures.scores import PASSAGES
from forgetwatch.metrics.intervals import wilson
from forgetwatch.report.sentences import LEG_HEADINGS, Summary, alarm_sentences, capital
from forgetwatch.text import between, count, fit_ends, one_line, percent, points
from forgetwatch.visible_text import without_folders

_COLUMNS: Final = (
    *(
        "n",
        "accuracy_before",
        "accuracy_after",
        "forgotten",
        "gained",
        "known_net",
        "known_lost_net",
    ),
    "net_change_estimate",
)


HEADINGS: Final[dict[str, str]] = {
    name: one.heading
    for name in _COLUMNS
    if isinstance(one := MEASURE_OF[name][1], Quantity) and one.heading
}
"""Heading of each column of the table of all groups, by quantity."""


PANELS: Final[tuple[GroupMeasure[Any], ...]] = tuple(
    measure for measure in MEASURES if measure.title
)
"""Measures that have a table of their own."""


def group_cells(group: Group, categories: int = 1) -> dict[str, str]:
    """Return the text of each quantity in `HEADINGS` for one group.

    Args:
        group: The group; dashes if none of its items was compared.
        categories: Number of categories whose intervals hold together.
    """
    if not group.n:
        return dict.fromkeys(HEADINGS, MISSING_CELL) | {"n": count(group.n)}
    measures = {measure.key: measure for measure, _ in map(MEASURE_OF.__getitem__, HEADINGS)}
    cells = {
        name: text
        for measure in measures.values()
        for name, text in measure.cells(group[measure]).items()
    }
    change = f"{points(estimated(group)[0])} ({between(leg_interval(group, categories), points)})"
    return {name: cells.get(name, MISSING_CELL) for name in HEADINGS} | {
        "net_change_estimate": change
    }


def measure_rows(
    measure: GroupMeasure[Any], groups: Iterable[Group]
) -> list[tuple[Group, dict[str, str]]]:
    """Return (Group, its cells) of each group that has a measure."""
    return [(group, cells) for group in groups if (cells := measure.cells(group[measure]))]


def measure_tables(
    named: Sequence[tuple[str, Comparison]],
) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return title, headings and rows of each table that a measure has of its own, a row for each comparison.

    The drift has a row for each set of prompts. Measures that no comparison has are left out.
    """
    tables = []
    for measure in PANELS:
        cells = [(name, measure.cells(one.all[measure])) for name, one in named]
        tables.append(
            (
                measure.title,
                measure.headings,
                [[name, *shown.values()] for name, shown in cells if shown],
            )
        )
    rows = [
        [f"{name}, {of}", *cells.values()]
        for name, one in named
        for of, cells in drift_rows(one.drift or {})
    ]
    tables.append((DRIFT.title, DRIFT.headings, rows))
    return [(title, ["", *headings.values()], rows) for title, headings, rows in tables if rows]


def drift_rows(drift: Mapping[str, LookDrift]) -> list[tuple[str, dict[str, str]]]:
    """Return (Name of the set, its cells) of each set of prompts."""
    return [(SET_NAMES.get(name, name), DRIFT.cells(found)) for name, found in drift.items()]


def drift_looks(trajectory: Trajectory, most: int) -> dict[int, Mapping[str, LookDrift]]:
    """Return the drift at some looks of a run, by step; empty if the baseline alone has one, which is 0."""
    shown = spread_looks(trajectory, most)
    return {step: drift for step, drift in trajectory.drift.items() if step in shown}


def spread_looks(trajectory: Trajectory, most: int) -> list[int]:
    """Return the steps of at most about `most` looks after the baseline: every n-th from the first on, and the last."""
    steps = trajectory.steps[1:]
    stride = -(-len(steps) // most)
    return [step for at, step in enumerate(steps) if at % stride == 0 or at == len(steps) - 1]


_NAME: Final = 20


def stage_lines(matrix: StageMatrix) -> Lines:
    """Return the table of the stages for a console: a row for the base, and one for each stage."""
    table = Lines(box=None, pad_edge=False, header_style="bold")
    table.add_column("stage", no_wrap=True)
    for heading in ("right %", "since the base, points", "since the stage before, points"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row(
        _short(matrix.base), percent(matrix.rows[0].since_first.all.accuracy_before), "", ""
    )
    for row in matrix.rows:
        first, previous = row.since_first.all, row.since_previous
        last = MISSING_CELL if previous is None else _since(previous.all)
        table.add_row(_short(row.name), percent(first.accuracy_after), _since(first), last)
    return table


def paths_sentence(matrix: StageMatrix) -> str:
    """Return the sentence on the paths of the questions that base and all ends have."""
    paths, names = matrix.paths, [one_line(row.name) for row in matrix.rows]
    lost = [
        f"{count(number)} in {name}"
        for number, name in zip(paths.lost, names, strict=True)
        if number
    ]
    text = f"of {count(paths.questions)} questions {count(paths.kept)} were right throughout"
    text += f", {count(sum(paths.lost))} lost" + (f" ({', '.join(lost)})" if lost else "")
    recovered = sum(paths.recovered)
    text += f", {count(recovered)} lost and recovered"
    if not math.isnan(paths.recovered_if_guessed):
        text += f" ({paths.recovered_if_guessed:.1f} by a model that guesses anew at each stage)"
    text += f", {count(paths.learned)} learned, {count(paths.passing)} right for a time"
    return f"{text}, {count(paths.never)} never right"


def stage_table(matrix: StageMatrix) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the table of all questions, a row for each stage."""
    headings = ["stage", "right %"]
    for since in ("base", "stage before"):
        headings += [f"{what} since the {since}" for what in ("forgotten", "gained", "points")]
    base = matrix.rows[0].since_first.all
    rows = [[one_line(matrix.base), _share(base.accuracy_before, base.n), *[""] * 6]]
    for row in matrix.rows:
        first, previous = row.since_first.all, row.since_previous
        last = [""] * 3 if previous is None else _flips(previous.all)
        rows.append(
            [one_line(row.name), _share(first.accuracy_after, first.n), *_flips(first), *last]
        )
    return headings, rows


def category_table(matrix: StageMatrix) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the matrix: categories, with the share right after each stage, and what changed."""
    headings = ["category", one_line(matrix.base), *(one_line(row.name) for row in matrix.rows)]
    rows = []
    for name, shares in matrix.accuracy("category").items():
        cells = [percent(shares[0]) if shares[0] == shares[0] else ""]
        for at, row in enumerate(matrix.rows, start=1):
            share = percent(shares[at]) if shares[at] == shares[at] else ""
            group = row.since_first.by("category").get(name)
            since = (
                ""
                if group is None or not group.n
                else f" (-{count(group.forgotten)} +{count(group.gained)})"
            )
            cells.append(share + since)
        rows.append([one_line(name) or "(none)", *cells])
    return headings, rows


def _since(group: Group) -> str:
    change, interval = estimated(group)
    return f"-{count(group.forgotten)} +{count(group.gained)}  {points(change)} ({between(interval, points)})"


def _flips(group: Group) -> list[str]:
    change, interval = estimated(group)
    return [
        count(group.forgotten),
        count(group.gained),
        f"{points(change)} ({between(interval, points)})",
    ]


def _share(share: float, n: float) -> str:
    return f"{percent(share)} ({between(wilson(share * n, n), percent)})"


def _short(name: str) -> str:
    return fit_ends(one_line(name.rstrip("/").rsplit("/", maxsplit=1)[-1]), _NAME).rstrip()


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
    "The base generated short texts ({}), and each look computes their probability again. KL is the number of nats a "
    "token by which they are less likely now. It needs no right answer. “Sampled” is the mean over the tokens that the "
    "base generated; “summed” is over the base's likeliest tokens at each position, a lower bound and far less noisy; "
    "“exact” is over all tokens. The floor is the KL of the base itself in other batches, sampled then summed. "
    "Brackets hold 95 % intervals."
)


_INTERVALS: Final = (
    "Clearly known questions are counted without lucky guesses; net changes are the verdict's estimates. Brackets hold "
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
        """Return a table of words, of which the first column has the names."""
        first, *others = headings
        named = dict(zip(others, others, strict=True))
        return cls(
            of=first,
            headings=named,
            bodies=[
                ("", [Row("", row[0], dict(zip(others, row[1:], strict=True))) for row in rows])
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
    first: Summary,
    *,
    trajectory: Trajectory | None = None,
    causes: Causes | None = None,
    levels: Sequence[Level] = ("all", "kind", "wording", "category"),
) -> list[Section]:
    """Return the sections below a first screen.

    Args:
        comparison: The comparison; of a run, its last look against its baseline.
        first: The first screen.
        trajectory: The run, if there is one.
        causes: Whether what was lost was barely known, or near the training rows; None if not asked.
        levels: Levels of the groups in tables.
    """
    made: list[Section] = []
    run = trajectory if trajectory is not None and len(trajectory) > 1 else None
    if run is not None:
        made += _of_run(run, first.first.found)
        made += [] if causes is None else _causes(causes)
    legs = [Table.of_words(LEG_HEADINGS, first.legs)] if first.legs else []
    made.append(Section(heading="How sure is that?", key="sure", parts=[*legs, *first.sure]))
    by_level = [
        [one.outcomes for one in comparison.by(level).values()] for level in ("category", "task")
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
    return [*made, Section(heading="All numbers", key="numbers", parts=numbers)]


_AS_TABLE: Final = "The looks as a table"


def _of_run(run: Trajectory, found: Conclusion) -> list[Section]:
    """Return the section on a run: its looks, its alarms, and its stages; none where there is nothing to say."""
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
    parts += _alarms(run, found)
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


def _alarms(run: Trajectory, found: Conclusion) -> list[Part]:
    # The guard's findings on alarms are those of the first list.
    guard = [
        (one.line, True) for one in run.findings if one.line and one.what not in ("alarm", "known")
    ]
    told = alarm_sentences(run, found)
    alarms = [one for one in told if one[1]]
    parts: list[Part] = [Bullets(alarms)] if alarms else []
    parts += [Aside(text) for text, is_alarm in told if not is_alarm]
    parts += (
        [Aside("Other findings of the guard, as it logged them:"), Bullets(guard)] if guard else []
    )
    return [Heading("Alarms", "alarms"), *parts] if parts else []


def _causes(causes: Causes) -> list[Section]:
    """Return the section on why answers were lost; none where too few were lost to tell."""
    if not causes.is_tested:
        return []
    heads = ["the lowest part", "the middle", "the highest part", "explains %", "permuted %", "p"]
    rows = []
    for one in causes.causes:
        thirds = [one.parts[at] for at in (0, len(one.parts) // 2, -1)] if one.parts else []
        cells = [f"{percent(part.lost / part.items)} % of {count(part.items)}" for part in thirds]
        cells += [MISSING_CELL] * (3 - len(cells))
        if one.separation is not None and one.explained is not None:
            cells += [
                percent(one.explained.share),
                percent(one.explained.permuted),
                f"{one.p_value:.2g}",
            ]
        rows.append([COLUMNS[one.column], *cells, *[MISSING_CELL] * (len(heads) - len(cells))])
    parts: list[Part] = [
        " ".join(
            f"{capital(told)}."
            for told in (causes.answers_text(), str(causes), causes.between_text())
            if told
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
    "Of the questions that the base had right. “Explains” is the part of what was lost that goes with the column "
    "within categories; “permuted” is what 95 of 100 permuted columns stay below."
)


_MORE_CAUSES: Final = (
    "`forgetwatch report RUN --train FILE` adds how near the questions are to the training rows."
)


def _looks(run: Trajectory) -> list[Row]:
    """Return the looks after the baseline, each with the numbers of all items."""
    shown, looks = spread_looks(run, LOOKS), zip(run.steps, run.comparisons, strict=True)
    return [
        Row("look", f"{step:,}", group_cells(look.all)) for step, look in looks if step in shown
    ]


def _panel(
    measure: Any, comparison: Comparison, run: Trajectory | None, levels: Sequence[Level]
) -> list[Part]:
    """Return the parts of a measure with a table of its own: groups, and looks of a run."""
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
        shown = spread_looks(run, LOOKS)
        looks = [
            Row("look", f"{step:,}", measure.cells(look.all[measure]))
            for step, look in zip(run.steps, run.comparisons, strict=True)
            if step in shown
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
    """Return the parts of the drift from the base; none where it was not measured."""
    looks = {} if run is None else drift_looks(run, LOOKS)
    # The last look of a run may lack the drift that earlier ones have.
    latest = comparison.drift or next(reversed(looks.values()), None)
    if not latest:
        return []
    texts = [
        f"{count(found.completions)} after {SET_NAMES.get(name, name)}"
        for name, found in latest.items()
        if name != REVERSE
    ]
    now = [Row("drift", name, cells) for name, cells in drift_rows(comparison.drift or {})]
    rows = [
        Row("look", f"{step:,}, {name}", cells)
        for step, drift in looks.items()
        for name, cells in drift_rows(drift)
    ]
    about = _DRIFT.format(", ".join(texts))
    for name, one in latest.items():
        told = reverse_sentence(one) if name == REVERSE else sentence_of(DRIFT, one)
        if told:
            about += (
                f" {told}" if name == REVERSE else f" After the {SET_NAMES.get(name, name)}, {told}"
            )
    return _measured(DRIFT, about, "prompts", [("", now)] if now else [], rows, "group")


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
    """Return all numbers: groups, corrections for guessing, the paper's numbers, and notes."""
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
    """Return the groups of each level under its heading, in their order, and a sentence on those left out."""
    bodies, left, many = [], [], len(estimated_categories(comparison))
    for level in levels:
        groups = [group for group in comparison.groups if group.level == level]
        if comparison.all.passages:  # groups of passages alone have a table of their own
            groups = [group for group in groups if group.n]
        # Chosen by what they lost, shown in the order of the probe.
        kept = {group.name for group in sorted(groups, key=lambda group: -group.forgotten)[:GROUPS]}
        if len(groups) > len(kept):
            left.append(
                f"{count(len(groups) - len(kept))} more {LEVELS[level].lower()} that lost no more are left out."
            )
        if groups:
            rows = [
                Row(one.level, one.name, group_cells(one, many))
                for one in groups
                if one.name in kept
            ]
            bodies.append((LEVELS[level], rows))
    return bodies, " ".join([*left, "--json and --output of a .csv file have all."] if left else [])


def _as_the_paper(macro: CategoryMeans) -> Table:
    named = [("all", macro.forgetting, macro.backward_transfer)]
    named += [(name, *rates) for name, rates in sorted(macro.by_category.items())]
    rows = [
        Row("", name, {"forgotten": _spread(lost), "gained": _spread(won)})
        for name, lost, won in named
    ]
    headings = {"forgotten": "forgotten %", "gained": "gained %"}
    return Table(
        of="as the paper's code computes it",
        headings=headings,
        bodies=[("", rows)],
        attribute="paper",
    )


def _spread(one: Spread) -> str:
    text = percent(one.mean)
    return text if math.isnan(one.sd) else f"{text}, sd {percent(one.sd)}"
