"""Items, tokenizers and models in memory that the benchmarks share; no network and no file is needed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from forgetwatch import Item, Probe
from forgetwatch.probes.named import load_probe

LETTERS = tuple(f" {letter}" for letter in "ABCD")


def word_tokenizer(vocabulary: int) -> Any:
    """Tokenizer with one token a word, a space before it or not, so that lengths are what they are meant to be."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<eos>", "<unk>", "<bos>", "\n", *"ABCD", ".", ":"]
    words += [f"w{i}" for i in range(vocabulary - len(words))]
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


def text_tokenizer(probe: Probe, *, tokens: int = 8000) -> Any:
    """Byte-level BPE that is trained on the texts of a probe: about as many tokens a word as those of real models."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<pad>", "<eos>", "<bos>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=tokens, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator((text for item in probe for text in _texts(item)), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
        model_max_length=8192,
    )


def _texts(item: Item) -> list[str]:
    return [str(item.prompt), *item.choices]


def standard(items: int | None = None) -> Probe:
    """The shipped probe `standard`, or as many of its first items."""
    probe = load_probe("standard")
    return probe if items is None else Probe(list(probe)[:items], name=probe.name, norm=probe.norm)


def five_shot(items: int, *, subject: int = 246, shots: int = 5, seed: int = 7) -> Probe:
    """Items in the shape of MMLU: subjects, each with five examples before every question, and letters as choices.

    The words are those of `standard`. A question has 20 to 90 words and four options of 1 to 12 words; about 800 tokens
    in all, most of them in the examples.

    Args:
        items: Number of items.
        subject: Items of a subject: MMLU has 14,042 in 57.
        shots: Examples before each question.
        seed: Of the words that are drawn.
    """
    rng = random.Random(seed)
    words = sorted(
        {word for item in load_probe("standard") for text in _texts(item) for word in text.split()}
    )

    def draw(low: int, high: int) -> str:
        # Most questions are short, and some are long.
        return " ".join(rng.choices(words, k=low + int((high - low) * rng.random() ** 2)))

    def question() -> str:
        options = "\n".join(f"{letter}. {draw(1, 12)}" for letter in "ABCD")
        return f"{draw(20, 90)}\n{options}\nAnswer:"

    made: list[Item] = []
    for first in range(0, items, subject):
        name = f"subject {first // subject}"
        examples = "".join(f"{question()} {rng.choice('ABCD')}\n\n" for _ in range(shots))
        prefix = f"The following are multiple choice questions about {name}.\n\n{examples}"
        for index in range(first, min(first + subject, items)):
            prompt = f"{prefix}{question()}"
            made.append(
                Item(id=str(index), task=name, prompt=prompt, choices=LETTERS, answer=index % 4)
            )
    return Probe(made, name="five-shot")


def llama(
    vocabulary: int,
    shape: dict[str, int],
    *,
    kind: type | None = None,
    device: str = "cpu",
    **options: Any,
) -> Any:
    """Llama with random weights, in evaluation mode.

    Args:
        vocabulary: Number of logits at each position.
        shape: Settings of `LlamaConfig`.
        kind: Class of the model; by default `LlamaForCausalLM`.
        device: Device on which it is made.
        **options: Further settings of `LlamaConfig`.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary, max_position_embeddings=32768, **{**shape, **options}
    )
    with torch.device(device):
        return (kind or LlamaForCausalLM)(config).eval()


def parameters(model: nn.Module, *, without: Sequence[str] = ("embed", "lm_head")) -> int:
    """Number of weights in the layers: without the embeddings."""
    return sum(
        p.numel()
        for name, p in model.named_parameters()
        if not any(part in name for part in without)
    )
