"""Points between two models of one architecture, made in memory: weights are averaged, or an adapter is scaled.

    linear    (1 - alpha) A + alpha B
    slerp     sin((1 - alpha) t) / sin(t) A + sin(alpha t) / sin(t) B, with t the angle between the tensors A and B as
              flat vectors; linear where they are nearly parallel or a norm is 0, and the angle has
              no meaning
    adapter   W + alpha * (lora_alpha / r) B A: the factor of each layer is scaled, and no weight of the base changes;
              with rslora lora_alpha / sqrt(r)

At alpha 0 and 1 the weights are those of A and B, bit by bit. In between they are computed in fp32
(fp64 for fp64 weights) and have their own dtype, the wider one where A and B differ. Both models
and the point are in memory.

A fine-tuned model mostly differs from its base by a small angle: then slerp is linear in most
tensors, and the two methods give nearly the same model. `WeightDistance.turned` counts the others.

The scaled adapter is the linear merge of the base and the merged adapter, without its rounding to
the dtype of the weights. What an adapter adds in another way than by such a product is refused: it
would not follow alpha.

Slerp: Shoemake, Animating rotation with quaternion curves, SIGGRAPH 1985.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from forgetwatch.errors import ScoringError
from forgetwatch.loading import Loading
from forgetwatch.merge.alike import check_alike
from forgetwatch.scoring.model_loading import (
    ADAPTER,
    base_of_adapter,
    load_model,
    non_finite,
    size_of,
)
from forgetwatch.scoring.weights_identity import weights_identity

Method = Literal["linear", "slerp"]


PARALLEL: Final = 0.9995
"""Cosine from which on slerp is linear: the sines in its weights lose their digits."""


RECIPE: Final = "forgetwatch_merge.json"
"""File of a kept point that says what it was made of."""


WEIGHTS: Final = "adapter_model.safetensors"


_VERSION: Final = 2
"""Number of the arithmetic of a merge; another one makes outcomes that are scored again."""


_REMEDY: Final = (
    "merge it into its base first (PeftModel.from_pretrained(base, "
    "adapter).merge_and_unload().save_pretrained(NEW)) and give NEW as B"
)


_LORA: Final = re.compile(r".+\.lora_(embedding_)?[AB](\.weight|\.bias)?")


_PLAIN_STARTS: Final = ("gaussian", "eva", "orthogonal")
"""Ways to initialise the matrices that leave the weights of the base as they are."""


_NO_PRODUCT: Final = (
    "use_qalora",
    "use_bdlora",
    "arrow_config",
    "kasa_config",
    "monteclora_config",
)
"""Settings by which a module computes something else than the product of its two matrices."""


_OF_ITS_RUN: Final = shutil.ignore_patterns(
    "checkpoint-*", "global_step*", "*forgetwatch", "*.pt", "*.bin"
)


_LAYER: Final = re.compile(r"(.*?\.\d+)\..+")


@dataclass(frozen=True, kw_only=True)
class ModelPair:
    """Two models and the points between them.

    A point is determined by the files of both models, the method and alpha: its recipe.

    Attributes:
        a: The base: checkpoint folder or model id.
        b: A checkpoint of the same architecture, or an adapter of A.
        method: How weights are averaged.
        alphas: Shares of B, 0 to 1, ascending.
        keep: Folder in which the points are kept; None for none.
        loading: How both are loaded.
    """

    a: str
    b: str
    method: Method
    alphas: tuple[float, ...]
    keep: Path | None = None
    loading: Loading = Loading()

    @property
    def is_adapter(self) -> bool:
        """Is B an adapter?"""
        return (Path(self.b) / ADAPTER).is_file()

    @cached_property
    def weights(self) -> tuple[list[str], list[str]]:
        """Hashes of the files of A and of B."""
        a, b = (weights_identity(path, loading=self.loading) for path in (self.a, self.b))
        return a, b

    def recipe(self, alpha: float) -> list[Any]:
        """JSON values that determine the weights of a point."""
        return [
            "merged",
            _VERSION,
            self.method,
            alpha,
            "first",
            *self.weights[0],
            "second",
            *self.weights[1],
        ]

    @cached_property
    def _model(self) -> tuple[Any, Any]:
        # The weights become those of a point; at first they are B's.
        return load_model(self.b, loading=self.loading)

    @cached_property
    def _sides(self) -> dict[str, tuple[Tensor, Tensor]]:
        # In host memory.
        check_alike(self.a, self.b, loading=self.loading)
        self._check_memory()
        model_a = load_model(self.a, loading=self.loading)[0]
        second = self._model[0]
        sides = [model_a.state_dict(), second.state_dict()]
        if alone := sorted(sides[0].keys() ^ sides[1].keys()):
            raise ScoringError(
                f"{self.a} and {self.b}: {alone[0]} is in one of them only; needed two models "
                "of one architecture"
            )
        if _is_tied(model_a) != _is_tied(second):
            raise ScoringError(
                f"{self.a} and {self.b}: the head is tied to the embedding in one of them only; "
                "needed two models whose heads are tied, or two with a head of their own"
            )
        for name, (x, y) in (
            tensors := {name: (sides[0][name], sides[1][name]) for name in sides[1]}
        ).items():
            self._check_tensors(name, x, y)
        wide = {
            torch.promote_types(x.dtype, y.dtype) for x, y in tensors.values() if x.dtype != y.dtype
        }
        in_memory = {name: (x.cpu(), y.cpu().clone()) for name, (x, y) in tensors.items()}
        if wide:
            second.to(max(wide, key=lambda dtype: dtype.itemsize))
        return in_memory

    def _check_memory(self) -> None:
        a, b = (size_of(path, loading=self.loading) for path in (self.a, self.b))
        # B's weights are there twice, as they are and as the point, on the GPU if there is one; in
        # each process.
        needed = (a + b + (0 if torch.cuda.is_available() else b)) * int(
            os.environ.get("LOCAL_WORLD_SIZE", 1)
        )
        if needed > (free := _free_memory()):
            raise ScoringError(
                f"{self.a} and {self.b}: merging in memory needs {needed / 2**30:,.2f} GiB, and "
                f"{free / 2**30:,.2f} GiB are free; take a machine with more memory, or adapters"
            )

    def _check_tensors(self, name: str, x: Tensor, y: Tensor) -> None:
        tensor_name = f"{self.a} and {self.b}: {name}"
        if x.shape != y.shape:
            raise ScoringError(
                f"{tensor_name} is {list(x.shape)} in the first and {list(y.shape)} in the second; "
                "needed equal shapes"
            )
        if not (x.is_floating_point() and y.is_floating_point()):
            if x.dtype != y.dtype or not torch.equal(x.cpu(), y.cpu()):
                raise ScoringError(
                    f"{tensor_name} holds unlike integers, of which no mean can be made"
                )
            return
        for side, path, weight in (("A", self.a, x), ("B", self.b, y)):
            _check_finite(f"{side} ({path})", name, weight)

    def check(self) -> None:
        """Load both models, and check that points can be made and kept.

        Raises:
            ScoringError: If they cannot.
        """
        if (Path(self.a) / ADAPTER).is_file():
            raise ScoringError(
                f"{self.a}: an adapter; needed a whole model as A, such as the adapter's base"
            )
        for alpha in self.alphas:
            self._is_kept(alpha)
        if not self.is_adapter:
            _ = self._sides
            return
        if self.method == "slerp":
            raise ScoringError(
                f"{self.b}: an adapter is scaled, which is linear; needed --method linear, got "
                "slerp"
            )
        self._check_adapter()
        for name, weight in self._model[0].named_parameters():
            _check_finite(f"B ({self.b})" if "lora_" in name else f"A ({self.a})", name, weight)

    def _check_adapter(self) -> None:
        folder = Path(self.b)
        base = base_of_adapter(folder)
        adapter_name = f"{self.b}: an adapter of {base}"
        try:
            same = base == self.a or weights_identity(base, loading=self.loading) == self.weights[0]
        except ScoringError as error:
            raise ScoringError(
                f"{adapter_name}, which cannot be read ({error}); needed {self.a} as its base"
            ) from error
        if not same:
            raise ScoringError(f"{adapter_name}, and not of {self.a}; give its base as A")
        if not (folder / WEIGHTS).is_file():
            raise ScoringError(f"{self.b}: needed {WEIGHTS}, found none; save the adapter again")
        try:
            with safe_open(folder / WEIGHTS, "pt") as file:
                names = list(file.keys())
        except (OSError, SafetensorError) as error:
            raise ScoringError(
                f"{folder / WEIGHTS}: cannot be read as safetensors ({error}); copy it again"
            ) from error
        if reason := _obstacle(json.loads((folder / ADAPTER).read_text(encoding="utf-8")), names):
            raise ScoringError(f"{self.b}: {reason}, which does not follow one factor; {_REMEDY}")

    @contextmanager
    def at(self, alpha: float) -> Iterator[tuple[Any, Any]]:
        """Give the model the weights of a point within the block.

        Raises:
            ScoringError: If a weight overflows.
        """
        sides = {} if self.is_adapter else self._sides
        model, tokenizer = self._model
        weights = model.state_dict() if sides else {}
        for name, pair in sides.items():
            mean = mixed(*pair, alpha, self.method)
            if mean.is_floating_point() and (bad_values := non_finite([mean])):
                raise ScoringError(
                    f"alpha {alpha:g}: the merged tensor {name} overflows in "
                    f"{str(mean.dtype)[6:]} and would hold "
                    f"{bad_values}; save A and B in a wider dtype, such as bfloat16 or float32"
                )
            with torch.no_grad():
                weights[name].copy_(mean)
        before = [(layer.scaling, dict(layer.scaling)) for layer in _adapted(model).values()]
        try:
            for scaling, factor in before:
                scaling.update({name: alpha * value for name, value in factor.items()})
            yield model, tokenizer
        finally:
            for scaling, factor in before:
                scaling.update(factor)

    def distance(self) -> WeightDistance:
        """Distance of the weights of B, relative to A; nan if unknown."""
        if not self.is_adapter:
            floats = {
                name: pair for name, pair in self._sides.items() if pair[0].is_floating_point()
            }
            squares = {
                name: (_square(x), _square(y.double() - x.double()))
                for name, (x, y) in floats.items()
            }
            return WeightDistance.of(squares, turned=sum(_turns(x, y) for x, y in floats.values()))
        model, added = self._model[0], dict[str, float]()
        for name, layer in _adapted(model).items():
            (active,) = layer.scaling
            added[f"{name}.weight"] = _square(layer.get_delta_weight(active))
        of_base = {
            name.replace(".base_layer.", "."): _square(weight)
            if weight.is_floating_point()
            else math.nan  # quantized
            for name, weight in model.named_parameters()
            if "lora_" not in name
        }
        squares = {
            name.removeprefix("base_model.model."): (layer, added.get(name, 0.0))
            for name, layer in of_base.items()
        }
        return WeightDistance.of(squares, turned=0)

    def _kept(self, alpha: float) -> Path | None:
        return None if self.keep is None else self.keep / f"{self.method}-{alpha:g}"

    def _is_kept(self, alpha: float) -> bool:
        # A folder that cannot hold the point is a ScoringError.
        if (folder := self._kept(alpha)) is None:
            return False
        above = next(
            parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists()
        )
        if not above.is_dir():
            raise ScoringError(
                f"{self.keep}: needed a folder to keep the merged models in, and {above} is a file"
            )
        if not folder.exists():
            return False
        try:
            stored_recipe = json.loads((folder / RECIPE).read_text(encoding="utf-8"))["recipe"]
        except (OSError, ValueError, KeyError, TypeError):
            stored_recipe = None
        if stored_recipe != self.recipe(alpha):
            raise ScoringError(
                f"{folder}: is there, and was not merged from {self.a} and {self.b}; name "
                "another folder"
            )
        return True

    def store(self, alpha: float) -> None:
        """Save a point into the folder that keeps points.

        Atomic; nothing happens if the point is there, or no folder keeps points.
        """
        if (folder := self._kept(alpha)) is None or self._is_kept(alpha):
            return
        partial = folder.with_name(f".{folder.name}.{secrets.token_hex(6)}.partial")
        try:
            self._save(alpha, partial)
            document = {
                "a": self.a,
                "b": self.b,
                "method": self.method,
                "alpha": alpha,
                "recipe": self.recipe(alpha),
            }
            (partial / RECIPE).write_text(json.dumps(document, indent=1), encoding="utf-8")
            partial.rename(folder)
        except OSError as error:
            raise ScoringError(
                f"{folder}: cannot be written ({error.strerror or error})"
            ) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _save(self, alpha: float, folder: Path) -> None:
        if not self.is_adapter:
            with self.at(alpha) as (model, tokenizer):
                model.save_pretrained(folder)
                tokenizer.save_pretrained(folder)
            return
        shutil.copytree(self.b, folder, ignore=_OF_ITS_RUN)
        config = json.loads((folder / ADAPTER).read_text(encoding="utf-8"))
        patterns = {
            name: alpha * value for name, value in (config.get("alpha_pattern") or {}).items()
        }
        config |= {"lora_alpha": alpha * config["lora_alpha"], "alpha_pattern": patterns}
        (folder / ADAPTER).write_text(json.dumps(config, indent=2), encoding="utf-8")


def mixed(a: Tensor, b: Tensor, alpha: float, method: Method) -> Tensor:
    """Weighted mean of two tensors, in the wider dtype.

    A tensor itself at alpha 0 and 1.
    """
    dtype = torch.promote_types(a.dtype, b.dtype)
    if alpha in (0, 1) or not a.is_floating_point():
        return (b if alpha else a).to(dtype)
    x, y = (tensor.to(torch.promote_types(dtype, torch.float32)) for tensor in (a, b))
    if method == "slerp" and _turns(a, b):
        angle = math.acos(_cosine(a, b))
        of_a, of_b = (
            math.sin((1 - alpha) * angle) / math.sin(angle),
            math.sin(alpha * angle) / math.sin(angle),
        )
        return torch.add(x * of_a, y, alpha=of_b).to(dtype)
    # Equal weights stay as they are: lerp rounds the difference, and not two products.
    return torch.lerp(x, y, alpha).to(dtype)


def _square(tensor: Tensor) -> float:
    # In fp64.
    return float(tensor.double().square().sum())


def _cosine(a: Tensor, b: Tensor) -> float:
    # The tensors are flat vectors; nan if one is 0.
    x, y = a.double().flatten(), b.double().flatten()
    norms = float(x.norm() * y.norm())
    return float(x @ y) / norms if norms else math.nan


def _turns(a: Tensor, b: Tensor) -> bool:
    # Tensors that do not turn are averaged linearly.
    return abs(_cosine(a, b)) <= PARALLEL  # False for nan


def _adapted(model: nn.Module) -> dict[str, Any]:
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(getattr(module, "scaling", None), dict)
    }


def _is_tied(model: Any) -> bool:
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    return head is not None and head.weight is embedding.weight


def _check_finite(model: str, name: str, weight: Tensor) -> None:
    if weight.is_floating_point() and (bad_values := non_finite([weight])):
        raise ScoringError(
            f"{model}: tensor {name} holds {bad_values}; take a checkpoint from before that"
        )


def _free_memory() -> int:
    # The memory of the machine, where the free memory is unknown.
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * next(
            int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")
        )
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _obstacle(config: Mapping[str, Any], tensors: list[str]) -> str:
    # An adapter that one factor does not scale as a whole.
    if config.get("peft_type") != "LORA":
        return f"an adapter of the kind {config.get('peft_type')}"
    if config.get("use_dora"):
        return "it was trained with DoRA, whose magnitudes are not a part of the product"
    if config.get("layer_replication"):
        return "layer_replication changes the base"
    if unscaled := [name for name in _NO_PRODUCT if config.get(name)]:
        return f"{unscaled[0]} adds in another way than by a product"
    start = config.get("init_lora_weights", True)
    if isinstance(start, str) and start not in _PLAIN_STARTS:
        return f"its matrices began as {start}, which changes the weights of the base"
    unscaled = [name for name in tensors if not _LORA.fullmatch(name)]
    return f"it also stores {unscaled[0]} as a whole" if unscaled else ""


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
        """Distance from sums of squares of A and of B - A, by tensor."""
        layers: dict[str, list[float]] = {}
        for name, squares_of in squares.items():
            match = _LAYER.fullmatch(name)
            sums = layers.setdefault(
                match[1] if match else name.removesuffix(".weight"), [0.0, 0.0]
            )
            sums[0], sums[1] = sums[0] + squares_of[0], sums[1] + squares_of[1]

        def relative(norm: float, difference: float) -> float:  # both are squares
            return math.sqrt(difference / norm) if norm else math.nan

        return cls(
            overall=relative(
                *(sum(square[side] for square in squares.values()) for side in (0, 1))
            ),
            layers={name: relative(*layers[name]) for name in sorted(layers, key=_by_number)},
            tensors=len(squares),
            turned=turned,
        )


def _by_number(name: str) -> list[tuple[bool, int, str]]:
    # Layer 2 comes before layer 10.
    return [(word.isdigit(), int(word) if word.isdigit() else 0, word) for word in name.split(".")]
