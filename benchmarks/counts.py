"""Costs of a look besides the model's own arithmetic, counted: batches, operations, waits for the device, memory.

    python benchmarks/counts.py [--against CHECKOUT] [--items 738] [--vocabulary 32000,152000,262000]
        [--workload standard,five-shot] [--model plain,liger,ignores] [--tokenizer FOLDER] [--json FILE]

`--against` names another checkout of this repository: both are counted in one run, each in a process of its own, and
printed side by side. The figures do not depend on the machine. Batches are those of a GPU (16,384 tokens).

model       plain    Llama of 2 layers and width 64 with random weights
            liger    its forward as Liger's: takes positions and a number as `logits_to_keep`, no mask for each row
            ignores  its forward as unsloth's: returns the logits of all positions if `logits_to_keep` is a tensor
batches     calls of the model; `prefixes` are those that read the common beginning of several items
tokens      median of rows times width; padding is the share of them that is no token of a text
operations  aten operations outside the body (the embedding and the layers), the head included
waits       calls after which the host waits for the device: item, tolist, numpy, cpu, bool, int, float, nonzero and
            indexing with a mask, of a tensor that is on the device. There is no device here: a tensor is taken for one
            that is on it if it is a weight, was moved by `.to(device)`, or was computed from such a tensor
uploads     tensors that are moved to the device, or indices from the host with which a tensor on the device is indexed
largest     largest tensor that an operation returns
peak        highest resident memory of a look, less what the process held before its first look
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VOCABULARIES = (32_000, 152_000, 262_000)
MODELS = ("plain", "liger", "ignores")
WORKLOADS = ("standard", "five-shot")
SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
TOKENS = 16384
"""Tokens of a batch on a GPU."""


def forward_of(model: str) -> type | None:
    """Class of the model with the forward pass of a library that replaces it; None for the model's own."""
    import torch
    from transformers import LlamaForCausalLM
    from transformers.modeling_outputs import CausalLMOutputWithPast

    class Replaced(LlamaForCausalLM):  # type: ignore[misc]
        def forward(  # the arguments of the forward that is replaced
            self,
            input_ids: torch.Tensor | None = None,
            attention_mask: torch.Tensor | None = None,
            position_ids: torch.Tensor | None = None,
            past_key_values: Any = None,
            inputs_embeds: torch.Tensor | None = None,
            labels: torch.Tensor | None = None,
            use_cache: bool | None = None,
            logits_to_keep: int | torch.Tensor = 0,
            **kwargs: Any,
        ) -> CausalLMOutputWithPast:
            output = self.model(
                input_ids=input_ids,
                attention_mask=attention_mask,
                position_ids=position_ids,
                past_key_values=past_key_values,
                inputs_embeds=inputs_embeds,
                use_cache=use_cache,
            )
            kept: Any = logits_to_keep
            if model == "ignores" and isinstance(kept, torch.Tensor):
                kept = 0
            positions = slice(-kept, None) if isinstance(kept, int) else kept
            logits = self.lm_head(output[0][:, positions, :])
            return CausalLMOutputWithPast(logits=logits, past_key_values=output.past_key_values)

    return None if model == "plain" else Replaced


class Calls:
    """Counts the calls of a model, and the part of a look in which an operation happens: body, head or outside."""

    def __init__(self, model: Any) -> None:
        self.tokens: list[int] = []
        self.prefixes = 0
        self.part = "outside"
        self._hooks = [
            model.register_forward_pre_hook(self._begin, with_kwargs=True),
            model.register_forward_hook(lambda *_: self._enter("outside")),
            model.model.register_forward_pre_hook(lambda *_: self._enter("body")),
            model.model.register_forward_hook(lambda *_: self._enter("head")),
        ]

    def _begin(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        self.tokens.append(ids.numel())
        cache = kwargs.get("past_key_values")
        self.prefixes += cache is not None and cache.get_seq_length() == 0
        self._enter("head")

    def _enter(self, part: str) -> None:
        self.part = part

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()


@contextmanager
def counted(model: Any, calls: Calls) -> Iterator[dict[str, Any]]:
    """Counts of the operations inside this context, filled in at its end."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves, tree_map_only

    operations: Counter[str] = Counter()
    waits: Counter[str] = Counter()
    uploads: Counter[str] = Counter()
    largest = [0]
    reads = {
        "item",
        "tolist",
        "numpy",
        "__bool__",
        "__int__",
        "__float__",
        "__index__",
        "nonzero",
        "is_nonzero",
    }
    reads |= {
        "masked_select",
        "unique",
        "argwhere",
        "equal",
        "allclose",
        "__contains__",
        "__array__",
    }

    class Operations(TorchDispatchMode):
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = function(*args, **(kwargs or {}))
            operations[calls.part] += 1
            for tensor in tree_leaves(result):
                # A view allocates nothing, an expanded one least of all.
                if isinstance(tensor, torch.Tensor) and tensor._base is None:
                    largest[0] = max(largest[0], tensor.untyped_storage().nbytes())
            return result

    class Device(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            name = getattr(function, "__name__", "")
            tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
            there = [getattr(one, "_on_device", False) for one in tensors]
            own = bool(there) and there[0]
            result = function(*args, **kwargs)
            if name == "cpu" or (name == "to" and _is_host(args, kwargs)):
                if own and not kwargs.get("non_blocking"):
                    waits[calls.part] += 1
                # Another object, so that the one on the device keeps its mark.
                return result.view(result.shape) if own else result
            if own and name in reads:
                waits[calls.part] += 1
            moves = (name == "to" and _is_move(args, kwargs)) or (
                name in ("tensor", "as_tensor") and "device" in kwargs
            )
            if moves and not own:
                uploads[calls.part] += 1
            if name in ("__getitem__", "__setitem__") and own:
                for index in tree_leaves(args[1:2]):
                    if isinstance(index, torch.Tensor):
                        waits[calls.part] += index.dtype in (torch.bool, torch.uint8)
                        uploads[calls.part] += not getattr(index, "_on_device", False)
                    elif isinstance(index, list) or type(index).__module__ == "numpy":
                        uploads[calls.part] += 1
            if (
                any(there)
                or moves
                or ("device" in kwargs and kwargs["device"] is not None and not tensors)
            ):

                def mark(tensor: torch.Tensor) -> torch.Tensor:
                    # `.to` gives the same object on the CPU; the one on the host stays without a mark.
                    marked = (
                        tensor.view(tensor.shape)
                        if moves and not own and tensor is args[0]
                        else tensor
                    )
                    marked._on_device = True  # type: ignore[attr-defined]
                    return marked

                return tree_map_only(torch.Tensor, mark, result)
            return result

    def _is_host(args: Any, kwargs: Any) -> bool:
        return "cpu" in (*args[1:2], kwargs.get("device"))

    def _is_move(args: Any, kwargs: Any) -> bool:
        return any(isinstance(one, torch.device) for one in (*args[1:], kwargs.get("device")))

    for weight in (*model.parameters(), *model.buffers()):
        weight._on_device = True
    found: dict[str, Any] = {}
    try:
        with Device(), Operations():
            yield found
    finally:
        for weight in (*model.parameters(), *model.buffers()):
            del weight._on_device
        found |= {
            "operations": operations["outside"] + operations["head"],
            "in the body": operations["body"],
            "waits": waits["outside"] + waits["head"],
            "waits in the body": waits["body"],
            "uploads": uploads["outside"] + uploads["head"],
            "largest": largest[0],
        }


def resident(key: str) -> int:
    """Resident memory of this process, bytes: `VmRSS` now, `VmHWM` the highest since it was reset."""
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key)
    )
    return 1024 * int(line.split()[1])


def release() -> None:
    """Return freed memory to the system, so that the resident memory is what is in use."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)


def count(case: dict[str, Any]) -> dict[str, Any]:
    """Figures of one case, in this process."""
    warnings.simplefilter("ignore")
    import transformers
    import workloads

    from forgetwatch.scoring.scorer import Scorer

    transformers.logging.set_verbosity_error()
    probe = (
        workloads.standard()
        if case["workload"] == "standard"
        else workloads.five_shot(case["items"])
    )
    tokenizer = workloads.text_tokenizer(workloads.standard())
    if case["tokenizer"]:
        tokenizer = transformers.AutoTokenizer.from_pretrained(case["tokenizer"])
    vocabulary = max(case["vocabulary"], len(tokenizer))
    model = workloads.llama(vocabulary, SHAPE, kind=forward_of(case["model"]))
    scorer = Scorer(probe, tokenizer, model, token_budget=TOKENS)
    limit = int(case["limit_gb"] * 2**30) + resident("VmRSS")
    # Virtual memory, which a tensor takes at once: a look that needs more fails and leaves the machine alone.
    resource.setrlimit(resource.RLIMIT_AS, (limit + 4 * 2**30, resource.RLIM_INFINITY))
    release()
    before = resident("VmRSS")
    scorer.score(model)  # the layout is chosen
    release()
    Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
    calls = Calls(model)
    with counted(model, calls) as found:
        scorer.score(model)
    peak = resident("VmHWM")
    calls.remove()
    padded = sum(calls.tokens)
    return {
        **found,
        "layout": scorer.engine.layout,
        "batches": len(calls.tokens),
        "prefixes": calls.prefixes,
        "tokens": int(statistics.median(calls.tokens)),
        "padding": 1 - scorer.engine.tokens / padded,
        "read": padded,
        "peak": peak - before,
    }


def in_process(checkout: Path, case: dict[str, Any]) -> dict[str, Any]:
    """Figures of one case with the package of a checkout, from a process of its own."""
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve()), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return {
            "error": next((line for line in reversed(lines) if "Error" in line), lines[-1])[:200]
        }
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def size(number: float) -> str:
    return f"{number / 2**20:,.0f}"


COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "layout": lambda found: found["layout"],
    "batches": lambda found: f"{found['batches']} ({found['prefixes']})",
    "tokens": lambda found: f"{found['tokens']:,}",
    "padding": lambda found: f"{100 * found['padding']:.0f} %",
    "operations": lambda found: f"{found['operations']:,}",
    "waits": lambda found: f"{found['waits']:,}",
    "uploads": lambda found: f"{found['uploads']:,}",
    "largest MiB": lambda found: size(found["largest"]),
    "peak MiB": lambda found: size(found["peak"]),
}


def cells(results: list[dict[str, Any]]) -> list[str]:
    """One cell for each column; the figures of several checkouts one below the other, a failure in the first column."""

    def cell(name: str, found: dict[str, Any]) -> str:
        if "error" in found:
            return found["error"] if name == "layout" else "-"
        return COLUMNS[name](found)

    return ["\n".join(cell(name, found) for found in results) for name in COLUMNS]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="another checkout, counted too")
    parser.add_argument("--vocabulary", default=",".join(map(str, VOCABULARIES)))
    parser.add_argument("--workload", default=",".join(WORKLOADS))
    parser.add_argument("--model", default=",".join(MODELS))
    parser.add_argument(
        "--items", type=int, default=738, help="items of `five-shot`; MMLU has 14,042"
    )
    parser.add_argument(
        "--tokenizer",
        default="",
        help="folder of a tokenizer; by default one is trained on the items",
    )
    parser.add_argument(
        "--limit-gb", type=float, default=8.0, help="a look that needs more memory fails"
    )
    parser.add_argument("--json", type=Path, help="file to which the figures are written")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        print(json.dumps(count(json.loads(given.case))))
        return
    from rich.console import Console
    from rich.table import Table

    here = Path(__file__).resolve().parents[1]
    checkouts = {"before": given.against, "now": here} if given.against else {"now": here}
    console = Console(width=170, highlight=False)
    table = Table("workload", "vocabulary", "model", "", *COLUMNS, show_lines=True)
    written = []
    for workload in given.workload.split(","):
        for vocabulary in map(int, given.vocabulary.split(",")):
            for model in given.model.split(","):
                case = {
                    "workload": workload,
                    "vocabulary": vocabulary,
                    "model": model,
                    "items": given.items,
                }
                case |= {"tokenizer": given.tokenizer, "limit_gb": given.limit_gb}
                results = [in_process(checkout, case) for checkout in checkouts.values()]
                written.append({**case, "found": dict(zip(checkouts, results, strict=True))})
                made = cells(results)
                table.add_row(workload, f"{vocabulary:,}", model, "\n".join(checkouts), *made)
                console.print(
                    workload, vocabulary, model, *(cell.replace("\n", " -> ") for cell in made)
                )
                if given.json:
                    given.json.write_text(json.dumps(written, indent=1), encoding="utf-8")
    console.print(table)


if __name__ == "__main__":
    main()
