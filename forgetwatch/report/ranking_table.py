"""Several models against one base: ranking and matrix, as text for a terminal, Markdown and the page.

    place   no model             kept %                    net eval_accuracy
        1 *  2 checkpoint-400    97.1 (95.5 to 98.2)      +0.5         0.712

Models are numbered in the order in which they were given, from 1; the base is 0. The columns of the matrix have these
numbers as headings. An asterisk marks the front.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group as Lines
from rich.text import Text

from forgetwatch.comparing import ModelComparison, RankedModel
from forgetwatch.pairing import between, count, fit_ends, items, one_line, percent, points
from forgetwatch.report.markdown import escaped, table
from forgetwatch.report.terminal import note_lines

MODELS: Final = 6
"""Models in the first table; the detail has all."""

_WIDTH: Final = 80
_NAME: Final = 24
_TARGET: Final = 13
_SHORT: Final = 19
_FRONT: Final = "*"
_LINES: Final = 12


def several_table(several: ModelComparison, *, notes: Sequence[str] = ()) -> Lines:
    """First table of several models, of at most 12 lines: the best of the ranking, and how to read it.

    Args:
        several: The ranking and the matrix.
        notes: Notes of all comparisons; as many are shown as there is room for.
    """
    title = Text().append("forgetwatch  ", style="bold cyan")
    name = fit_ends(f"{len(several.ranking)} models against {several.matrix.labels[0]}", _WIDTH - len(title)).rstrip()
    lines = [title.append(name, style="bold"), *_ranking_lines(several, several.ranking[:MODELS])]
    if (more := len(several.ranking) - MODELS) > 0:
        lines.append(Text(f"{'':>11}{more} more; --detail has all", style="dim"))
    lines.append(Text("kept: share of what the base had right and the model still has, 95 % interval", style="dim"))
    if several.target is not None:
        lines.append(Text(f"{_FRONT}: no other model is at least as good in both and better in one", style="dim"))
    return Lines(*lines, *note_lines(notes, max(1, _LINES - len(lines))))


def several_detail(several: ModelComparison) -> Lines:
    """Whole ranking, how to read it, and the matrix, for a console."""
    words = [Text(sentence, style="dim") for sentence in several_words(several)]
    return Lines(*_ranking_lines(several, several.ranking), *words, Text(), *_matrix_lines(several))


def _ranking_lines(several: ModelComparison, models: Sequence[RankedModel]) -> list[Text]:
    target = several.target
    name = fit_ends(target.name, _TARGET).strip() if target else ""
    heading = f"place   no {'model':<{_NAME}} {'kept %':<21} {'net':>7} {name:>{_TARGET}}".rstrip()
    lines = [Text(heading, style="bold")]
    for one in models:
        cells = ranking_cells(one)
        mark = _FRONT if one.on_front else " "
        text = f"{cells['place']:>5} {mark}{one.number:>3} {fit_ends(one.label, _NAME)} {cells['retention']:<21} "
        lines.append(Text(f"{text}{points(one.net_change):>7} {cells['target']:>{_TARGET}}".rstrip()))
    return lines


def _matrix_lines(several: ModelComparison) -> list[Text]:
    """Lines of the matrix, in several blocks of columns if one is not enough."""
    matrix = several.matrix
    cells = matrix_cells(several)
    widest = max(len(cell) for row in cells for cell in row)
    # Four columns hold the number of the row.
    room = _WIDTH - _SHORT - 4
    width = max(widest, len(str(len(cells)))) + 1
    lines = [
        Text("right in the row, wrong in the column", style="bold"),
        Text(f"over {items(matrix.items)} scored for all models; {matrix.left_out:,} left out; no 0 is the base"),
    ]
    for start in range(0, len(cells), room // width):
        shown = range(start, min(start + room // width, len(cells)))
        lines.append(Text(f"{'':>{_SHORT + 4}}" + "".join(f"{column:>{width}}" for column in shown), style="bold"))
        for row, label in enumerate(matrix.labels):
            numbers = "".join(f"{cells[row][column]:>{width}}" for column in shown)
            lines.append(Text(f"{row:>3} {fit_ends(label, _SHORT)}{numbers}"))
    return lines


def ranking_cells(one: RankedModel) -> dict[str, str]:
    """Text of each quantity of one model in the ranking."""
    return {
        "place": "–" if one.place is None else str(one.place),
        "number": str(one.number),
        "label": one.label,
        "retention": f"{percent(one.retention)} ({between(one.retention_interval, percent)})",
        "net_change": f"{points(one.net_change)} ({between(one.net_change_interval, points)})",
        "target": "" if one.target is None else target_text(one.target),
        "front": _FRONT if one.on_front else "",
    }


def matrix_cells(several: ModelComparison) -> list[list[str]]:
    """Text of each cell of the matrix; a dash on the diagonal."""
    return [
        ["–" if row == column else count(lost) for column, lost in enumerate(losses)]
        for row, losses in enumerate(several.matrix.lost)
    ]


def several_words(several: ModelComparison) -> list[str]:
    """Sentences on how to read the ranking, and on what it does not measure."""
    words = ["Kept: share of the questions that the base had right and the model still has. Brackets: 95 %."]
    target = several.target
    if target is None:
        words.append("A model that learnt nothing keeps everything: --target also ranks by what was learnt.")
    else:
        better = "less" if target.less_is_better else "more"
        front = [one.number for one in several.ranking if one.on_front]
        words.append(
            f"{_FRONT} On the front: no other model is at least as good in both and better in one; "
            f"{better} {one_line(target.name)} is better. They are {_listed(front)}."
        )
    for tie in _ties(several.ranking):
        words.append(f"Equal in retention{' and target' if tie[1] else ''}: {_listed(tie[0])}.")
    return words


def several_markdown(several: ModelComparison) -> str:
    """Markdown of the ranking and the matrix."""
    base, target = several.matrix.labels[0], several.target
    names = ["place", "no", "model", "kept %", "net points"]
    names += [target.name, "front"] if target else []
    rows = [list(ranking_cells(one).values())[: len(names)] for one in several.ranking]
    matrix = several.matrix
    numbers = [str(number) for number in range(len(matrix.labels))]
    return "\n".join(
        [
            f"# {len(several.ranking)} models against {escaped(base)}",
            "",
            *table([escaped(name) for name in names], rows),
            "",
            *(f"{escaped(sentence)}" for sentence in several_words(several)),
            "",
            f"Right in the row, wrong in the column, over {items(matrix.items)} scored for all models; "
            f"{matrix.left_out:,} left out. No. 0 is the base.",
            "",
            *table(
                ["no", "model", *numbers],
                [[numbers[row], matrix.labels[row], *cells] for row, cells in enumerate(matrix_cells(several))],
            ),
            "",
        ]
    )


def target_text(value: float) -> str:
    """Value of a target metric, to four digits."""
    return f"{value:.4g}"


def _ties(ranking: Sequence[RankedModel]) -> list[tuple[list[int], bool]]:
    """(numbers of models that share a place, share the target's value too) of each tie."""
    places: dict[int, list[RankedModel]] = {}
    for one in ranking:
        if one.place is not None:
            places.setdefault(one.place, []).append(one)
    return [
        ([one.number for one in tied], len({one.target for one in tied} - {None}) == 1)
        for tied in places.values()
        if len(tied) > 1
    ]


def _listed(numbers: Sequence[int]) -> str:
    """Phrase with the numbers of some models.

    >>> _listed([3]), _listed([1, 2, 5])
    ('no 3', 'nos 1, 2 and 5')
    """
    if len(numbers) < 2:
        return f"no {numbers[0]}" if numbers else "none"
    shown = sorted(numbers)
    return f"nos {', '.join(map(str, shown[:-1]))} and {shown[-1]}"
