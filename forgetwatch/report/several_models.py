"""Several models against one base: ranking and matrix, as text for a terminal, Markdown and the page, and as figures.

 #   no model           kept % forgotten gained  change, points         verdict
     1    2 checkpoint-400   97.1        12     17  +0.5 (-0.9 to +1.9)    KEPT

Models are numbered in the order in which they were given, from 1; the base is 0. The columns of the
matrix have these numbers as headings. An asterisk marks the front.

Names in figures are next to the axes, at even distances in the order of the ranking, with a thin
line to each point, so that they never overlap however close the points are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing.kept_share import KEPT_OF
from forgetwatch.comparing.ranking import ModelComparison, RankedModel
from forgetwatch.report.markdown import escaped, table
from forgetwatch.report.plots import BLUE, GREY, name_in, set_tooltip
from forgetwatch.report.terminal import note_lines
from forgetwatch.text import between, count, fit_ends, items, one_line, percent, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MODELS: Final = 6
"""Models in the first table; the detail has all."""
RANKING: Final = (
    "place",
    "no",
    "model",
    "kept %",
    "forgotten",
    "gained",
    "change, points",
    "verdict",
)
"""Headings of the ranking, before those of a target."""

_WIDTH: Final = 80
_NAME: Final = 14
_TARGET: Final = 10
_CHANGE: Final = 22
_SHORT: Final = 19
_DRAWN: Final = 40
"""Columns of a name in a figure."""
_FRONT: Final = "*"
_LINES: Final = 12
"""Maximum number of lines of the first table."""


def several_table(several: ModelComparison, *, notes: Sequence[str] = ()) -> Lines:
    """First table of several models.

    The best of the ranking, how to read the ranking, and the notes that there is room for.

    The best of the ranking, how to read it, and the notes that there is room for.
    """
    title = Text().append("forgetwatch  ", style="bold cyan")
    name = fit_ends(
        f"{len(several.ranking)} models against {several.matrix.labels[0]}", _WIDTH - len(title)
    ).rstrip()
    title.append(name, style="bold").append(
        f"  {items(several.matrix.items)} scored for all", "dim"
    )
    lines = [title, *_ranking_lines(several, several.ranking[:MODELS])]
    if (more := len(several.ranking) - MODELS) > 0:
        lines.append(Text(f"{'':>11}{more} more; --detail has all", style="dim"))
    lines.append(Text(f"kept: share of {KEPT_OF[several.ranking[0].kept.of]}", style="dim"))
    if several.target is not None:
        name = fit_ends(several.target.name, 24).strip()
        words = (
            f"{_FRONT}: no other model is at least as good in kept and {name}, and better in one"
        )
        lines.append(Text(words, style="dim"))
    return Lines(*lines, *note_lines(notes, max(1, _LINES - len(lines))))


def several_detail(several: ModelComparison) -> Lines:
    """Whole ranking, explanations and matrix, for a console."""
    words = [Text(sentence, style="dim") for sentence in several_words(several)]
    return Lines(*_ranking_lines(several, several.ranking), *words, Text(), *_matrix_lines(several))


def _ranking_lines(several: ModelComparison, models: Sequence[RankedModel]) -> list[Text]:
    target = several.target
    wanted = fit_ends(target.name, _TARGET).strip() if target else ""
    heading = f"rank  no. {'model':<{_NAME}} kept % " + (f"{wanted:>{_TARGET}} " if target else "")
    heading += f"forgotten gained  {'change, points':<{_CHANGE}} verdict"
    lines = [Text(heading, style="bold")]
    for model in models:
        cells = ranking_cells(model)
        line = f"{cells['place']:>4} {cells['front'] or ' '}{model.number:>3} {fit_ends(model.label, _NAME)} "
        line += f"{percent(model.kept.shown[0]):>6} " + (
            f"{cells['target']:>{_TARGET}} " if target else ""
        )
        line += f"{cells['forgotten']:>9} {cells['gained']:>6}  "
        line += f"{cells['change']:<{_CHANGE}} "
        lines.append(Text(line + model.verdict))
    return lines


def _matrix_lines(several: ModelComparison) -> list[Text]:
    # In several blocks of columns if one is not enough.
    matrix = several.matrix
    cells = matrix_cells(several)
    widest = max(len(cell) for row in cells for cell in row)
    # Four columns hold the number of the row.
    room = _WIDTH - _SHORT - 4
    width = max(widest, len(str(len(cells)))) + 1
    lines = [
        Text("right in the row, wrong in the column", style="bold"),
        Text(
            f"over {items(matrix.items)} scored for all models; {matrix.left_out:,} left out; "
            "no 0 is the base"
        ),
    ]
    for start in range(0, len(cells), room // width):
        columns = range(start, min(start + room // width, len(cells)))
        lines.append(
            Text(
                f"{'':>{_SHORT + 4}}" + "".join(f"{column:>{width}}" for column in columns),
                style="bold",
            )
        )
        for row, label in enumerate(matrix.labels):
            numbers = "".join(f"{cells[row][column]:>{width}}" for column in columns)
            lines.append(Text(f"{row:>3} {fit_ends(label, _SHORT)}{numbers}"))
    return lines


def ranking_cells(model: RankedModel) -> dict[str, str]:
    """Cells of a model in the ranking."""
    return {
        "place": "–" if model.place is None else str(model.place),
        "number": str(model.number),
        "label": model.label,
        "kept": f"{percent(model.kept.shown[0])} ({between(model.kept.shown[1], percent)})",
        "forgotten": count(model.forgotten),
        "gained": count(model.gained),
        "change": f"{points(model.change)} ({between(model.change_interval, points)})",
        "verdict": model.verdict,
        "target": "" if model.target is None else target_text(model.target),
        "front": _FRONT if model.on_front else "",
    }


def matrix_cells(several: ModelComparison) -> list[list[str]]:
    """Cells of the matrix; a dash on the diagonal."""
    return [
        ["–" if row == column else count(lost) for column, lost in enumerate(losses)]
        for row, losses in enumerate(several.matrix.lost)
    ]


def several_words(several: ModelComparison) -> list[str]:
    """Sentences on how to read the ranking, and on gaps."""
    words = [
        f"Kept: share of {KEPT_OF[several.ranking[0].kept.of]}. Change: estimated, of accuracy. "
        "Brackets: 95 %."
    ]
    target = several.target
    if target is None:
        words.append(
            "A model that learnt nothing keeps everything: --target also ranks by what was learnt."
        )
    else:
        better = "less" if target.less_is_better else "more"
        front = [model.number for model in several.ranking if model.on_front]
        words.append(
            f"{_FRONT} On the front: no other model is at least as good in both and better in one; "
            f"{better} {one_line(target.name)} is better. They are {_listed(front)}."
        )
    return words


def several_markdown(several: ModelComparison) -> str:
    """Markdown of the ranking and the matrix."""
    target, matrix = several.target, several.matrix
    names = [*RANKING, *([escaped(target.name), "front"] if target else [])]
    rows = [list(ranking_cells(model).values())[: len(names)] for model in several.ranking]
    numbers = [str(number) for number in range(len(matrix.labels))]
    lost = [
        [*labels, *cells]
        for *labels, cells in zip(numbers, matrix.labels, matrix_cells(several), strict=True)
    ]
    lines = [
        f"# {len(several.ranking)} models against {escaped(matrix.labels[0])}",
        "",
        *table(names, rows),
        "",
        *map(escaped, several_words(several)),
        "",
        f"Right in the row, wrong in the column, over {items(matrix.items)} scored for all models; "
        f"{matrix.left_out:,} left out. No. 0 is the base.",
        "",
        *table(["no", "model", *numbers], lost),
    ]
    return "\n".join([*lines, ""])


def target_text(value: float) -> str:
    """Value of a target metric, to four digits."""
    return f"{value:.4g}"


def _listed(numbers: Sequence[int]) -> str:
    if len(numbers) < 2:
        return f"no {numbers[0]}" if numbers else "none"
    ordered = sorted(numbers)
    return f"nos {', '.join(map(str, ordered[:-1]))} and {ordered[-1]}"


def ranking_figure(several: ModelComparison) -> Figure | None:
    """Figure of what each model keeps.

    Returns:
        The figure, against the target if there is one; None if nothing was right before.
    """
    from matplotlib.figure import Figure

    ranking = [model for model in several.ranking if not math.isnan(model.kept.share)]
    if not ranking:
        return None
    height = 1.3 + 0.34 * len(ranking)
    figure = Figure(
        figsize=(10, height if several.target is None else max(3.6, height)), layout="constrained"
    )
    panel = figure.subplots()
    if several.target is None:
        _draw_alone(panel, ranking)
    else:
        _draw_against(
            panel, ranking, several.target.name, less_is_better=several.target.less_is_better
        )
    measured = KEPT_OF[ranking[0].kept.of].replace(
        "the base", name_in(_DRAWN, several.matrix.labels[0])
    )
    figure.suptitle(f"Kept of {measured}, with 95 % intervals", fontsize=11)
    panel.grid(alpha=0.25)
    panel.tick_params(labelsize=9)
    return figure


def _draw_alone(panel: Axes, ranking: list[RankedModel]) -> None:
    for row, model in enumerate(ranking):
        panel.plot(
            [100 * end for end in model.kept.shown[1]], [row, row], color=BLUE, linewidth=1.8
        )
        (point,) = panel.plot(
            [100 * model.kept.shown[0]], [row], color=BLUE, marker="o", markersize=5
        )
        set_tooltip(point, _told(model))
    panel.set_yticks(
        range(len(ranking)), [_numbered(model.number, model.label) for model in ranking]
    )
    panel.set_xlabel("kept, %", fontsize=10)
    panel.invert_yaxis()  # the first of the ranking at the top


def _draw_against(
    panel: Axes, ranking: list[RankedModel], target: str, *, less_is_better: bool
) -> None:
    # The front is a line of diamonds; names are at the right.
    from matplotlib.patches import ConnectionPatch

    # With a target every model has a value of it.
    spots = [(model.target or 0.0, 100 * model.kept.shown[0]) for model in ranking]
    for model, (x, y) in zip(ranking, spots, strict=True):
        color, marker = (BLUE, "D") if model.on_front else (GREY, "o")
        panel.plot(
            [x, x],
            [100 * end for end in model.kept.shown[1]],
            color=color,
            linewidth=1.0,
            alpha=0.5,
        )
        (point,) = panel.plot([x], [y], color=color, marker=marker, markersize=6, zorder=3)
        set_tooltip(point, f"{_told(model)}, {target} {target_text(x)}")
    front = sorted({spot for model, spot in zip(ranking, spots, strict=True) if model.on_front})
    panel.plot(
        [x for x, _ in front],
        [y for _, y in front],
        color=BLUE,
        linestyle="--",
        linewidth=1.2,
        zorder=2,
    )
    if less_is_better:
        panel.invert_xaxis()
    panel.margins(x=0.06, y=0.06)
    for index, (model, spot) in enumerate(zip(ranking, spots, strict=True)):
        at = 1 - (index + 0.5) / len(ranking)
        # From the point, in units of the data, to the name, in units of the axes.
        leader = ConnectionPatch(
            spot, (1.035, at), "data", "axes fraction", axesA=panel, axesB=panel
        )
        leader.set(color=GREY, linewidth=0.5, alpha=0.6)
        panel.add_artist(leader)
        weight = "bold" if model.on_front else "normal"
        panel.text(
            1.04,
            at,
            _numbered(model.number, model.label),
            transform=panel.transAxes,
            va="center",
            fontsize=9,
            fontweight=weight,
        )
    better = "less is better, to the right" if less_is_better else "more is better"
    panel.set_xlabel(f"{name_in(_DRAWN, target)} ({better}); diamonds: the front", fontsize=10)
    panel.set_ylabel("kept, %", fontsize=10)


def _told(model: RankedModel) -> str:
    cells = ranking_cells(model)
    return f"{model.label}: kept {cells['kept']} %, {cells['forgotten']} forgotten, {cells['gained']} gained"


def _numbered(number: int, label: str) -> str:
    return f"{number}  {name_in(_DRAWN, label)}"
