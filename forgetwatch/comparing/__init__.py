"""Comparison of two snapshots item by item, and of the looks of a run: the engine that every way in uses.

    comparison       `compare`: pair, check, group and count; `Comparison`
    trajectory       `Trajectory`: the looks of a run in order, each against the baseline; alarms
    stages           several runs as one trajectory
    ranking          several models against one base
    flips            the items whose answer changed
    verdict          PASS, FAIL or INCONCLUSIVE: the one decision that every output takes

    pairing          rows of the two snapshots that answer the same question
    checks           settings, questions and prompts that two snapshots must agree in
    common_norm      snapshots that were decided by unlike norms, decided again by one
    subset           the items that all looks of a run evaluate
    aligned          pairs as arrays of equal length
    labels           a text column as codes
    stored_scores    scores of the options, from the stored log-likelihoods
    groups           all items, kinds, categories and tasks, counted
    quantities       names and values of the numbers of a group
    category_means   the paper's mean of means

Read `comparison` first, then `groups`. Nothing here imports torch or renders text for people.
"""
