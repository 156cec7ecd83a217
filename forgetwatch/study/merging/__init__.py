"""Points between two models: merged, scored, compared with both ends, and deleted (`forgetwatch merge`).

    A, B ─▶ checkpoints ─▶ weights ─▶ sweep ─▶ report

    checkpoints       the stored weights of two models, by headers, and whether a mean of them can be made
    weights           the arithmetic between two models, written tensor by tensor; an adapter is scaled
    sweep             two models and the points between them: written, scored, compared with both ends, deleted
    choice            the point that keeps a share of what was known, and whether a second probe confirms it
    report            a sweep as tables, page, Markdown, JSON and CSV

Start with `weights`.
"""

from forgetwatch.study.merging.checkpoints import INDEX, SINGLE, Pair, chunks, file_tensors, stored_tensors
from forgetwatch.study.merging.choice import Choice, choose
from forgetwatch.study.merging.report import (
    choice_json,
    merge_detail,
    merge_figure,
    merge_json,
    merge_markdown,
    merge_page,
    merge_report,
    merge_table,
    side_by_side,
    sweep_table,
)
from forgetwatch.study.merging.sweep import (
    MergedPoint,
    MergeSweep,
    ModelPair,
    ProbeSweep,
    check_disk,
    own_folder,
    partial_name,
    remove_abandoned,
    run_sweep,
    temporary_name,
)
from forgetwatch.study.merging.weights import (
    WEIGHTS,
    AdapterPlan,
    Method,
    WeightDistance,
    adapter_squares,
    geometry_of,
    merged,
    plan_adapter,
    plan_merge,
    write_merged,
    write_scaled,
)
