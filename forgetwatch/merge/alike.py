"""Whether two models compute alike and cut text alike; else they have no mean."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from transformers import AutoConfig

from forgetwatch.errors import ScoringError
from forgetwatch.loading import Loading
from forgetwatch.scoring.tokenizer_loading import (
    pretrained_tokenizer,
)

_SETTINGS: Final = frozenset(
    (
        "_name_or_path",
        "transformers_version",
        "_commit_hash",
        "auto_map",
        "dtype",
        "torch_dtype",
        "use_cache",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "max_position_embeddings",
        "initializer_range",
        "attn_implementation",
        "_attn_implementation_autoset",
        "attention_dropout",
        "hidden_dropout",
        "output_attentions",
        "output_hidden_states",
        "return_dict",
        "pretraining_tp",
        "id2label",
        "label2id",
        "problem_type",
        "model_name",
        "unsloth_version",
        "unsloth_fixed",
    )
)
"""Keys of a configuration that change nothing in what the weights compute."""


def check_alike(a: str, b: str, *, loading: Loading = Loading()) -> None:
    """Refuse models that compute or tokenize differently.

    Raises:
        ScoringError: If they differ; names a difference.
    """
    configs = []
    for path in (a, b):
        try:
            config = AutoConfig.from_pretrained(
                path, trust_remote_code=loading.trust_remote_code
            ).to_dict()
        except Exception as error:  # whatever a loader of foreign files raises
            missing = "" if Path(path).is_dir() else "no folder here, and as a model id "
            raise ScoringError(
                f"{path}: {missing}its configuration cannot be read ({error})"
            ) from error
        if config.get("quantization_config"):
            raise ScoringError(
                f"{path}: its weights are quantized; merge the models that were not quantized yet"
            )
        configs.append(_computing(config))
    config_a, second = configs
    # The type first: of two architectures nearly every key differs.
    for key in sorted(
        config_a.keys() | second.keys(), key=lambda name: (name != "model_type", name)
    ):
        if config_a.get(key) != second.get(key):
            raise ScoringError(
                f"{a} and {b} do not compute alike: {key} is {config_a.get(key)!r:.80} in the "
                "first and "
                f"{second.get(key)!r:.80} in the second; needed two models of one architecture"
            )
    (words, rules), (other_words, other_rules) = (
        _tokenizer_parts(path, loading=loading) for path in (a, b)
    )
    if words != other_words:
        unlike = min(words.items() ^ other_words.items())[0]
        raise ScoringError(
            f"{a} and {b} have unlike vocabularies: {len(words):,} and {len(other_words):,} "
            f"tokens, {unlike!r:.40} is not the same in both; needed the same tokenizer"
        )
    if differ := [name for name in rules if rules[name] != other_rules[name]]:
        raise ScoringError(
            f"{a} and {b}: their tokenizers have the same vocabulary, and differ in their "
            f"{differ[0]}; needed the same tokenizer"
        )


def _computing(config: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    # Keys of parts have a dot.
    keys: dict[str, Any] = {}
    for key, value in config.items():
        name = str(key)
        if name in _SETTINGS or name.endswith(("_dropout", "_pdrop")) or value is None:
            continue
        keys |= (
            _computing(value, f"{above}{name}.")
            if isinstance(value, dict)
            else {above + name: value}
        )
    return keys


def _tokenizer_parts(path: str, *, loading: Loading) -> tuple[dict[str, int], dict[str, Any]]:
    try:
        tokenizer = pretrained_tokenizer(path, loading=loading)
    except ScoringError:
        raise
    except Exception as error:  # whatever a loader of foreign files raises
        raise ScoringError(f"{path}: its tokenizer cannot be read ({error})") from error
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules = {} if backend is None else json.loads(backend.to_str())
    return tokenizer.get_vocab(), {
        name: rules.get(name) for name in ("normalizer", "pre_tokenizer", "post_processor", "model")
    }
