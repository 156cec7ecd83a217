"""Two snapshots to aligned rows, and numbers to text: what everything that measures or shows a comparison builds on.

    aligned       rows of the two snapshots that answer the same question, as arrays of equal length; stored columns
    formatting    numbers and names as text: the one place that rounds

Read `aligned` first.
"""

from forgetwatch.pairing.aligned import (
    AlignedPairs,
    AlignedPassages,
    Labels,
    Pairing,
    guess_chance,
    item_codes,
    option_scores,
    pair,
    rows_of_baseline,
    snapshot_bits,
)
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
