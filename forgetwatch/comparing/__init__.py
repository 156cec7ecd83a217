"""Two snapshots, or the looks of a run, to a comparison.

    pairing          rows of one snapshot and the rows of the other that they belong to
    aligned          both sides as arrays of equal length
    subset           the items that all looks of a run evaluate
    checks           settings, questions and prompts that two snapshots must agree in
    groups           all items, categories and tasks, counted
    quantities       names and values of what a group counts
    category_means   the paper's mean of means
    comparison       `compare`: the above in order, and `Comparison`
    verdict          PASS, FAIL or INCONCLUSIVE
    flips            the items whose answer changed
    trajectory       the looks of a run, in order
    stages           several runs as one line
    ranking          several models against one base

Start with `comparison`. Nothing here imports torch or renders text for people.
"""
