"""Many pairs of models at once, in stages: the map of what post-training forgets and gains, after arXiv 2510.17776.

    STUDY.yaml ─▶ plan ─▶ pairs ─┬─▶ tables          the pairs side by side; category x pair, as the paper has them
                                 ├─▶ figures         radars, against size and data, what averages hide
                                 └─▶ publication     JSON, page, Markdown, CSV, LaTeX, pictures

    plan           the YAML file: stages, pairs, the sides of each, and how they are read or scored
    sources        a side to a snapshot; scored models are kept in the study's folder, so that it resumes
    pairs          one pair after the other to its comparison and what averages show; only the counts are kept

A study imports no torch where only files of outcomes are named. Start with `plan`.

Beside it, `merging`: points between two models (`forgetwatch merge`).
"""

from forgetwatch.study.figures import averages_figure, radar_figures, scale_figure
from forgetwatch.study.pairs import Study, run_study
from forgetwatch.study.plan import Pair, Plan, read_plan
from forgetwatch.study.publication import PAGE, draw_figures, study_json, study_markdown, write_numbers
from forgetwatch.study.sources import Sources, is_model
from forgetwatch.study.tables import Value, rows, study_table, tables_csv, tables_latex, total, values
