"""Two snapshots to aligned rows, and numbers to text: what everything that measures or shows a comparison builds on.

    pairs            rows of the two snapshots that answer the same question
    aligned          pairs, and passages, as arrays of equal length
    stored_columns   columns of a snapshot as arrays: labels as codes, scores of the options
    formatting       numbers and names as text: the one place that rounds

Read `pairs` first, then `aligned`.
"""

from forgetwatch.pairing.aligned import AlignedPairs, AlignedPassages, snapshot_bits
from forgetwatch.pairing.formatting import (
    between,
    bits,
    brief,
    change_points,
    count,
    fit,
    fit_ends,
    is_or_are,
    items,
    listed,
    nats,
    one_line,
    passages,
    percent,
    points,
    probability,
    questions,
    run_name,
    shorten,
)
from forgetwatch.pairing.pairs import Pairing, item_codes, pair, rows_of_baseline
from forgetwatch.pairing.stored_columns import Labels, guess_chance, option_scores
