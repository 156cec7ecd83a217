"""HTML fragment of a comparison or a run, which a notebook shows for an object in a cell's last line.

It has no script, and every rule of its style is bound to its class. All text is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from forgetwatch.comparing import Comparison, Trajectory, conclude
from forgetwatch.report.cells import HEADINGS, PANELS, group_cells
from forgetwatch.report.plots import CURVES, PASSAGES, passages_figure, svg, trajectory_figure
from forgetwatch.report.run_table import alarm_lines
from forgetwatch.report.summary import decisions
from forgetwatch.visible_text import visible, without_folders

ROWS = 30
"""Maximum number of categories that are listed, in the order of the probe."""


def comparison_fragment(comparison: Comparison) -> str:
    """Fragment with the sentence, the decisions and the categories of a comparison."""
    return _fragment(str(comparison), comparison)


def trajectory_fragment(trajectory: Trajectory) -> str:
    """Fragment with the last look of a run against its start, and the curves if there is a look."""
    last = trajectory.comparisons[-1]
    looks = len(trajectory) - 1
    heading = f"{looks} look{'' if looks == 1 else 's'}, the last at step {trajectory.steps[-1]}: {last}"
    if not looks:
        return _fragment(f"no look after the baseline {last.labels[0]}", last, trajectory=trajectory)
    alarms = [line.plain for line in alarm_lines(trajectory)]
    curves = [svg(lambda: passages_figure(trajectory), name="passages", label=PASSAGES)]
    if last.all.n:
        curves.insert(0, svg(lambda: trajectory_figure(trajectory), name="curves", label=CURVES))
    return _fragment(heading, last, trajectory=trajectory, curves=curves, alarms=alarms)


def _fragment(
    heading: str,
    comparison: Comparison,
    *,
    trajectory: Trajectory | None = None,
    curves: Sequence[Markup | None] = (),
    alarms: list[str] | None = None,
) -> str:
    template = files("forgetwatch.report").joinpath("page", "fragment.html").read_text(encoding="utf-8")
    groups = [comparison.all, *comparison.by("category").values()]
    # Groups of passages alone have a table of their own, and are in no other.
    answered = [group for group in groups if group.n or not comparison.all.passages]
    panels = [(measure, [group for group in groups if group[measure] is not None]) for measure in PANELS]
    made = decisions(conclude(comparison, trajectory=trajectory))
    return (
        Environment(autoescape=True, undefined=StrictUndefined)
        .from_string(template)
        .render(
            heading=visible(heading),
            decisions=[(one.word, visible(one.sentence)) for one in made],
            # One more than ROWS: the first row is the whole.
            tables=[
                (
                    HEADINGS.values(),
                    [(visible(group.name), group_cells(group).values()) for group in answered[: ROWS + 1]],
                ),
                *(
                    (
                        measure.headings.values(),
                        [(visible(group.name), measure.cells(group[measure]).values()) for group in shown[: ROWS + 1]],
                    )
                    for measure, shown in panels
                ),
            ],
            more=max(*(len(shown) - ROWS - 1 for shown in (answered, *(shown for _, shown in panels))), 0),
            curves=[drawn for drawn in curves if drawn is not None],
            alarms=alarms or [],
            notes=[
                visible(without_folders(note))
                for note in (*(trajectory.notes if trajectory else ()), *comparison.notes)
            ],
        )
    )
