"""Many pairs of models at once, in stages: the map of what post-training forgets and gains, after arXiv 2510.17776.

    STUDY.yaml ─▶ plan ─▶ pairs ─┬─▶ publication     terminal, JSON, page, Markdown
                                 ├─▶ pair_rows       CSV, the points of the page
                                 └─▶ paper_tables    the paper's tables, also in LaTeX

    plan           the YAML file: stages, pairs, the sides of each, and how they are read or scored
    pairs          one pair after the other to its comparison and what averages show; only the counts are kept
    factors        what forgetting goes with over the pairs, and the findings of the paper, merges among them

A study imports no torch where only files of outcomes are named. Start with `plan`.
"""
