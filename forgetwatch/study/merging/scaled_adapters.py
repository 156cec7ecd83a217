"""An adapter between its base and itself: the factor of its matrices is scaled, and no weight is written.

    W + alpha * (lora_alpha / r) B A        alpha 0 is the base, 1 the adapter; with rslora lora_alpha / sqrt(r)

This is the linear merge of the base and the merged adapter, without its rounding to the dtype of the weights. What an
adapter adds in another way than by such a product is refused: it would not follow alpha.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from safetensors import safe_open

from forgetwatch.errors import ScoringError
from forgetwatch.scoring import ADAPTER, base_of_adapter, weights_identity
from forgetwatch.study.merging.checkpoints import StoredTensor, file_tensors, model_folder, stored_tensors
from forgetwatch.study.merging.weights import copy_rest

WEIGHTS: Final = "adapter_model.safetensors"
_REMEDY: Final = (
    "merge it into its base first (PeftModel.from_pretrained(base, adapter).merge_and_unload().save_pretrained(NEW)) "
    "and give NEW as B"
)
_FACTOR: Final = re.compile(r"(?:base_model\.model\.)?(?P<module>.+)\.lora_(?:embedding_)?(?P<side>[AB])(?:\.weight)?")
_LORA: Final = re.compile(r".+\.lora_(embedding_)?[AB](\.weight|\.bias)?")
_PLAIN_STARTS: Final = ("gaussian", "eva", "orthogonal")
"""Ways to initialise the matrices that leave the weights of the base as they are."""
_NO_PRODUCT: Final = ("use_qalora", "use_bdlora", "arrow_config", "kasa_config", "monteclora_config")
"""Settings by which a module computes something else than the product of its two matrices."""


@dataclass(frozen=True, kw_only=True)
class AdapterPlan:
    """An adapter that can be scaled: its folder, configuration, and tensors by name, and those of its base."""

    folder: Path
    config: dict[str, Any]
    tensors: dict[str, StoredTensor]
    base: dict[str, StoredTensor]

    @property
    def bytes(self) -> int:
        """Bytes of its weights."""
        return sum(file.stat().st_size for file in {one.file for one in self.tensors.values()})

    def scaling(self, module: str) -> float:
        """Factor of the product of a module's two matrices."""
        rank = _of_module(self.config.get("rank_pattern"), module, self.config["r"])
        alpha = _of_module(self.config.get("alpha_pattern"), module, self.config["lora_alpha"])
        return float(alpha / (math.sqrt(rank) if self.config.get("use_rslora") else rank))


def plan_adapter(a: str, b: str, *, trust_remote_code: bool = False) -> AdapterPlan:
    """Plan the scaling of the adapter in folder `b`, whose base is the checkpoint folder or model id `a`.

    Raises:
        ScoringError: If it is an adapter of another base, or of a kind that does not follow one factor.
    """
    folder = Path(b)
    base = base_of_adapter(folder)
    named = f"{b}: an adapter of {base}"
    try:
        same = base == a or weights_identity(base, trust_remote_code=trust_remote_code) == weights_identity(
            a, trust_remote_code=trust_remote_code
        )
    except ScoringError as error:
        raise ScoringError(f"{named}, which cannot be read ({error}); needed {a} as its base") from error
    if not same:
        raise ScoringError(f"{named}, and not of {a}; give its base as A")
    config: dict[str, Any] = json.loads((folder / ADAPTER).read_text(encoding="utf-8"))
    if not (folder / WEIGHTS).is_file():
        raise ScoringError(f"{b}: needed {WEIGHTS}, found none; save the adapter again with a version that writes it")
    tensors = file_tensors(folder / WEIGHTS)
    if reason := _obstacle(config, tensors):
        raise ScoringError(f"{b}: {reason}, which does not follow one factor; {_REMEDY}")
    stored = stored_tensors(a, model_folder(a))  # which measure the distance, at the end
    return AdapterPlan(folder=folder, config=config, tensors=tensors, base=stored)


def _obstacle(config: dict[str, Any], tensors: dict[str, StoredTensor]) -> str:
    """Reason why one factor does not scale all that an adapter adds; empty if it does."""
    if config.get("peft_type") != "LORA":
        return f"an adapter of the kind {config.get('peft_type')}"
    if config.get("use_dora"):
        return "it was trained with DoRA, whose magnitudes are not a part of the product"
    if config.get("layer_replication"):
        return "layer_replication changes the base"
    if other := [name for name in _NO_PRODUCT if config.get(name)]:
        return f"{other[0]} adds in another way than by a product"
    start = config.get("init_lora_weights", True)
    if isinstance(start, str) and start not in _PLAIN_STARTS:
        return f"its matrices began as {start}, which changes the weights of the base"
    other = [name for name in tensors if not _LORA.fullmatch(name)]
    return f"it also stores {other[0]} as a whole" if other else ""


def write_scaled(plan: AdapterPlan, folder: Path, *, alpha: float) -> None:
    """Write the adapter into a new folder, with its factor times `alpha`."""
    folder.mkdir(parents=True, exist_ok=True)
    copy_rest(plan.folder, folder)
    shutil.copyfile(plan.folder / WEIGHTS, folder / WEIGHTS)
    patterns = {name: alpha * value for name, value in (plan.config.get("alpha_pattern") or {}).items()}
    config = {**plan.config, "lora_alpha": alpha * plan.config["lora_alpha"], "alpha_pattern": patterns}
    (folder / ADAPTER).write_text(json.dumps(config, indent=2), encoding="utf-8")


def adapter_squares(plan: AdapterPlan) -> dict[str, float]:
    """Sum of the squares of what the adapter adds to each module, by the name of the module's weight.

    The product of the two matrices is not formed: its squares add up to the trace of (B'B)(AA').
    """
    sides: dict[str, dict[str, str]] = {}
    for name in plan.tensors:
        if found := _FACTOR.fullmatch(name):
            sides.setdefault(found["module"], {})[found["side"]] = name
    squares = {}
    with safe_open(plan.folder / WEIGHTS, "pt") as file:
        for module, both in sides.items():
            # Those of convolutions have more axes.
            first, second = (file.get_tensor(both[side]).double().flatten(1) for side in "AB")
            total = float(((second.T @ second) * (first @ first.T)).sum())
            squares[f"{module}.weight"] = plan.scaling(module) ** 2 * max(total, 0.0)
    return squares


def _of_module(patterns: dict[str, Any] | None, module: str, default: float) -> float:
    """Value of a module among patterns of names, as PEFT reads them: the end of the module's name matches one."""
    for pattern, value in (patterns or {}).items():
        if re.fullmatch(rf"(.*\.)?({pattern})", module):
            return float(value)
    return float(default)
