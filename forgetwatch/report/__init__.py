"""Renderers of a Comparison or a Trajectory. Pure: nothing here measures or loads anything.

    terminal, detail, run_table, ranking_table, drift_table    tables of 80 columns
    html, notebook, summary, flip_list                         the page, with its template in page/
    plots, mass_figures, heatmap, pareto, pictures             figures and picture files
    export, markdown, tracker_rows                             JSON, CSV, Markdown, rows of trackers
    cells                                                      tables of groups and measures, for all of them

Read `terminal` first.
"""

from forgetwatch.report.cells import HEADINGS, group_cells, measure_tables
from forgetwatch.report.detail import comparison_detail
from forgetwatch.report.drift_table import drift_detail, drift_line
from forgetwatch.report.export import comparison_json, comparisons_csv, comparisons_json, several_json, trajectory_json
from forgetwatch.report.flip_list import LONGEST, MOST, ROOM, flip_json, flip_lines, marked
from forgetwatch.report.heatmap import FORGOTTEN, GAINED, SAME, UNSCORED, heatmap_caption, heatmap_figure
from forgetwatch.report.html import made_line, page, render, run_page
from forgetwatch.report.markdown import ITEMS, ci_summary, comparison_markdown, escaped, table
from forgetwatch.report.notebook import comparison_fragment, trajectory_fragment
from forgetwatch.report.pareto import matrix_figure, ranking_figure
from forgetwatch.report.pictures import SUFFIXES, file_name, save_comparisons, save_figures, save_run
from forgetwatch.report.plots import (
    LOST,
    PANELS,
    ROWS,
    bars_figure,
    drawn,
    name_in,
    save_figure,
    svg,
    trajectory_figure,
)
from forgetwatch.report.ranking_table import (
    MODELS,
    several_detail,
    several_markdown,
    several_table,
    several_words,
    target_text,
)
from forgetwatch.report.run_table import alarm_line, alarm_lines, alarm_sentences, course_line, run_detail
from forgetwatch.report.summary import Summary, verdict_sentence
from forgetwatch.report.terminal import LINES, WIDTH, WORST, comparison_table, note_lines, other_lines
from forgetwatch.report.tracker_rows import FLIPPED, FLIPPED_TEXTS, PREFIX, flipped_rows, tracker_name, tracker_row
