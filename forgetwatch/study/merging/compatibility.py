"""Two models of which a mean can be made: they compute alike, cut text alike, and store tensors of the same shapes.

Each check names the first difference, from configurations, tokenizers and headers alone: what cannot be merged stops
before a weight is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from transformers import AutoConfig

from forgetwatch.errors import ScoringError
from forgetwatch.scoring import pretrained_tokenizer
from forgetwatch.study.merging.weight_files import COPIED, DTYPES, Pair, StoredTensor, are_equal

_SETTINGS: Final = frozenset(
    (
        *("_name_or_path", "transformers_version", "_commit_hash", "auto_map", "dtype", "torch_dtype", "use_cache"),
        *("bos_token_id", "eos_token_id", "pad_token_id", "max_position_embeddings", "initializer_range"),
        *("attn_implementation", "_attn_implementation_autoset", "attention_dropout", "hidden_dropout"),
        *("output_attentions", "output_hidden_states", "return_dict", "pretraining_tp"),
        *("id2label", "label2id", "problem_type", "model_name", "unsloth_version", "unsloth_fixed"),
    )
)
"""Keys of a configuration that change nothing in what the weights compute."""
_IGNORED: Final = ("rotary_emb.inv_freq", ".masked_bias")
"""Ends of names of buffers that older versions stored, and that are computed when a model is loaded."""
_HEAD: Final = "lm_head.weight"


def check_alike(a: str, b: str, *, trust_remote_code: bool = False) -> None:
    """Raise unless two models compute in the same way and cut text into the same tokens.

    Raises:
        ScoringError: If they do not; the first difference is named.
    """
    configs = []
    for given in (a, b):
        try:
            configs.append(AutoConfig.from_pretrained(given, trust_remote_code=trust_remote_code).to_dict())
        except Exception as error:  # whatever a loader of foreign files raises
            missing = "" if Path(given).is_dir() else "no folder here, and as a model id "
            raise ScoringError(f"{given}: {missing}its configuration cannot be read ({error})") from error
        if configs[-1].get("quantization_config"):
            raise ScoringError(f"{given}: its weights are quantized; merge the models from before that")
    first, second = map(_computing, configs)
    # The type first: of two architectures nearly every key differs.
    for key in sorted(first.keys() | second.keys(), key=lambda name: (name != "model_type", name)):
        if first.get(key) != second.get(key):
            raise ScoringError(
                f"{a} and {b} do not compute alike: {key} is {first.get(key)!r:.80} in the first and "
                f"{second.get(key)!r:.80} in the second; needed two models of one architecture"
            )
    _check_tokenizers(a, b, trust_remote_code=trust_remote_code)


def tensors_on_one_side(
    a: str, b: str, of_a: Mapping[str, StoredTensor], of_b: Mapping[str, StoredTensor], *, tied: bool
) -> tuple[str, ...]:
    """Names of tensors that one model alone stores, and that loading makes of others: buffers, a tied head.

    Args:
        a: Name of the first model.
        b: Name of the second.
        of_a: Tensors of the first, by name.
        of_b: Tensors of the second.
        tied: True if the head is tied to the embedding.

    Raises:
        ScoringError: If a tensor of one model is needed in both.
    """
    alone = {name: (side, of) for side, of, other in ((a, of_a, of_b), (b, of_b, of_a)) for name in of.keys() - other}
    needed = sorted(name for name in alone if not (name.endswith(_IGNORED) or (tied and name == _HEAD)))
    if needed:
        raise ScoringError(
            f"{a} and {b}: {len(needed)} tensors are in one of them only, {needed[0]} in {alone[needed[0]][0]}; needed "
            "two models of one architecture"
        )
    if _HEAD in alone:
        side, of = alone[_HEAD]
        # transformers unties a head that is stored with other values than the embedding.
        if not any(_is_copy(of[_HEAD], one) for name, one in of.items() if name != _HEAD):
            raise ScoringError(
                f"{side}: {_HEAD} differs from the embedding, to which {b if side == a else a} ties its head; needed "
                "two models whose heads are tied, or two that store one"
            )
    return tuple(sorted(alone))


def _is_copy(tensor: StoredTensor, other: StoredTensor) -> bool:
    return (tensor.shape, tensor.dtype) == (other.shape, other.dtype) and are_equal(Pair(a=tensor, b=other))


def check_pair(pair: Pair, a: str, b: str) -> None:
    """Refuse unlike shapes, and weights that cannot be averaged."""
    name = pair.a.name
    if pair.a.shape != pair.b.shape:
        raise ScoringError(
            f"{a} and {b}: {name} is {list(pair.a.shape)} in the first and {list(pair.b.shape)} in the second; needed "
            "equal shapes"
        )
    is_copied = pair.a.dtype == pair.b.dtype and pair.a.dtype in COPIED
    if not pair.is_averaged and not (is_copied and are_equal(pair)):
        raise ScoringError(
            f"{a} and {b}: {name} is stored as {pair.a.dtype} and {pair.b.dtype}, of which no mean can be made; needed "
            f"{', '.join(DTYPES)}: merge the models from before they were quantized"
        )


def _computing(config: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Keys of a configuration that change what the weights compute, those of its parts with a dot."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        name = str(key)
        if name in _SETTINGS or name.endswith(("_dropout", "_pdrop")) or value is None:
            continue
        found |= _computing(value, f"{above}{name}.") if isinstance(value, dict) else {above + name: value}
    return found


def _check_tokenizers(a: str, b: str, *, trust_remote_code: bool) -> None:
    described = []
    for given in (a, b):
        try:
            tokenizer = pretrained_tokenizer(given, trust_remote_code=trust_remote_code)
        except ScoringError:
            raise
        except Exception as error:  # whatever a loader of foreign files raises
            raise ScoringError(f"{given}: its tokenizer cannot be read ({error})") from error
        backend = getattr(tokenizer, "backend_tokenizer", None)
        rules = {} if backend is None else json.loads(backend.to_str())
        described.append(
            {"vocabulary": tokenizer.get_vocab()}
            | {name: rules.get(name) for name in ("normalizer", "pre_tokenizer", "post_processor", "model")}
        )
    first, second = described
    if first["vocabulary"] != second["vocabulary"]:
        unlike = set(first["vocabulary"].items()) ^ set(second["vocabulary"].items())
        raise ScoringError(
            f"{a} and {b} have unlike vocabularies: {len(first['vocabulary']):,} and {len(second['vocabulary']):,} "
            f"tokens, {min(unlike)[0]!r:.40} is not the same in both; needed the same tokenizer"
        )
    if differ := [name for name in first if first[name] != second[name]]:
        raise ScoringError(
            f"{a} and {b}: their tokenizers have the same vocabulary, and differ in their {differ[0]}; needed the same "
            "tokenizer"
        )
