"""Comparison of two snapshots item by item, and of the looks of a run: the engine that every way in uses.

    comparison       `compare`: pair, check, group and count; `Comparison`, also as a frame; the paper's mean of means
    trajectory       `Trajectory`: the looks of one or several runs in order, each against the baseline; alarms; the
                     stages of one model: groups by stage, and the path of each question
    causes           were the lost answers barely known, or near the new data?
    kept_share       what a model keeps of what its base knew; models are ranked and checkpoints chosen by it
    ranking          several models against one base
    flips            the items whose answer changed
    document         comparisons and runs as JSON
    decision         `decide`: KEPT, FORGOT or NOT CLEAR, in one sentence, and what is next; every output takes it
    verdict          its legs: losses, their intervals and limits; the categories that fell most

    checks           settings, questions, prompts and the norm that two snapshots must agree in; items of all looks
    groups           all items, kinds, wordings, categories and tasks, counted
    by_wording       did the wordings change alike?

Read `comparison` first, then `groups`. The pairs are from `measures.pairing`, the numbers of a group from `measures`.
Nothing here imports torch.
"""
