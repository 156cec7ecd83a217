"""The quantities that forgetwatch reports: arrays in, small frozen results out.

    transitions    the four cells and their rates, the history of each item through the looks of a run; did several
                   sets of items change alike?
    choices        the rule by which the scores of options decide
    intervals      intervals of shares, net changes and means; clusters
    significance   paired tests, also over clusters, many groups and many looks; non-inferiority; number of items

    known          known items that were lost, less luck; losses of form and of knowledge
    guessing       corrections for guessing, their bounds, and the chance adjustment of arXiv 2510.17776
    noise          soft changes, sampled decoding, measuring twice
    log_score      log score of options, and bits per byte of texts without a question
    margin_change  net change from margins: how far each answer is from the boundary between right and wrong; changes
                   of many groups, less what chance makes of the largest
    mass           the mass that a model gives to all options together, and the choice among them
    divergence     drift of a model from its base, on texts that the base generated

Start with `transitions`. `docs/reference/statistics.md` describes every quantity. Nothing here reads a file or imports
torch. Arrays are by row, one row for each sample of an item, and some arguments have one meaning everywhere:

    before, after  right answers of the same rows, bool [rows]
    k, golds       number of options, and of right options among them, int64 [rows]
    cluster        code of each row's independent observation, int64 [rows]; None if every row is one
    samples        rows per item; counts are divided by it
"""

from forgetwatch.metrics.choices import UNITS, OptionScores, decide, normalise, option_mask, right_at_constant_mass
from forgetwatch.metrics.divergence import NOT_ALWAYS, Drift, bucketed_kl, drift
from forgetwatch.metrics.guessing import (
    Answers,
    Corrected,
    Paper,
    RightLost,
    as_released,
    guess_corrected,
    paper,
    right_lost,
)
from forgetwatch.metrics.intervals import Interval, effective_items, flip_interval, mean_interval, newcombe, wilson
from forgetwatch.metrics.known import (
    DEFINITION,
    TAU,
    Confidence,
    Known,
    Loss,
    Losses,
    count_known,
    count_losses,
    is_known,
    lost_form,
)
from forgetwatch.metrics.log_score import BitsPerByte, Change, LogScore, Passages, bits_per_byte, rate
from forgetwatch.metrics.margin_change import (
    FEWEST,
    Boundary,
    FallTest,
    MarginRule,
    NetMargin,
    boundary,
    fall_test,
    margins,
    net_margin,
    pooled,
    shrunk,
)
from forgetwatch.metrics.mass import MassChanges, MassSplit, mass_changes, split
from forgetwatch.metrics.noise import Null, noise_floor, null
from forgetwatch.metrics.significance import (
    alarm_level,
    loss_p_value,
    mcnemar,
    sign_flip,
    smallest_loss,
)
from forgetwatch.metrics.transitions import (
    Cells,
    GuesserHistory,
    ItemHistory,
    count_cells,
    equal_change_p_value,
    guesser_history,
    item_history,
    ratio,
)
from forgetwatch.metrics.trend import (
    Explained,
    Separation,
    Slope,
    explained,
    family_mean,
    family_slopes,
    mean_ranks,
    separation,
)
