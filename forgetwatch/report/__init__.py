"""Renderers of a Comparison or a Trajectory. Nothing here measures or loads a model.

    eight_lines                         the first table of every output
    terminal                            the first table in a terminal, and the sections below it
    sentences                           the sentences below it
    document                            the sections below it as data, with tables of groups, measures and stages
    html, flip_list                     the page, with its template in page/, and what a notebook shows
    plots, pictures                     figures, as files and in the page
    several_models                      ranking and matrix of several models, as text and as figures
    advice                              which checkpoint to keep, names and places of models, what to do about a loss
    export, tracker_rows                JSON, CSV, Markdown, the model card, a policy's comment, rows of trackers

Read `eight_lines` first.
"""

from forgetwatch.comparing import RENDERERS
from forgetwatch.report.advice import more_command
from forgetwatch.report.document import group_cells, measure_tables
from forgetwatch.report.eight_lines import first_table, run_label
from forgetwatch.report.export import (
    CARD,
    causes_json,
    comparison_json,
    comparison_markdown,
    comparisons_csv,
    comparisons_json,
    escaped,
    several_json,
    table,
    trajectory_json,
    write_card,
)
from forgetwatch.report.flip_list import flip_json, flip_lines, script_json
from forgetwatch.report.html import made_line, page, render, run_page
from forgetwatch.report.pictures import (
    SUFFIXES,
    drawn,
    file_name,
    save_comparisons,
    save_figure,
    save_figures,
    save_run,
    svg,
)
from forgetwatch.report.plots import name_in, set_tooltip, trajectory_figure
from forgetwatch.report.several_models import (
    ranking_figure,
    several_detail,
    several_markdown,
    several_table,
    several_words,
    target_text,
)
from forgetwatch.report.terminal import (
    DETAIL_WIDTH,
    WIDTH,
    comparison_detail,
    drift_line,
    first_lines,
    note_lines,
    plain_text,
)
from forgetwatch.report.tracker_rows import PREFIX, flipped_rows, tracker_name, tracker_row

RENDERERS.update(
    comparison_json=comparison_json,
    comparison_text=lambda comparison: plain_text(first_lines(first_table(comparison), comparison.notes)),
    trajectory_json=trajectory_json,
    trajectory_text=lambda trajectory: plain_text(
        first_lines(first_table(trajectory.final, trajectory=trajectory), trajectory.final.notes)
    ),
)
