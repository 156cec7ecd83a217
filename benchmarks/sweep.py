"""Exactness on every causal architecture of transformers that can be made tiny with random weights.

    python benchmarks/sweep.py --csv FOLDER/sweep.csv             everything; stops and resumes at any time
    python benchmarks/sweep.py --only gemma2,gpt_oss [--items 24] some architectures, by name
    python benchmarks/sweep.py --csv FOLDER/sweep.csv --markdown  a finished file as a table for a page
    python benchmarks/sweep.py --images --csv FOLDER/images.csv   models that take images and text, by texts alone
    python benchmarks/sweep.py --flash [--only ...]               set to an attention that stands in for a flash kernel

Each architecture is scored in fp32 on the CPU and compared with one plain forward per choice on the model's own logits.
The items have a long common beginning (so that a prefix is worth a call), windows are 8 tokens, chunks 16, and caps of
logits and attention scores are 2 (so that a rule that is left out shows). Weights are large enough for the attention to
matter. `difference` is the largest of a log-likelihood, nats; above 1e-4 it is wrong. The exit status is 1 if any is.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import inspect
import multiprocessing
import random
import resource
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from transformers import CONFIG_MAPPING, masking_utils
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from forgetwatch import Item, Probe
from forgetwatch.errors import ScoringError
from forgetwatch.scoring.model import attention_of
from forgetwatch.scoring.scorer import Scorer

WRONG = 1e-4
"""Difference of a log-likelihood above which an architecture counts as wrong, nats."""
SECONDS = 60
"""Time limit of one architecture."""
LIMIT = 12 * 2**30
"""Address space of the process of one architecture, bytes."""
WORDS = 160
COLUMNS = (
    "name",
    "class",
    "result",
    "difference",
    "layout",
    "attention",
    "head",
    "reason",
    "seconds",
)

CAPS = (
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "logits_soft_cap",
    "output_logit_soft_cap",
)
"""Settings that cap logits or attention scores; those without a default are left alone."""
SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "dim", "embedding_size", "emb_dim"), 64),
    **dict.fromkeys(("out_hidden_size", "text_hidden_size", "adapter_in_dim"), 64),
    **dict.fromkeys(
        (
            "intermediate_size",
            "ffn_dim",
            "d_inner",
            "n_inner",
            "ffn_hidden_size",
            "decoder_ffn_dim",
        ),
        96,
    ),
    **dict.fromkeys(("encoder_ffn_dim", "dff", "dim_ff", "shared_expert_intermediate_size"), 96),
    **dict.fromkeys(
        (
            "num_hidden_layers",
            "n_layer",
            "n_layers",
            "num_layers",
            "decoder_layers",
            "encoder_layers",
        ),
        2,
    ),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "num_heads", "num_decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(
        ("head_dim", "qk_nope_head_dim", "v_head_dim", "kv_channels", "attention_head_dim"), 16
    ),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "swa_head_dim", "swa_v_head_dim"), 16),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_k", "moe_topk", "top_k_experts"), 2),
    **dict.fromkeys(
        ("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size_mlp"), 32
    ),
    **dict.fromkeys(("n_group", "topk_group", "n_shared_experts", "first_k_dense_replace"), 1),
    **dict.fromkeys(("mamba_d_state", "state_size", "ssm_state_size", "time_step_rank"), 8),
    **dict.fromkeys(
        ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length"), 512
    ),
    **dict.fromkeys(("linear_num_key_heads", "mamba_n_groups", "n_groups"), 1),
    **dict.fromkeys(
        ("linear_key_head_dim", "linear_value_head_dim", "mamba_head_dim", "mamba_headdim"), 16
    ),
    **dict.fromkeys(("mamba_num_heads", "mamba_n_heads", "n_mamba_heads"), 8),
    **dict.fromkeys(
        ("moe_shared_expert_intermediate_size", "shared_intermediate_size", "feed_forward_size"), 32
    ),
    **dict.fromkeys(("num_encoder_layers", "num_decoder_layers", "depth"), 2),
    **dict.fromkeys(("num_encoder_attention_heads", "linear_num_value_heads"), 4),
    **dict.fromkeys(("image_size", "vision_image_size"), 28),
    **dict.fromkeys(("patch_size", "spatial_patch_size"), 14),
    **dict.fromkeys(CAPS, 2.0),
    "qk_rope_head_dim": 8,
    "rotary_dim": 8,
    "sliding_window": 8,
    "window_size": 8,
    "attention_chunk_size": 16,
    "use_cache": True,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 3,
    "decoder_start_token_id": 3,
    "is_decoder": True,
    "is_encoder_decoder": False,
}
"""Sizes by the names that configurations use; those that a configuration does not have are left out."""


_GLOBAL_HEADS: dict[str, Any] = {
    "global_head_dim": 16,
    "num_global_key_value_heads": 2,
    "num_kv_shared_layers": 0,
}
_GEMMA3N: dict[str, Any] = {
    **{"num_kv_shared_layers": 0, "laurel_rank": 8, "hidden_size_per_layer_input": 16},
    **{"vocab_size_per_layer_input": 170, "activation_sparsity_pattern": [0.0, 0.0]},
}


def _mrope(*sections: int) -> dict[str, Any]:
    """Shares of a head for the positions in time, height and width."""
    return {
        "text_config": {
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e4,
                "mrope_section": sections,
            }
        }
    }


BY_HAND: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        ("glm46v", "glm4v", "glm_ocr", "glmga", "paddleocr_vl", "qwen2_5_vl", "qwen2_vl"),
        _mrope(2, 3, 3),
    ),
    "glm4v_moe": _mrope(1, 1, 2),
    "bamba": {"attn_layer_indices": [1]},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10_000.0},
        "ffn_config": {"hidden_size": 64, "ffn_hidden_size": 96},
    },
    "gemma3n_text": _GEMMA3N,
    "gemma4_text": _GLOBAL_HEADS,
    "gemma4_unified_text": _GLOBAL_HEADS,
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "longcat_flash": {"head_dim": 8, "zero_expert_num": 2},
    "mamba2": {"num_heads": 8, "head_dim": 16},
    "nemotron_h": {"layers_block_type": ["mamba", "attention", "moe"]},
    "recurrent_gemma": {"num_hidden_layers": 3, "lru_width": 64, "attention_window_size": 8},
    "reformer": {"axial_pos_embds": False, "attention_head_size": 16, "attn_layers": ["local"] * 2},
    "xlstm": {"qk_dim_factor": 1.0},
    "xmod": {"languages": ("en_XX",), "default_language": "en_XX"},
}
"""Settings of architectures that the sizes above do not make."""


def tokenizer() -> Any:
    """One token a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = [
        "<pad>",
        "<eos>",
        "<unk>",
        "<bos>",
        *"ABCD",
        "Q",
        ":",
        *(f"w{i}" for i in range(WORDS)),
    ]
    backend = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<unk>",
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
    )


def probe(count: int) -> Probe:
    """Items after two long beginnings and after none; choices of letters and of one to four words."""
    rng = random.Random(11)

    def words(number: int) -> str:
        return " ".join(f"w{rng.randrange(WORDS)}" for _ in range(number))

    beginnings = [words(45), words(50), ""]
    items = []
    for index in range(count):
        k = 2 + index % 3
        letters = index % 2 == 0
        # Multi-token choices that begin alike branch below the context.
        first = words(1)
        choices = (
            [f" {x}" for x in "ABCD"[:k]]
            if letters
            else [f" {first} {words(1 + n % 3)}" for n in range(k)]
        )
        prompt = f"{beginnings[index * 3 // count]} Q {words(3 + index % 9)} :".strip()
        items.append(
            Item(id=str(index), task="t", prompt=prompt, choices=tuple(choices), answer=index % k)
        )
    return Probe(items, name="sweep")


def fields_of(kind: type) -> dict[str, Any]:
    """Names and defaults of a configuration's settings."""
    if dataclasses.is_dataclass(kind):
        return {field.name: field.default for field in dataclasses.fields(kind)}
    return {name: p.default for name, p in inspect.signature(kind.__init__).parameters.items()}


def small(kind: type, size: int) -> dict[str, Any]:
    """Settings that make a configuration small: sizes, and lists with an entry for each layer."""
    there = fields_of(kind)
    own = {**SMALL, "vocab_size": size}
    names = {**dict.fromkeys(there), **getattr(kind, "attribute_map", {})}
    settings = {name: value for name, value in own.items() if name in names}
    if there.get("sliding_window", 0) is None:
        del settings["sliding_window"]
    for name in CAPS:
        if there.get(name, 0) is None:
            settings.pop(name, None)
    if "kv_lora_rank" in names:  # one key for each head
        settings["num_key_value_heads"] = settings["num_attention_heads"]
    try:
        default = kind()
    except Exception:  # the settings by hand have to make it
        default = None
    rope = getattr(default, "rope_parameters", None)
    if (
        isinstance(rope, dict) and "mrope_section" in rope
    ):  # positions in time, height and width share a head
        half = (
            int(
                settings.get("qk_rope_head_dim", 16) * float(rope.get("partial_rotary_factor") or 1)
            )
            // 2
        )
        settings["rope_parameters"] = {
            **rope,
            "mrope_section": [half - 2 * (half // 3), half // 3, half // 3],
        }
    for name, part in getattr(kind, "sub_configs", {}).items():
        if part.__name__ != "AutoConfig":
            settings[name] = small(part, size)
        elif isinstance(of_default := getattr(default, name, None), transformers.PretrainedConfig):
            settings[name] = {"model_type": of_default.model_type, **small(type(of_default), size)}
    if default is None:
        return settings
    layers = getattr(default, "num_hidden_layers", 0)
    lists = {
        name: value
        for name in there
        if isinstance(value := vars(default).get(name), (list, tuple))
        and len(value) == layers
        and layers > 1
    }
    kinds = {name: list(dict.fromkeys(map(str, value))) for name, value in lists.items()}
    count = max([2, *map(len, kinds.values())])
    for name, value in lists.items():
        distinct = list({str(one): one for one in value}.values())
        settings[name] = [distinct[n % len(distinct)] for n in range(count)]
    if count > 2:
        settings["num_hidden_layers"] = count
    return settings


def make(name: str, kind: str, size: int) -> nn.Module:
    """Tiny model of one architecture with random weights.

    Raises:
        Exception: Whatever the configuration or the model raises; it cannot be made tiny then.
    """
    torch.manual_seed(0)
    config_class = CONFIG_MAPPING[name]
    settings = _merged(small(config_class, size), BY_HAND.get(name, {}))
    config = config_class(**settings)
    model = getattr(transformers, kind)(config).float().eval()
    with torch.no_grad():
        for weight in model.parameters():
            # Usual initial weights are so small that attention hardly matters, and a wrong mask would hardly show.
            if weight.ndim == 2 and 0 < (scale := float(weight.std())) < 0.15:
                weight.mul_(min(8.0, 0.15 / scale))
    return model


def _merged(settings: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The settings with those of the other, also in nested ones."""
    nested = {
        name: _merged(settings.get(name, {}), value) if isinstance(value, dict) else value
        for name, value in other.items()
    }
    return {**settings, **nested}


def log_likelihoods(
    model: nn.Module, context: Sequence[int], choices: Sequence[Sequence[int]]
) -> np.ndarray:
    """Log-likelihood of each choice by a forward pass of its own, nats."""
    found = []
    for choice in choices:
        with torch.no_grad():
            logits: Tensor = model(input_ids=torch.tensor([[*context, *choice]])).logits[0]
        logprobs = logits[: len(context) + len(choice)].double().log_softmax(-1)
        found.append(
            sum(float(logprobs[len(context) - 1 + n, token]) for n, token in enumerate(choice))
        )
    return np.array(found)


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"[:150]


def sweep(name: str, kind: str, items: int, *, with_flash: bool = False) -> dict[str, Any]:
    """Row of the table for one architecture."""
    # A model that did not become tiny fails at once, and leaves the machine alone.
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, resource.RLIM_INFINITY))
    started, tok, wanted = time.perf_counter(), tokenizer(), probe(items)
    row: dict[str, Any] = {
        "name": name,
        "class": kind,
        "difference": "",
        "layout": "",
        "attention": "",
    }
    row |= {"head": "", "reason": ""}
    try:
        model = make(name, kind, len(tok) + 6)
        if with_flash:
            set_to_flash(model)
    except Exception as error:
        return {**row, "result": "not made", "reason": first_line(error), "seconds": 0}
    attention: set[str] = set()
    try:
        scorer = Scorer(wanted, tok, model)
        scorer.score(model)  # chooses the layout
        watcher = model.register_forward_pre_hook(lambda *_: attention.add(attention_of(model)))
        snapshot = scorer.score(model)
        watcher.remove()
    except ScoringError as error:
        return {
            **row,
            "result": "refused",
            "reason": first_line(error),
            "seconds": time.perf_counter() - started,
        }
    except Exception as error:
        return {
            **row,
            "result": "failed",
            "reason": first_line(error),
            "seconds": time.perf_counter() - started,
        }
    try:
        expected = [
            log_likelihoods(model, encoded_context(tok, item), encoded(tok, item))
            for item in wanted
        ]
    except (
        Exception
    ) as error:  # nothing to compare with: the model itself does not read these texts
        return {
            **row,
            "result": "not made",
            "reason": first_line(error),
            "seconds": time.perf_counter() - started,
        }
    found = np.concatenate(
        [np.array(values) for values in snapshot.table["choice_logprobs"].to_pylist()]
    )
    difference = float(np.max(np.abs(found - np.concatenate(expected))))
    return {
        **row,
        "result": "right" if difference <= WRONG else "WRONG",  # a nan is wrong
        "difference": f"{difference:.1e}",
        "layout": scorer.engine.layout,
        "attention": "+".join(sorted(attention)),
        "head": head_of(scorer),
        "reason": scorer.engine.fallback_reason[:150],
        "seconds": time.perf_counter() - started,
    }


def flash(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention as flash kernels compute it: causal, with windows, soft caps and sinks, and masks of padding only.

    Queries are [rows, heads, length, size]; the result is [rows, length, heads, size].
    """
    if attention_mask is not None and attention_mask.ndim != 2:
        raise ValueError("a flash kernel takes no mask for each pair of tokens")
    groups = query.shape[1] // key.shape[1]
    key, value = (part.repeat_interleave(groups, dim=1) for part in (key, value))
    scores = (
        query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    )
    scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
    distance = (
        torch.arange(query.shape[2])[:, None]
        + key.shape[2]
        - query.shape[2]
        - torch.arange(key.shape[2])
    )
    seen = (distance >= 0) & (distance < (sliding_window or key.shape[2] + 1))
    seen = seen if attention_mask is None else seen & attention_mask.bool()[:, None, None]
    scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
    if s_aux is not None:
        scores = torch.cat(
            [scores, s_aux.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)], dim=-1
        )
    weights = scores.softmax(-1)[..., : key.shape[2]]
    return (weights @ value).transpose(1, 2).contiguous(), None


def set_to_flash(model: nn.Module) -> None:
    """Set a model to `flash`.

    Raises:
        ValueError: If the model supports no flash kernel.
    """
    if not getattr(model, "_supports_flash_attn", False):
        raise ValueError("the architecture supports no flash kernel")
    transformers.AttentionInterface.register("stand_in", flash)
    masking_utils.AttentionMaskInterface.register("stand_in", masking_utils.flash_attention_mask)
    model.set_attn_implementation("stand_in")


def head_of(scorer: Scorer) -> str:
    """Source of the log-probabilities: hidden states, with the rule after the head, or the model's own logits."""
    rule = getattr(scorer.engine._forward, "rule", None)
    if rule is None:
        return "logits"
    parts = [f"scale {rule.scale:.3g}"] * (rule.scale != 1) + [f"cap {rule.cap}"] * (
        rule.cap is not None
    )
    return " ".join(["hidden", *parts])


def in_process(name: str, kind: str, items: int, *, with_flash: bool) -> dict[str, Any]:
    """Row of one architecture, from a process of its own, which may take too long or too much memory."""
    context = multiprocessing.get_context("fork")  # transformers is imported once
    receiver, sender = context.Pipe(duplex=False)
    started = time.perf_counter()
    process = context.Process(
        target=lambda: sender.send(sweep(name, kind, items, with_flash=with_flash))
    )
    process.start()
    sender.close()
    error = f"more than {SECONDS} s"
    try:
        if receiver.poll(SECONDS):
            row: dict[str, Any] = receiver.recv()
            return row
    except EOFError:
        error = "the process died"
    finally:
        process.kill()
        process.join()
    seconds = time.perf_counter() - started
    return {
        **dict.fromkeys(COLUMNS, ""),
        "name": name,
        "class": kind,
        "result": "failed",
        "reason": error,
        "seconds": seconds,
    }


def encoded_context(tok: Any, item: Item) -> list[int]:
    return list(tok(str(item.prompt))["input_ids"])


def encoded(tok: Any, item: Item) -> list[list[int]]:
    return [list(tok(choice)["input_ids"]) for choice in item.choices]


def read(path: Path | None) -> dict[str, dict[str, str]]:
    if path is None or not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def append(path: Path, row: dict[str, Any]) -> None:
    fresh = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def markdown(rows: Sequence[dict[str, str]]) -> str:
    """Counts, and the names by layout."""
    lines = [
        ", ".join(
            f"{count} {result}"
            for result, count in Counter(row["result"] for row in rows).most_common()
        )
    ]
    worst = max(
        (float(row["difference"]) for row in rows if row["difference"]), default=float("nan")
    )
    lines += [f"largest difference {worst:.1e} nats", ""]
    for layout in ("prefix", "trie", "rows"):
        names = [row["name"] for row in rows if row["layout"] == layout]
        lines.append(f"* **{layout}** ({len(names)}): {', '.join(names)}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--csv", type=Path, help="file to which each finished architecture is added"
    )
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--items", type=int, default=24)
    parser.add_argument(
        "--flash", action="store_true", help="set the models to an attention like a flash kernel's"
    )
    parser.add_argument(
        "--images", action="store_true", help="the models that take images and text"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print the file as a table for a page, and stop"
    )
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    console = Console(width=160, highlight=False)
    done = read(given.csv)
    if given.markdown:
        print(markdown(list(done.values())))
        return
    kinds = (
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
        if given.images
        else MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    )
    wanted = [name for name in given.only.split(",") if name] or list(kinds)
    table = Table(*COLUMNS)
    rows = []
    for name in wanted:
        row = done.get(name) if not given.only else None
        if row is None:
            made = in_process(name, kinds[name], given.items, with_flash=given.flash)
            row = {**made, "seconds": f"{made['seconds']:.1f}"}
            if given.csv:
                append(given.csv, row)
            console.print(*(row[column] for column in COLUMNS), soft_wrap=True)
        rows.append(row)
        table.add_row(*(str(row[column]) for column in COLUMNS))
    console.print(table)
    print(markdown(rows))
    if bad := [str(row["name"]) for row in rows if row["result"] in ("WRONG", "failed")]:
        raise SystemExit(f"wrong, or neither scored nor refused: {', '.join(bad)}")


if __name__ == "__main__":
    main()
