"""Renderers of a Comparison or a Trajectory. Nothing here measures or loads a model.

    eight_lines                         the first table of every output
    terminal                            the first table in a terminal, and the sections below it
    sentences                           the sentences below it
    sections                            the sections below it as data
    cells, stage_tables                 numbers of a group as cells; stages of one model as text
    html, flip_list                     the page, with its template in page/, and what a notebook shows
    plots, heatmap, pictures            figures, as files and in the page
    several_models                      ranking and matrix of several models, as text and as figures
    best_look, advice                   which checkpoint to keep; what to do about a loss
    places, side_names                  where the models of a run are, and their names
    markdown, csv_table, card, comment  Markdown, CSV, the model card, a policy's comment
    tracker_rows                        rows of trackers

Read `eight_lines` first.
"""
