"""Points between two models: merged, scored, compared with both ends, and deleted (`forgetwatch merge`).

    A, B ─▶ weight_files ─▶ compatibility ─▶ weights ─▶ ends ─▶ sweep

    weight_files      the stored weights of a checkpoint, by headers, and parts of them
    compatibility     two models of which a mean can be made; else the first difference
    weights           the arithmetic between two models, written tensor by tensor
    scaled_adapters   an adapter between its base and itself
    point_folders     room for the points, and their removal, also after a kill
    ends              two models and the points between them: recipes, files, distance
    sweep             the points of a sweep: written, scored, compared with both ends, deleted

Start with `weights`.
"""

from forgetwatch.study.merging.ends import Ends, weight_distance
from forgetwatch.study.merging.point_folders import (
    check_disk,
    own_folder,
    partial_name,
    remove_abandoned,
    temporary_name,
)
from forgetwatch.study.merging.scaled_adapters import WEIGHTS, AdapterPlan, adapter_squares, plan_adapter, write_scaled
from forgetwatch.study.merging.sweep import run_sweep
from forgetwatch.study.merging.weight_files import INDEX, SINGLE, Pair, chunks, file_tensors, stored_tensors
from forgetwatch.study.merging.weights import Method, geometry_of, merged, plan_merge, write_merged
