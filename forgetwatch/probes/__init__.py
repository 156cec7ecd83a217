"""Probes by name, from a file, or from a table of questions.

    standard, quick, ...             shipped with the package: shipped/__init__.py lists them, shipped/CARD.md describes
                                     them; quick+behaviour is one probe of both
    demo                             questions about an invented world, for the demo and the tests
    lm_eval:arc_easy, ...            tasks of lm-evaluation-harness, made by the harness itself: harness.py
    mine.jsonl                       a probe file
    mine.csv, rows, a Dataset        a table of questions: question_table.py describes it
    standard@one, mine.jsonl@each    any of these, each question in one of three wordings or in all: wordings.py

`named.load_probe` is the way in. Beside it:

    shipped_probes.py          the shipped files, the order of their questions, the world of the demo
    question_table.py          a table of questions to a probe, by the plan of table_plan.py
    answer_key.py              how a column names the right option
    row_files.py               files of rows: questions, and the examples of a training set
    categories.py              tasks to categories: the table of the paper (paper_tasks.csv), or a file
    task_sequence.py           a probe for each task of a sequence of trainings
    worked_examples.py         text around a question: options, instruction, worked examples
    checking.py                faults of a probe: repeated questions, leaked answers, shortcuts, wrong keys
    overlap.py, nearness.py    how much of a probe is in a training set, and how near
"""

# Imported from this package by scripts of others.
from forgetwatch.probes.shipped_probes import facts
