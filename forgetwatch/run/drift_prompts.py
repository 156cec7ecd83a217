"""Prompts after which the base generates the completions that measure drift: of the probe and of the training."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

from jinja2 import TemplateError
from torch import nn

from forgetwatch.probe import Probe
from forgetwatch.scoring.encoding import Ids, encode
from forgetwatch.scoring.model import ModelInfo

PROMPTS: Final = 64
"""Prompts of each set; each has one completion of 32 tokens."""


def drift_prompts(
    probe: Probe, examples: Any, model: nn.Module, tokenizer: Any
) -> dict[str, list[Ids]]:
    """Sample the probe's and the training's prompts as token ids.

    A fixed sample.

    A training prompt ends before the first token that is trained; that of a plain text is its first
    half. Examples that cannot be indexed give none.
    """
    longest = ModelInfo.of(model).context_length(tokenizer)
    prompts = {"probe": _probe_prompts(probe, tokenizer, longest=longest)}
    try:
        chosen = _spread(range(len(examples)))
        training = [ids for row in chosen if (ids := _prompt_of(examples[row], tokenizer))]
    except (LookupError, TypeError, ValueError, AttributeError, NotImplementedError, TemplateError):
        training = []
    return {**prompts, "training": training} if training else prompts


def _probe_prompts(probe: Probe, tokenizer: Any, *, longest: int) -> list[Ids]:
    # The items lie at equal distances among those with a prompt.
    chosen = encode(
        replace(probe, items=tuple(_spread(probe.items))), tokenizer, max_length=longest
    )
    if all(item.context for item in chosen):
        return [item.context for item in chosen]
    # Some items have none: only the token ids of all tell which have one.
    return _spread(
        [item.context for item in encode(probe, tokenizer, max_length=longest) if item.context]
    )


def _spread(values: Sequence[Any]) -> list[Any]:
    # Up to `PROMPTS` values at equal distances, the same at every call.
    count = min(PROMPTS, len(values))
    return [values[index * len(values) // count] for index in range(count)]


def _prompt_of(example: Mapping[str, Any] | str, tokenizer: Any) -> Ids:
    # In any form that TRL's trainers take or prepare.
    if isinstance(example, str):
        example = {"input_ids": tokenizer(example)["input_ids"]}
    for name in ("prompt_ids", "prompt_input_ids"):
        if example.get(name):
            return tuple(example[name])
    prompt = example.get("prompt")
    if not prompt and "input_ids" not in example:
        # A conversation without a prompt of its own: what comes before the first answer.
        prompt = list(
            takewhile(lambda message: message["role"] != "assistant", example.get("messages") or ())
        )
    if isinstance(prompt, str):
        return tuple(tokenizer(prompt)["input_ids"])
    if prompt:
        prompt_text = tokenizer.apply_chat_template(
            prompt, add_generation_prompt=True, tokenize=False
        )
        # The template has written the special tokens already.
        return tuple(tokenizer(prompt_text, add_special_tokens=False)["input_ids"])
    if "input_ids" not in example and isinstance(prompt_text := example.get("text"), str):
        example = {"input_ids": tokenizer(prompt_text)["input_ids"]}
    ids = tuple(map(int, example["input_ids"]))
    for name in ("completion_mask", "assistant_masks"):
        if (mask := example.get(name)) is not None and 1 in mask:
            return ids[: list(mask).index(1)]
    return ids[: max(1, len(ids) // 2)]
