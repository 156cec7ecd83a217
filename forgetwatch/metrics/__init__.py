"""The quantities that forgetwatch reports: arrays in, small frozen results out.

    transitions    the four cells and their rates; known and lost
    choices        the rule by which the scores of options decide
    intervals      intervals of shares, net changes and means; clusters; bootstrap
    significance   paired tests, also over clusters and over many groups; non-inferiority
    planning       number of items for a change, and the change that a number of items can see
    alarm          alarms over many looks at the same items

    paper          the chance adjustment of arXiv 2510.17776
    answers        paired answers to items with options
    guessing       corrections for guessing that measure chance instead of assuming it
    bounds         the most that guessing could explain; diagnostics
    noise          soft changes, sampled decoding, measuring twice
    form           losses of form and of knowledge
    passages       bits per byte of texts without a question
    item_history   the history of each item through the looks of a run
    divergence     drift of a model from its base, on texts that the base generated
    mixture        the two-mode laboratory: how training moves the mass of an old behaviour, and its mean

Start with `transitions`. `examples/statistics.md` describes every quantity. Nothing here reads a file or imports torch.
"""
