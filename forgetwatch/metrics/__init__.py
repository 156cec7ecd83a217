"""The quantities that forgetwatch reports: arrays in, small frozen results out.

    transitions    the four cells and their rates, the history of each item through the looks of a run
    choices        the rule by which the scores of options decide
    intervals      intervals of shares, net changes and means; clusters
    significance   paired tests, also over clusters, many groups and many looks
    equal_change   did several sets of items change alike?

    known          known items that were lost, less luck; losses of form and of knowledge
    guessing       corrections for guessing, and the chance adjustment of arXiv 2510.17776
    noise          sampled decoding, measuring twice
    log_score      log score of options, and bits per byte of texts without a question
    margin_change  net change from margins: how far each answer is from the boundary
    shrinkage      changes of many groups, less what chance makes of the largest
    mass           the mass that a model gives to all options together, and the choice among them
    trend          slopes over pairs of models, the family being the unit
    separation     does a column separate what was lost from what was kept?
    divergence     drift of a model from its base, on texts that the base generated

Start with `transitions`. `docs/reference/statistics.md` describes every quantity. Nothing here
reads a file or imports torch. Arrays are by row, one row for each sample of an item, and some
arguments have one meaning everywhere:

    before, after  right answers of the same rows, bool [rows]
    k, golds       number of options, and of right options among them, int64 [rows]
    cluster        code of each row's independent observation, int64 [rows]; None if every row is one
    samples        rows per item; counts are divided by it
"""

# Imported by their package in the docs and in scripts of others.
from forgetwatch.metrics.trend import family_slopes
