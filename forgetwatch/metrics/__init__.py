"""The quantities that forgetwatch reports: arrays in, small frozen results out.

    choices        the rule by which the scores of options decide
    transitions    the four cells and their rates, known and lost
    intervals      of shares, net changes and means; clusters; bootstrap
    significance   paired tests, over clusters, over many groups; no worse than
    planning       items for a change, and the change that items can see
    alarm          many looks at the same items
    paper          the chance adjustment of arXiv 2510.17776
    answers        paired answers to items with options
    guessing       chance measured instead of assumed
    bounds         what guessing could explain at most; diagnostics
    noise          soft changes, sampled decoding, measuring twice
    trajectory     a run of looks: what was forgotten so far and what came back
    drift          how far a model is from its base on texts that the base wrote
    form           losses of form and of knowledge

Nothing here reads a file or imports torch.
"""
