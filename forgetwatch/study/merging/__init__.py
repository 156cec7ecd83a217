"""Points between two models: merged, scored, compared with both ends, and deleted (`forgetwatch merge`).

    A, B ─▶ checkpoints ─▶ weights ─▶ ends ─▶ sweep ─▶ report

    checkpoints       the stored weights of two models, by headers, and whether a mean of them can be made
    weights           the arithmetic between two models, written tensor by tensor
    scaled_adapters   an adapter between its base and itself
    ends              two models and the points between them: recipes, folders, distance
    sweep             the points of a sweep: written, scored, compared with both ends, deleted
    report            a sweep as tables, page, Markdown, JSON and CSV

Start with `weights`.
"""

from forgetwatch.study.merging.checkpoints import INDEX, SINGLE, Pair, chunks, file_tensors, stored_tensors
from forgetwatch.study.merging.ends import (
    Ends,
    WeightDistance,
    check_disk,
    own_folder,
    partial_name,
    remove_abandoned,
    temporary_name,
    weight_distance,
)
from forgetwatch.study.merging.report import (
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
from forgetwatch.study.merging.scaled_adapters import WEIGHTS, AdapterPlan, adapter_squares, plan_adapter, write_scaled
from forgetwatch.study.merging.sweep import MergedPoint, MergeSweep, ProbeSweep, run_sweep
from forgetwatch.study.merging.weights import Method, geometry_of, merged, plan_merge, write_merged
