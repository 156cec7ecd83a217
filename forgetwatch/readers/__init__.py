"""Files of outcomes, forgetwatch's own and other tools', to a Snapshot: `load_snapshot`.

The format is recognised by content, never by the name alone.

    forgetwatch                  snapshot.py
    plain CSV, JSONL, Parquet    table.py; with other column names mapping.py
    lm-evaluation-harness        lm_eval_logs.py    samples_*.jsonl, results with samples, a folder
    lighteval                    lighteval.py       details_*.parquet, a folder of them
    Inspect                      inspect_log.py     .eval and .json
    further tools                tools.py           EvalScope, OpenCompass, HELM, promptfoo, ...

Snapshots of several files are put together by `joining.py`. Rows of every tool go through `log.py`,
which also finds the question; `option_scores.py` reads scores, and `files.rows` the rows of a table
or document.
"""
