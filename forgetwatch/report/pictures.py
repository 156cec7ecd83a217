"""Figures as picture files, each named for its content, and as markup in the colours of the page."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.ranking import ModelComparison
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.errors import SnapshotError
from forgetwatch.files.writing import write_atomically
from forgetwatch.report import plots
from forgetwatch.report.heatmap import heatmap_figure
from forgetwatch.report.several_models import ranking_figure
from forgetwatch.visible_text import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_IN_PAGE: Final = {
    plots.LOST["color"]: "var(--lost)",
    plots.WON["color"]: "var(--won)",
    plots.BLUE: "var(--accent)",
}
"""Variables of the page that replace colours, so that figures follow its dark and light style."""
_FONTS: Final = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Microsoft YaHei",
    "PingFang SC",
    "Noto Emoji",
)

SUFFIXES = (".png", ".svg")

_MAKER: Final = "forgetwatch"
_CREATORS: Final = {"png": "Software"}
"""Key under which the metadata of a picture name the program that drew it, if it is not Creator."""
_HEAD: Final = 2000
"""Bytes at the start of a picture that hold its metadata."""


def save_comparisons(
    comparisons: Sequence[Comparison], folder: Path, *, several: ModelComparison | None = None
) -> list[Path]:
    """Draw comparisons of one base with each model into a folder.

    Returns:
        The files written. The folder is made; `several` has ranking and matrix, if there are
        several models.
    """
    with drawn():
        figures: dict[str, Figure | None] = {}
        if several is not None:
            target = several.target
            against = f"-against-{file_name(target.name)}" if target else ""
            figures[f"retention{against}"] = ranking_figure(several)
        for number, comparison in enumerate(comparisons, 1):
            which = f"{number}-" if len(comparisons) > 1 else ""
            figures[f"categories-{which}{file_name(comparison.labels[1])}"] = plots.bars_figure(
                comparison
            )
        return save_figures(figures, folder)


def save_run(trajectory: Trajectory, folder: Path) -> list[Path]:
    """Draw a run into a folder, which is made.

    Returns:
        The files written, none for a baseline alone.
    """
    if len(trajectory) < 2:
        return []
    with drawn():
        return save_figures(
            {
                "curves": plots.trajectory_figure(trajectory) if trajectory.final.all.n else None,
                "stages": plots.stages_figure(trajectory),
                "passages": plots.passages_figure(trajectory),
                "drift": plots.drift_figure(trajectory),
                "items-look-by-look": heatmap_figure(trajectory),
                f"categories-step-{trajectory.final_step}": plots.bars_figure(trajectory.final),
            },
            folder,
        )


def save_figures(figures: Mapping[str, Figure | None], folder: Path) -> list[Path]:
    """Write each figure as PNG and SVG under its name.

    Returns:
        The files; a figure that is None is left out.
    """
    paths = []
    for name, figure in figures.items():
        if figure is not None:
            for suffix in SUFFIXES:
                paths.append(folder / f"{name}{suffix}")
                save_figure(figure, paths[-1])
    return paths


def file_name(name: str) -> str:
    """File name for a name: letters, digits, dots and dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "model"


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure atomically, in the format of the suffix.

    Raises:
        SnapshotError: If there is a file that forgetwatch did not write.
    """
    path = Path(path)
    if path.is_file() and _MAKER.encode() not in path.read_bytes()[:_HEAD]:
        raise SnapshotError(
            f"{path}: there is a picture that forgetwatch did not draw; name another folder"
        )
    kind = path.suffix.removeprefix(".")
    # Without the date, equal figures give equal SVG files.
    metadata = (
        {"Date": None, "Creator": _MAKER}
        if kind == "svg"
        else {_CREATORS.get(kind, "Creator"): _MAKER}
    )
    write_atomically(
        path, lambda partial: figure.savefig(partial, format=kind, dpi=150, metadata=metadata)
    )


def svg(draw: Callable[[], Figure | None], *, name: str, label: str) -> Markup | None:
    """SVG element of a figure.

    Args:
        draw: Function that makes the figure.
        name: First part of its element ids, different for each figure of a page.
        label: Description for screen readers.

    Returns:
        The element, or None if there is no figure.
    """
    import matplotlib

    # Text stays text.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), drawn():
        figure = draw()
        if figure is None:
            return None
        buffer = io.StringIO()
        figure.savefig(
            buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    return Markup(_in_page(buffer.getvalue(), name, label, vars(figure).get(plots.TIPS, {})))


def _in_page(text: str, name: str, label: str, tips: Mapping[str, str]) -> str:
    # Without the parts of a separate file, in the colours of the page.
    # The XML declaration and the document type are not allowed inside HTML.
    text = text[text.index("<svg") :]
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    text = re.sub(
        r'<g id="(tip-\d+)">',
        lambda match: f"<g><title>{escape(visible(tips[match[1]]))}</title>",
        text,
    )
    # Half of matplotlib's text is digits that no screen shows, line breaks, and fonts that a
    # browser finds by itself.
    text = re.sub(r"(\d\.\d\d)\d+", r"\1", text)
    text = re.sub(
        r"(font: [\d.]+px|font-family:) [^;\"]*", r"\1 sans-serif", re.sub(r"\s*\n\s*", "\n", text)
    )
    # Ids such as "axes_1" repeat from figure to figure; only those that are referred to are kept.
    used = dict.fromkeys(re.findall(r'(?:url\(#|href="#)([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", text)
    # Matplotlib's ids are hashes of bounds whose last bits differ from one layout to the next:
    # numbers replace them, behind a digest of the figure, so that two figures in one notebook do
    # not share them.
    numbers = {old: str(number) for number, old in enumerate(used)}
    text = _with_ids(text, numbers)
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:10]
    text = _with_ids(text, {number: f"{name}-{digest}-{number}" for number in numbers.values()})
    for color, variable in _IN_PAGE.items():
        text = text.replace(color, variable)
    text = re.sub(r"(stroke|fill): #000000", r"\1: currentColor", text)
    text, rules = _with_classes(text, f"{name}-{digest}")
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1).replace(
        ">", f">{rules}", 1
    )


def _with_classes(style_text: str, prefix: str) -> tuple[str, str]:
    # Repeated styles become classes; the element defines these.
    repeated = [
        style
        for style, times in Counter(re.findall(r' style="([^"]*)"', style_text)).items()
        if times > 3
    ]
    rules = ""
    for number, style in enumerate(repeated):
        style_text = style_text.replace(f' style="{style}"', f' class="{prefix}-c{number}"')
        rules += f".{prefix}-c{number}{{{style}}}"
    return style_text, f"<style>{rules}</style>" if rules else ""


def _with_ids(text: str, ids: Mapping[str, str]) -> str:
    # Where ids are defined and where they are referred to.
    return re.sub(
        r'(url\(#|href="#| id=")([^")]+)',
        lambda match: match[1] + ids.get(match[2], match[2]),
        text,
    )


@contextmanager
def drawn() -> Iterator[None]:
    """Draw names in any script within the block.

    More fonts are tried, and a missing glyph gives no warning.
    """
    import matplotlib
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    family = [*matplotlib.rcParams["font.family"], *(name for name in _FONTS if name in installed)]
    with warnings.catch_warnings(), matplotlib.rc_context({"font.family": family}):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
