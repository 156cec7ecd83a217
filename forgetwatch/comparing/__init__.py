"""Comparison of two snapshots item by item, and of the looks of a run: the engine that every way in uses.

    comparison       `compare`: pair, check, group and count; `Comparison`
    trajectory       `Trajectory`: the looks of a run in order, each against the baseline; alarms
    stages           trainings of one model, one after another, as one trajectory
    stage_matrix     base and ends of the stages, by groups, and the path of each question
    causes           were the lost answers barely known, or near the new data?
    kept_share       what a model keeps of what its base knew; models are ranked and checkpoints chosen by it
    ranking          several models against one base
    flips            the items whose answer changed
    asked_again      lost answers, asked again in other wordings
    paper_means      the paper's mean over tasks, categories and seeds
    frames           numbers in long form
    document         comparisons and runs as JSON
    decision         `decide`: KEPT, FORGOT or NOT CLEAR, in one sentence, and what is next; every output takes it
    verdict          its legs: losses, their intervals and limits; the categories that fell most

    checks           settings, questions, prompts and the norm that two snapshots must agree in
    subset           the items that all looks of a run evaluate
    groups           all items, kinds, wordings, categories and tasks, counted
    by_wording       did the wordings change alike?

Read `comparison` first, then `groups`. The pairs are from `measures.pairing`, the numbers of a
group from `measures`. Nothing here imports torch.
"""
