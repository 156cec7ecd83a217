"""Renderers of a Comparison or a Trajectory. Nothing here measures or loads a model.

    terminal                            the first table in a terminal
    summary, sections                   the first screen with the decision, the sentences below its fold
    document, detail                    the sections below it as data, and in a terminal
    html, flip_list                     the page, with its template in page/, and what a notebook shows
    plots, heatmap, pictures            figures, as files and in the page
    several_models                      ranking and matrix of several models, as text and as figures
    front, places, advice               which checkpoint to keep, names and places of models, what to do about a loss
    export, tracker_rows                JSON, CSV, Markdown, rows of trackers
    cells                               tables of groups and measures, for all of them

Read `terminal` first.
"""

from forgetwatch.comparing import RENDERERS
from forgetwatch.report.advice import more_command
from forgetwatch.report.cells import HEADINGS, group_cells, measure_tables
from forgetwatch.report.detail import comparison_detail
from forgetwatch.report.export import (
    ITEMS,
    causes_json,
    comparison_json,
    comparison_markdown,
    comparisons_csv,
    comparisons_json,
    escaped,
    several_json,
    table,
    trajectory_json,
)
from forgetwatch.report.flip_list import LONGEST, MOST, ROOM, flip_json, flip_lines, marked
from forgetwatch.report.front import FrontLook, front_looks, saved_look, worth_keeping
from forgetwatch.report.heatmap import FORGOTTEN, GAINED, SAME, UNSCORED, heatmap_caption, heatmap_figure
from forgetwatch.report.html import comparison_fragment, made_line, page, render, run_page, trajectory_fragment
from forgetwatch.report.model_card import CARD, card_section, write_card
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
from forgetwatch.report.places import merge_command, places_of, run_title
from forgetwatch.report.plots import LOST, PANELS, ROWS, bars_figure, name_in, set_tooltip, trajectory_figure
from forgetwatch.report.several_models import (
    MODELS,
    ranking_figure,
    several_detail,
    several_markdown,
    several_table,
    several_words,
    target_text,
)
from forgetwatch.report.summary import Summary, alarm_sentences
from forgetwatch.report.terminal import (
    LINES,
    WIDTH,
    WORST,
    comparison_table,
    drift_line,
    note_lines,
    other_lines,
    run_table,
)
from forgetwatch.report.tracker_rows import FLIPPED, FLIPPED_TEXTS, PREFIX, flipped_rows, tracker_name, tracker_row

RENDERERS.update(
    comparison_json=comparison_json,
    comparison_fragment=comparison_fragment,
    trajectory_json=trajectory_json,
    trajectory_fragment=trajectory_fragment,
)
