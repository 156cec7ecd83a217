"""The aligned rows of two snapshots, and one module for each thing that they show: its result, its numbers, its words.

    pairing          rows of the two snapshots that answer the same question
    option_columns   columns of a snapshot as arrays, the scores that decide, and the chance of a guess
    aligned          the pairs as arrays of equal length, from which everything is counted
    base             Measure, Quantity, Bounds: what every measure has, and the rows that it counts
    quantities       MEASURES, their order, and the loops over all numbers
    flip_counts      the four cells, their rates, intervals and tests; items that were scored on one side alone
    known_items      clearly known items, those lost, and what luck makes of both
    scores           the log score, and bits per byte of passages
    estimate         the net change by margins and flips together
    option_mass      mass and conditional of the options
    measured_again   a second measurement, losses of form
    other_wordings   lost items in other wordings
    chance           corrections for guessing
    base_drift       distance of a model from its base, for each look
    history          items through all looks of a run

To add a measure, write its module and put it into `MEASURES`. Read `base`, then `scores`; both
count `aligned` rows.
"""
