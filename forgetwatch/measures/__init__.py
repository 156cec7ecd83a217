"""The aligned rows of two snapshots, and one module for each thing that they show: its result, its numbers, its words.

    rows             rows of the two snapshots that answer the same question, as arrays of equal length; stored columns
    base             Measure, Quantity, Bounds: what every measure has, and the rows that it counts
    quantities       MEASURES, their order, and the loops over all numbers
    flips            the four cells, their rates, intervals and tests; items that were scored on one side alone
    known_items      clearly known items, those lost, and what luck makes of both
    scores           the log score, and bits per byte of passages
    estimate         the net change by margins and flips together
    option_mass      mass and conditional of the options
    noise_floors     a second measurement, losses of form, lost items in other wordings
    chance           corrections for guessing
    drift            distance of a model from its base, for each look
    history          items through all looks of a run

To add a measure, write its module and put it into `MEASURES`. Read `base`, then `scores`; `rows` has what they count.
"""

from forgetwatch.measures.base import MISSING_CELL, GroupMeasure, Measure, Quantity, Rows, Unit, json_value, sentence_of
from forgetwatch.measures.chance import ASSUMES, CHANCE, Chance, chance_rows
from forgetwatch.measures.drift import (
    DRIFT,
    DRIFT_KEY,
    ESTIMATORS,
    REVERSE,
    SET_NAMES,
    LookDrift,
    best_estimator,
    drift_interval,
    drift_json,
    drift_row,
    kl_text,
    read_drift,
    reverse_sentence,
    stored_drift,
)
from forgetwatch.measures.estimate import NET_ESTIMATE, margin_rule
from forgetwatch.measures.flips import FLIPS, VANISHED, VANISHED_SHARE_NOTED, Flips, Vanished, net_change
from forgetwatch.measures.history import HISTORY, History
from forgetwatch.measures.known_items import KNOWN, net_of_luck
from forgetwatch.measures.noise_floors import (
    AGAIN_KEY,
    FORM,
    NULL,
    RIGHT_LOST,
    Again,
    LostElsewhere,
    Status,
    lost_elsewhere,
    read_again,
    stored_again,
)
from forgetwatch.measures.option_mass import CONSTANT_MASS, MASS, mass_mode
from forgetwatch.measures.quantities import (
    BEYOND_GROUPS,
    INTERVALS,
    MEASURE_OF,
    MEASURES,
    QUANTITIES,
    document,
    range_of,
    unit_of,
    value_at,
)
from forgetwatch.measures.rows import (
    AlignedPairs,
    AlignedPassages,
    Labels,
    Pairing,
    guess_chance,
    item_codes,
    pair,
    rows_of_baseline,
    snapshot_bits,
)
from forgetwatch.measures.scores import PASSAGES
