"""Watch a model while it is trained.

    questions       which questions a run evaluates
    start           a run begins, resumes from a checkpoint, or restarts
    state           RunState: what is known of a run besides its rows, as run.json holds it
    run             Run: due, add, store, close; the looks in memory and in the folder
    model_lineage   the trainings before this one, found by the model
    look            LookScorer: measures the baseline and the looks
    schedule        steps of the looks; the items and looks for which the time suffices
    trial_run, known_baseline    the seconds of a few items; baselines in the cache
    guard           bounds on losses, and the action beyond them; back to the last good checkpoint
    run_again       the lost in other words at the last look
    completions, drift_prompts, drift, run_drift    texts of the base, read again at every look
    look_rows, trackers          the numbers of a look, and where they go
    run_output      lines of the log, table, report.html, and a command of the user's
    trainer         what is read from a trainer, and its quirks
    watch_settings  what a user sets, checked
    training        one training under watch: a look, a save, the end
    callback        events of a trainer to calls of these
    watch           Watch: a run in a loop of one's own

Read `callback` first, then `start` and `training`. A look is one evaluation of the probe during a
run.
"""
