"""Renderers of a Comparison or a Trajectory. Pure: nothing here measures or loads anything.

    terminal detail run_table ranking_table    tables of 80 columns
    html notebook summary flip_list            the page, with its template in page/
    plots heatmap pareto pictures              figures and picture files
    export markdown tracker_rows               JSON, CSV, Markdown, rows of trackers
    cells formatting                           numbers and names as text, for all of them

Read `terminal` first.
"""
