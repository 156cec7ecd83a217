"""Throughput of a look on a GPU, for models of 1B and 7B with random weights in bf16 and a vocabulary of 152,000.

    python3 benchmarks/gpu.py                   a CUDA device with 40 GB; under ten minutes; [--shape 1B] [--items 984]
    python3 benchmarks/gpu.py --tiny            the same code on a small model, on any device

Needed are torch, transformers and forgetwatch's base requirements; nothing is loaded from a network. Where lm-eval is
installed, its own model class scores the same items with batch_size="auto".

tokens/s    tokens of the texts that a look reads, without padding, in a second
of ceiling  products of the layers' weights with these tokens, as a share of what the machine itself reaches in a
            large bf16 matrix product; attention, head and padding count as overhead
look        seconds of the second look: batches and layout are those of the first, which is `first`
body, head  seconds on the device in the layers, and in the model after them: the output embedding and what is read
            from its numbers; reading is the rest of the look: masks, transfers, numpy
encoding    seconds of rendering and tokenizing the items, once a run
peak        highest memory of a look on the device, the weights included; on the CPU resident memory
The parts are measured in a third look, so that the second is not slowed down.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

START = time.perf_counter()
SHAPES: dict[str, dict[str, int]] = {
    "1B": {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
    "7B": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
}
VOCABULARY = 152_000
WORKLOADS = ("standard", "five-shot")
COLUMNS = (
    "tokens",
    "tokens/s",
    "of ceiling",
    "peak GiB",
    "encoding",
    "first",
    "look",
    "body",
    "head",
    "reading",
)


def say(text: str) -> None:
    """Print one line with the seconds since the start, at once."""
    print(f"[{time.perf_counter() - START:6.1f} s] {text}", flush=True)


class Clock:
    """Marks on the device's own time line, which need no waiting; on the CPU the wall clock.

    Args:
        device: Device of the model.
    """

    def __init__(self, device: str) -> None:
        self._device = device

    def mark(self) -> Any:
        import torch

        if self._device != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, first: Any, last: Any) -> float:
        """Seconds between two marks; call `wait` before."""
        return float(last - first if self._device != "cuda" else first.elapsed_time(last) / 1000)

    def wait(self) -> None:
        import torch

        if self._device == "cuda":
            torch.cuda.synchronize()

    def timed(self, act: Callable[[], Any]) -> tuple[Any, float]:
        """Result and wall seconds, with the device idle at both ends."""
        self.wait()
        started = time.perf_counter()
        found = act()
        self.wait()
        return found, time.perf_counter() - started


def ceiling(device: str, dtype: Any, size: int) -> float:
    """Floating-point operations per second of a large matrix product, the best of three."""
    import torch

    one, other = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    clock = Clock(device)
    clock.timed(lambda: one @ other)
    return max(
        20 * 2 * size**3 / clock.timed(lambda: [one @ other for _ in range(20)])[1]
        for _ in range(3)
    )


def parts(model: Any, act: Callable[[], Any], clock: Clock) -> tuple[float, float, float]:
    """Seconds of a look in the body, in the rest of the model, and outside it."""
    marks: list[tuple[str, Any]] = []

    def hook(name: str) -> Callable[..., None]:
        return lambda *_: marks.append((name, clock.mark()))

    hooks = [
        model.register_forward_pre_hook(hook("call")),
        model.model.register_forward_pre_hook(hook("begin")),
        model.model.register_forward_hook(hook("end")),
        model.register_forward_hook(hook("returned")),
    ]
    try:
        _, whole = clock.timed(act)
    finally:
        for handle in hooks:
            handle.remove()
    sums = {"begin": 0.0, "end": 0.0, "returned": 0.0}
    for (_, before), (name, after) in pairwise(marks):
        if name != "call":
            # Of a call: what precedes the body, masks of the model's own, counts as body.
            sums[name] += clock.seconds(before, after)
    body = sums["begin"] + sums["end"]
    return body, sums["returned"], whole - body - sums["returned"]


def reset_peak(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    else:
        Path("/proc/self/clear_refs").write_text("5")


def peak(device: str) -> float:
    """Highest memory since `reset_peak`, GiB."""
    import torch

    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**30
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return int(line.split()[1]) / 2**20


def harness_seconds(model: Any, tokenizer: Any, probe: Any, clock: Clock) -> float:
    """Seconds of lm-evaluation-harness's own model class on the same items."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    asked = [
        Instance("loglikelihood", {}, (str(item.prompt), choice), number)
        for number, item in enumerate(probe)
        for choice in item.choices
    ]
    peer = HFLM(pretrained=model, tokenizer=tokenizer, batch_size="auto", max_length=8192)
    return clock.timed(lambda: peer.loglikelihood(asked, disable_tqdm=True))[1]


def measure(
    label: str, model: Any, tokenizer: Any, probe: Any, *, most: float, device: str
) -> list[str]:
    """Cells of one row of the table."""
    import workloads

    from forgetwatch.progress import shown
    from forgetwatch.scoring.scorer import Scorer

    clock = Clock(device)
    say(f"{label}: encoding {len(probe):,} items")
    scorer, encoding = clock.timed(lambda: Scorer(probe, tokenizer, model))
    say(f"{label}: first look, which chooses the layout")
    with shown(f"{label}: first look", delay=1.0) as progress:
        _, first = clock.timed(lambda: scorer.score(model, progress=progress))
    engine = scorer.engine
    say(f"{label}: {engine.layout} {engine.fallback_reason}; second look")
    reset_peak(device)
    with shown(f"{label}: second look", delay=1.0) as progress:
        _, look = clock.timed(lambda: scorer.score(model, progress=progress))
    memory = peak(device)
    say(f"{label}: third look, in parts")
    body, head, reading = parts(model, lambda: scorer.score(model), clock)
    share = 2 * workloads.parameters(model) * engine.tokens / look / most
    seconds = (f"{value:.2f}" for value in (encoding, first, look, body, head, reading))
    return [
        f"{engine.tokens:,}",
        f"{engine.tokens / look:,.0f}",
        f"{100 * share:.0f} %",
        f"{memory:.1f}",
        *seconds,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="a small model, on any device")
    parser.add_argument("--shape", default="1B,7B")
    parser.add_argument("--workload", default=",".join(WORKLOADS))
    parser.add_argument(
        "--items", type=int, help="items of each workload; by default 2,000 and 1,968 (tiny: 200)"
    )
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    parser.add_argument("--no-harness", action="store_true", help="leave lm-evaluation-harness out")
    given = parser.parse_args()
    say("loading torch and transformers")
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import torch
    import transformers
    import workloads
    from rich.console import Console
    from rich.table import Table

    transformers.logging.set_verbosity_error()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    name = (
        torch.cuda.get_device_name()
        if device == "cuda"
        else f"CPU, {torch.get_num_threads()} threads"
    )
    say(f"{name}, torch {torch.__version__}, transformers {transformers.__version__}")
    most = ceiling(device, dtype, 8192 if device == "cuda" else 1024)
    say(f"a large matrix product in {str(dtype).removeprefix('torch.')}: {most / 1e12:.3g} TFLOP/s")
    with_harness = find_spec("lm_eval") is not None and not given.no_harness
    count = given.items or (200 if given.tiny else None)
    probes = {
        "standard": lambda: workloads.standard(count),
        "five-shot": lambda: workloads.five_shot(count or 1968),
    }
    tokenizer = workloads.text_tokenizer(workloads.standard())
    columns = (*COLUMNS, "harness") if with_harness else COLUMNS
    table = Table("model", "items", *columns, caption="encoding to harness in seconds")
    for shape in ("tiny",) if given.tiny else given.shape.split(","):
        say(f"{shape}: random weights")
        torch.set_default_dtype(dtype)
        model = workloads.llama(given.vocabulary, SHAPES[shape], device=device)
        torch.set_default_dtype(torch.float32)
        for workload in given.workload.split(","):
            label, probe = f"{shape}, {workload}", probes[workload]()
            cells = measure(label, model, tokenizer, probe, most=most, device=device)
            if with_harness:
                say(f"{label}: lm-evaluation-harness")
                cells.append(f"{harness_seconds(model, tokenizer, probe, Clock(device)):.2f}")
            table.add_row(shape, workload, *cells)
            say(
                f"{label}: "
                + ", ".join(f"{column} {cell}" for column, cell in zip(columns, cells, strict=True))
            )
        del model
        if device == "cuda":
            torch.cuda.empty_cache()
    Console(width=150, highlight=False).print(table)
    say("done")


if __name__ == "__main__":
    main()
