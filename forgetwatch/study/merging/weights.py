"""Weights between two checkpoints of one architecture, written tensor by tensor, or an adapter that is scaled.

    linear    (1 - alpha) A + alpha B
    slerp     sin((1 - alpha) t) / sin(t) A + sin(alpha t) / sin(t) B, with t the angle between the tensors A and B as
              flat vectors; linear where they are nearly parallel or a norm is 0, and the angle has no meaning

At alpha 0 and 1 the tensors are those of A and B, bit by bit. In between they are computed in fp32 (fp64 for fp64
weights) and stored in their own dtype, the wider one where A and B differ. Rows of a tensor are read, merged and
written before the next ones, so that memory does not depend on the size of the models.

A fine-tuned model mostly differs from its base by a small angle: then slerp is linear in most tensors, and the two
methods give nearly the same model. `Geometry.is_parallel` counts them.

Of an adapter and its base, the factor of the adapter's matrices is scaled, and no weight is written:

    W + alpha * (lora_alpha / r) B A        alpha 0 is the base, 1 the adapter; with rslora lora_alpha / sqrt(r)

This is the linear merge of the base and the merged adapter, without its rounding to the dtype of the weights. What an
adapter adds in another way than by such a product is refused: it would not follow alpha.

Slerp: Shoemake, Animating rotation with quaternion curves, SIGGRAPH 1985.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import torch
from safetensors import safe_open
from transformers import AutoConfig

from forgetwatch.errors import ScoringError
from forgetwatch.loading import Loading
from forgetwatch.scoring import ADAPTER, base_of_adapter, deciding_files, non_finite, weights_identity
from forgetwatch.study.merging.checkpoints import (
    DTYPES,
    INDEX,
    SINGLE,
    Pair,
    StoredTensor,
    check_alike,
    check_pair,
    chunks,
    file_tensors,
    model_folder,
    stored_tensors,
    tensors_on_one_side,
)

Method = Literal["linear", "slerp"]

PARALLEL: Final = 0.9995
"""Cosine from which on slerp is linear: the sines in its weights lose their digits."""

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

_LAYER: Final = re.compile(r"(.*?\.\d+)\..+")


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Sums over the elements of a tensor of A and of B, in fp64."""

    aa: float  # of the squares of A
    bb: float  # of the squares of B
    ab: float  # of the products
    dd: float  # of the squares of B - A
    most: tuple[float, float]  # the largest absolute values of A and of B

    @property
    def cosine(self) -> float:
        """Cosine of the angle between the two; nan if one is 0."""
        return self.ab / math.sqrt(self.aa * self.bb) if self.aa and self.bb else math.nan

    @property
    def is_parallel(self) -> bool:
        """True if slerp is linear here."""
        return not abs(self.cosine) <= PARALLEL  # also for nan

    def weights(self, alpha: float, method: Method) -> tuple[float, float]:
        """Return the factors of A and of B in the merged tensor."""
        if method == "linear" or self.is_parallel:
            return 1 - alpha, alpha
        angle = math.acos(self.cosine)
        return math.sin((1 - alpha) * angle) / math.sin(angle), math.sin(alpha * angle) / math.sin(angle)


@dataclass(frozen=True, kw_only=True)
class MergePlan:
    """Two checkpoints that can be merged."""

    given: tuple[str, str]  # A and B as they were named
    folder: Path  # of B, whose files other than weights each merged model gets
    files: Mapping[str, tuple[Pair, ...]]  # tensors of each file to write, in the order in which they are stored there
    left_out: tuple[str, ...]  # tensors that one side alone stores and that loading computes from others

    @property
    def pairs(self) -> list[Pair]:
        """All tensors."""
        return [pair for pairs in self.files.values() for pair in pairs]

    @property
    def bytes(self) -> int:
        """Bytes of the weights of one merged model."""
        return sum(pair.bytes for pair in self.pairs)

    @property
    def widened(self) -> list[str]:
        """Names of tensors that A and B store in unlike dtypes."""
        return [pair.a.name for pair in self.pairs if pair.a.dtype != pair.b.dtype]


def plan_merge(a: str, b: str, *, loading: Loading = Loading()) -> MergePlan:
    """Plan the merging of two checkpoint folders or model ids, from configurations, tokenizers and headers alone.

    Raises:
        ScoringError: If they cannot be merged; the first reason is named.
    """
    check_alike(a, b, loading=loading)
    folders = model_folder(a), model_folder(b)
    of_a, of_b = (stored_tensors(given, folder) for given, folder in zip((a, b), folders, strict=True))
    tied = bool(
        getattr(AutoConfig.from_pretrained(b, trust_remote_code=loading.trust_remote_code), "tie_word_embeddings", 0)
    )
    alone = tensors_on_one_side(a, b, of_a, of_b, tied=tied)
    pairs = [Pair(a=of_a[name], b=of_b[name]) for name in of_b if name in of_a]
    for pair in pairs:
        check_pair(pair, a, b)
    names = dict.fromkeys(pair.b.file.name for pair in pairs)
    files = {name: tuple(pair for pair in pairs if pair.b.file.name == name) for name in names}
    return MergePlan(given=(a, b), folder=folders[1], files=files, left_out=alone)


def geometry_of(plan: MergePlan, *, beat: Callable[[], None] = lambda: None) -> dict[str, Geometry]:
    """Return the norms, products and distances of all weights, by the tensor's name; ScoringError if one is not finite.

    Each model is read once, and `beat` is called after each tensor.
    """
    found, names = {}, [f"{side} ({given})" for side, given in zip("AB", plan.given, strict=True)]
    for pair in plan.pairs:
        if pair.is_averaged:
            sums, most = torch.zeros(4, dtype=torch.float64), (0.0, 0.0)
            for a, b in chunks(pair):
                x, y = a.double().flatten(), b.double().flatten()
                sums += torch.stack([x @ x, y @ y, x @ y, (y - x).square().sum()])
                if x.numel():
                    most = max(most[0], float(x.abs().max())), max(most[1], float(y.abs().max()))
            aa, bb, ab, dd = sums.tolist()
            for model, tensor, squares in zip(names, (pair.a, pair.b), (aa, bb), strict=True):
                check_finite(tensor, squares, model)
            found[pair.a.name] = Geometry(aa=aa, bb=bb, ab=ab, dd=dd, most=most)
        beat()
    return found


def check_finite(tensor: StoredTensor, squares: float, model: str) -> None:
    """Raise ScoringError if a tensor holds NaN or infinity; it is read only if its sum of squares is not finite."""
    if not math.isfinite(squares) and (found := non_finite(part for part, _ in chunks(Pair(a=tensor, b=tensor)))):
        raise ScoringError(f"{model}: tensor {tensor.name} holds {found}; take a checkpoint from before that")


def check_point(plan: MergePlan, *, alpha: float, method: Method, geometry: Mapping[str, Geometry]) -> None:
    """Raise ScoringError if the weights of a point of finite models overflow in their dtype; few tensors are read."""
    for pair in plan.pairs:
        if not pair.is_averaged:
            continue
        of_pair = geometry[pair.a.name]
        weights = of_pair.weights(alpha, method)
        largest = sum(abs(weight) * most for weight, most in zip(weights, of_pair.most, strict=True))
        # Few tensors come near, such as those of an arc between large weights, whose factors add up to more than 1.
        if largest <= torch.finfo(DTYPES[pair.dtype]).max:
            continue
        if found := non_finite(merged(a, b, weights, dtype=pair.dtype) for a, b in chunks(pair)):
            raise ScoringError(
                f"alpha {alpha:g}: the merged tensor {pair.a.name} overflows in {pair.dtype} and would hold {found}; "
                "save A and B in a wider dtype, such as bfloat16 or float32"
            )


def squares_of(tensor: StoredTensor) -> float:
    """Return the sum of the squares of the elements of a tensor, in fp64."""
    return sum(float(a.double().square().sum()) for a, _ in chunks(Pair(a=tensor, b=tensor)))


def write_merged(
    plan: MergePlan,
    folder: Path,
    *,
    alpha: float,
    method: Method,
    geometry: Mapping[str, Geometry],
    beat: Callable[[], None] = lambda: None,
) -> None:
    """Write a merged model: its weights in the files that B's are in, and B's configuration and tokenizer.

    `geometry` is that of the two models, by which slerp turns; `beat` is called after each tensor.
    """
    folder.mkdir(parents=True, exist_ok=True)
    copy_rest(plan.folder, folder)
    for name, pairs in plan.files.items():
        with (folder / name).open("wb") as file:
            _write_header(file, pairs)
            for pair in pairs:
                weights = (1 - alpha, alpha)
                if pair.is_averaged and method == "slerp":
                    weights = geometry[pair.a.name].weights(alpha, method)
                for a, b in chunks(pair):
                    part = merged(a, b, weights, dtype=pair.dtype)
                    file.write(part.contiguous().reshape(-1).view(torch.uint8).numpy().data)
                beat()
    if set(plan.files) != {SINGLE}:
        index = {pair.a.name: name for name, pairs in plan.files.items() for pair in pairs}
        document = {"metadata": {"total_size": plan.bytes}, "weight_map": index}
        (folder / INDEX).write_text(json.dumps(document, indent=1), encoding="utf-8")
    if plan.widened:  # loaders read weights in the dtype of the configuration: the widest one
        path = folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        config.pop("torch_dtype", None)
        config["dtype"] = "float64" if any(pair.dtype == "F64" for pair in plan.pairs) else "float32"
        path.write_text(json.dumps(config, indent=2), encoding="utf-8")


def merged(a: torch.Tensor, b: torch.Tensor, weights: tuple[float, float], *, dtype: str) -> torch.Tensor:
    """Return the weighted sum of two tensors of one shape; one of them itself if the other's weight is 0.

    The dtype is that of the result, as a header names it; one that cannot be averaged gives `a`.
    """
    if dtype not in DTYPES:
        return a
    to, (of_a, of_b) = DTYPES[dtype], weights
    if weights in ((1, 0), (0, 1)):
        return (a if of_a else b).to(to)
    wide = torch.promote_types(to, torch.float32)
    x, y = a.to(wide), b.to(wide)
    # Where the factors add up to 1, equal weights stay as they are: lerp rounds the difference, and not two products.
    mixed = torch.lerp(x, y, of_b) if of_a == 1 - of_b else torch.add(x * of_a, y, alpha=of_b)
    return mixed.to(to)


def copy_rest(source: Path, folder: Path) -> None:
    """Copy the files of a model other than its weights: configuration, tokenizer, templates, code."""
    for file in deciding_files(source):
        if file.suffix in (".safetensors", ".bin") or file.name.endswith(".index.json"):
            continue
        target = folder / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _write_header(file: BinaryIO, pairs: Sequence[Pair]) -> None:
    """Write the header of a safetensors file: its length, names, and where each tensor's bytes are."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for pair in pairs:
        begin, end = end, end + pair.bytes
        header[pair.a.name] = {"dtype": pair.dtype, "shape": list(pair.a.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the tensors begin at a multiple of 8
    file.write(len(text).to_bytes(8, "little") + text)


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
        """Return the factor of the product of a module's two matrices."""
        rank = _of_module(self.config.get("rank_pattern"), module, self.config["r"])
        alpha = _of_module(self.config.get("alpha_pattern"), module, self.config["lora_alpha"])
        return float(alpha / (math.sqrt(rank) if self.config.get("use_rslora") else rank))


def plan_adapter(a: str, b: str, *, loading: Loading = Loading()) -> AdapterPlan:
    """Plan the scaling of the adapter in folder `b`, whose base is the checkpoint folder or model id `a`.

    Raises:
        ScoringError: If it is an adapter of another base, or of a kind that does not follow one factor.
    """
    folder = Path(b)
    base = base_of_adapter(folder)
    named = f"{b}: an adapter of {base}"
    try:
        same = base == a or weights_identity(base, loading=loading) == weights_identity(a, loading=loading)
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
    """Return the reason why one factor does not scale all that an adapter adds; empty if it does."""
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
    """Return the sum of the squares of what the adapter adds to each module, by the name of the module's weight.

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
    """Return the value of a module among patterns of names, as PEFT reads them.

    The end of the module's name matches one.
    """
    for pattern, value in (patterns or {}).items():
        if re.fullmatch(rf"(.*\.)?({pattern})", module):
            return float(value)
    return float(default)


@dataclass(frozen=True, kw_only=True)
class WeightDistance:
    """Distance of the weights of B from those of A, relative to the norm of A.

    Attributes:
        overall: Of all weights as one vector.
        layers: The same of each layer, and of each tensor outside of layers, by name, in order.
        tensors: Number of tensors.
        turned: Number of tensors in which slerp is not linear.
    """

    overall: float
    layers: Mapping[str, float]
    tensors: int
    turned: int

    @classmethod
    def of(cls, squares: Mapping[str, tuple[float, float]], *, turned: int) -> WeightDistance:
        """Return the distance from the sums of squares of A and of B - A, by the tensor's name."""
        layers: dict[str, list[float]] = {}
        for name, both in squares.items():
            found = _LAYER.fullmatch(name)
            sums = layers.setdefault(found[1] if found else name.removesuffix(".weight"), [0.0, 0.0])
            sums[0], sums[1] = sums[0] + both[0], sums[1] + both[1]

        def relative(norm: float, difference: float) -> float:  # both are squares
            return math.sqrt(difference / norm) if norm else math.nan

        return cls(
            overall=relative(*(sum(both[side] for both in squares.values()) for side in (0, 1))),
            layers={name: relative(*layers[name]) for name in sorted(layers, key=_by_number)},
            tensors=len(squares),
            turned=turned,
        )


def _by_number(name: str) -> list[tuple[bool, int, str]]:
    """Return the key by which layer 2 comes before layer 10."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in name.split(".")]
