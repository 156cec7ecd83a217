"""Watch a model while it is trained.

    callback     a watch inside a trainer: its events, the looks, the sinks of a look, and all that is read from it
    run          Run: the state of a training, in memory and in its folder; the stages before it
    watch        Watch: measures a model, and adds what it measured to the run
    known_baseline          the seconds of a few items; baselines in the cache
    schedule                steps of the looks; the items and looks for which the time suffices
    guard                   bounds on losses, and the action beyond them; back to the last good checkpoint
    drift                   texts of the base: sampled, kept in a file, read under a model; the drift of a run's looks
    run_again               the lost asked in other words at the last look
    trackers, run_output    rows and alerts; lines, table, report.html, and a command of the user's
    follow                  the same from another process, checkpoint by checkpoint, read while they may vanish

Read `run` first, then `watch`: it needs no trainer. A look is one evaluation of the probe during a
run.
"""
