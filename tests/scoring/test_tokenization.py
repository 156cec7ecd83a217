"""Token ids of contexts and of what follows them against those of whole texts, for tokenizers of several kinds."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import tokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, ByT5Tokenizer, PreTrainedTokenizerFast

from forgetwatch import Item, Probe
from forgetwatch.progress import Done
from forgetwatch.scoring import encode, encode_prompts, render, tokenize_continued

WORDS = re.findall(
    r"\S+",
    "the answer is question which of following capital river mountain Paris London red green blue number twelve "
    "because therefore unbelievable internationalization 1984 3.14 x=y+1 don't it's e.g. naïve café Ångström été "
    "Straße ΣΊΣΥΦΟΣ слово ответ 問題 答案 東京都 ค ำถาม 한국어 👩‍👩‍👧 🇨🇱 A. B. C. D. Answer: Question: -- ... "
    ":) __init__ aaaaaaaaaaaaaaa ababababababab ",
)
SEPARATORS = [" ", " ", " ", " ", "\n", "\n\n", "  ", "\t", "", " \n ", "\u00a0", "\u3000", "   \n\n    "]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<mask>"]
REAL = Path(os.environ.get("FORGETWATCH_REAL_MODEL", "/nowhere"))


def corpus() -> list[str]:
    rng = random.Random(0)
    return ["".join(rng.choice(WORDS) + rng.choice(SEPARATORS) for _ in range(12)) for _ in range(300)]


def byte_level() -> Any:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return trained(backend, trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False))


def whole_text_bpe() -> Any:
    """SentencePiece's BPE as converted for Llama: no pre-tokenization, so that a token may span words."""
    backend = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=["<unk>"], show_progress=False, max_token_length=16)
    return trained(backend, trainer)


def metaspace(model: Any, trainer: Any) -> Any:
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    return trained(backend, trainer)


def unigram_trainer() -> Any:
    return trainers.UnigramTrainer(
        vocab_size=500, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False, max_piece_length=20
    )


def trained(backend: Any, trainer: Any) -> Any:
    backend.train_from_iterator(corpus(), trainer)
    backend.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL[:2]])
    backend.add_special_tokens([AddedToken(SPECIAL[2], special=True, lstrip=True, rstrip=True)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>")


TOKENIZERS: dict[str, Callable[[], Any]] = {
    "byte-level BPE": byte_level,
    "BPE over the whole text": whole_text_bpe,
    "bytes, in Python": ByT5Tokenizer,
    "Unigram": lambda: metaspace(models.Unigram(), unigram_trainer()),
}
made = cache(lambda name: TOKENIZERS[name]())
NAMES = list(TOKENIZERS)


def straightforward(texts: Sequence[tuple[str, Sequence[str]]], tok: Any) -> list[tuple[Any, list[Any]]]:
    """The reference: each whole text by itself, cut after as many ids as its context has."""

    texts_of = [[context, *(context + text for text in added)] for context, added in texts]
    ids = iter(tok([text for row in texts_of for text in row], add_special_tokens=False, verbose=False)["input_ids"])
    rows = [[tuple(next(ids)) for _ in row] for row in texts_of]
    return [(context, [whole[len(context) :] for whole in wholes]) for context, *wholes in rows]


def written(*, min_size: int, max_size: int) -> st.SearchStrategy[str]:
    pair = st.tuples(st.sampled_from([*WORDS, *SPECIAL, "e\u0301", "\u0301"]), st.sampled_from(SEPARATORS))
    pieces = st.lists(pair, min_size=min_size, max_size=max_size)
    any_text = st.text(max_size=4)
    return st.tuples(pieces, any_text).map(lambda made: "".join(a + b for a, b in made[0]) + made[1])


@st.composite
def prompts(draw: st.DrawFn) -> list[tuple[str, list[str]]]:
    """Contexts, some with a long beginning in common, and what is appended to them."""
    beginning = draw(st.sampled_from(["", "", draw(written(min_size=60, max_size=120))]))
    endings = draw(st.lists(written(min_size=0, max_size=50), min_size=1, max_size=3))
    appended = st.lists(st.one_of(written(min_size=0, max_size=4), st.sampled_from([" A", "A", "", " ", "\nB"])))
    return [(beginning + ending, draw(appended)) for ending in endings]


class Odd:
    """A tokenizer of words whose ids depend on something else than the words."""

    def __init__(self, id_of: Callable[[list[str], int], int]) -> None:
        self._id_of = id_of

    def __call__(self, texts: Any, **options: Any) -> dict[str, Any]:
        rows = [text.split() for text in ([texts] if isinstance(texts, str) else texts)]
        ids = [[self._id_of(row, index) for index in range(len(row))] for row in rows]
        return {"input_ids": ids[0] if isinstance(texts, str) else ids}


def five_shot(items: int = 24) -> list[tuple[str, list[str]]]:
    """Contexts with a long beginning in common, each with four letters in two spellings."""
    rng = random.Random(3)

    def text(words: int) -> str:
        return "".join(rng.choice(WORDS) + rng.choice(SEPARATORS) for _ in range(words))

    shots = text(300)
    return [(shots + text(30).rstrip() + " end", [" A", " B", "A", "B", " the answer", "\n"]) for _ in range(items)]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(texts=prompts())
def test_ids_are_those_of_the_whole_texts(name: str, texts: list[tuple[str, list[str]]]) -> None:
    assert tokenize_continued(texts, made(name)) == straightforward(texts, made(name))


@pytest.mark.parametrize(
    "id_of",
    [
        lambda row, index: len(row) + index,  # all ids change with the length of the text
        lambda row, index: index,  # ids by position
        lambda row, index: len(row) if index == 1 else len(row[index]),  # one id at the beginning, that no tail shows
        lambda row, index: len(row[-1]) if index == len(row) - 20 else len(row[index]),  # far from the end
    ],
    ids=["length", "position", "beginning", "distance"],
)
def test_a_tokenizer_that_reads_no_words_by_themselves_gets_whole_texts(id_of: Any) -> None:
    texts = five_shot()
    assert tokenize_continued(texts, Odd(id_of)) == straightforward(texts, Odd(id_of))


def test_long_tokens_of_a_repeated_text_are_those_of_the_whole_text() -> None:
    """Tokens of 2, 4, 8, ... repetitions: where they begin depends on the whole run, and they end anew with each."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator([" -" * 256, " a b" * 128, "Q:", "Q: -"], trainer)
    tok = PreTrainedTokenizerFast(tokenizer_object=backend)
    assert max(map(len, tok.get_vocab())) > 96  # longer than a tail
    texts = [("", ["A"])]
    texts += [("Q:" + run * n, [run * k for k in range(1, 9)]) for run in (" -", " a b") for n in range(40, 140, 7)]
    assert tokenize_continued(texts, tok) == straightforward(texts, tok)


def encoded_straightforwardly(probe: Probe, tok: Any) -> list[tuple[Any, ...]]:
    """Context, choices and spellings of each item, each whole text tokenized by itself."""
    found = []
    bos = (tok.bos_token_id,) if tok("a")["input_ids"][0] == tok.bos_token_id else ()
    for item in probe:
        one = render(item, probe, tok)
        context = one.context.rstrip(" ") if one.templated else one.context.rstrip()
        moved = one.context[len(context) :]
        spelled = [text for texts in one.spellings for text in texts]
        ((ids, rest),) = straightforward([(context, [moved + text for text in (*one.choices, *spelled)])], tok)
        choices, others = rest[: len(one.choices)], iter(rest[len(one.choices) :])
        spellings = []
        for choice, texts in zip(choices, one.spellings, strict=True):
            single = {other[0] for other in [next(others) for _ in texts] if len(other) == 1}
            spellings.append(tuple(single - {choice[0]}) if len(choice) == 1 else ())
        ids = ids if one.templated or ids[:1] == bos else bos + ids
        ids = ids or (tok.eos_token_id if tok.bos_token_id is None else tok.bos_token_id,)
        found.append((ids, tuple(choices), tuple(spellings)))
    return found


def with_template(tok: Any) -> Any:
    tok.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    return tok


@pytest.mark.parametrize("scoring", ["loglikelihood", "letters"])
@pytest.mark.parametrize("rendering", ["plain", "chat"])
@pytest.mark.parametrize("name", ["byte-level BPE", "BPE over the whole text", "Unigram", "with BOS", "real"])
def test_encoded_items_are_those_of_whole_texts(name: str, rendering: Any, scoring: Any) -> None:
    if name == "real" and not REAL.is_dir():
        pytest.skip("no real tokenizer: set FORGETWATCH_REAL_MODEL")
    given = {"real": lambda: AutoTokenizer.from_pretrained(REAL), "with BOS": lambda: tokenizer(bos=True)}
    tok = given[name]() if name in given else with_template(made(name))
    prompts = ["", "Q", " ", *(context + end for context, _ in five_shot(8) for end in ("", " ", "\n", " \n "))]
    choices = (" yes", "no", " 東京", " a longer answer of words", "A")
    items = [Item(id=str(n), task="t", prompt=text, choices=choices, answer=0) for n, text in enumerate(prompts)]
    probe = Probe(items, rendering=rendering, scoring=scoring)
    encoded = encode(probe, tok, max_length=4096)
    assert [(one.context, one.choices, one.spellings) for one in encoded] == encoded_straightforwardly(probe, tok)


def test_prompts_of_generated_answers_are_those_of_whole_texts() -> None:
    tok = made("byte-level BPE")
    items = [
        Item(id=str(n), task="t", prompt=text + " ", answer="yes", match="exact")
        for n, (text, _) in enumerate(five_shot(6))
    ]
    probe = Probe(items, scoring="generate")
    encoded = encode_prompts(probe, items, tok, max_length=4096)
    assert [one.context for one in encoded] == [tuple(tok(item.prompt)["input_ids"]) for item in items]


def test_equal_token_ids_are_one_object_in_all_items() -> None:
    tok = made("byte-level BPE")
    items = [
        Item(id=str(n), task="t", prompt=text, choices=(" A", " B"), answer=0)
        for n, (text, _) in enumerate(five_shot(6))
    ]
    encoded = encode(Probe(items), tok, max_length=4096)
    tokens = [token for one in encoded for ids in (one.context, *one.choices) for token in ids]
    assert max(tokens) > 256  # smaller integers are one object in any case
    assert len({id(token) for token in tokens}) == len(set(tokens))


def test_a_long_encoding_reports_its_progress() -> None:
    tok, done = tokenizer(), list[Done]()
    items = [Item(id=str(n), task="t", prompt=f"w{n}", choices=(" A", " B"), answer=0) for n in range(1100)]
    encode(Probe(items), tok, max_length=99, progress=done.append)
    assert [one.count for one in done] == [0, 500, 1000, 1100]
    assert (done[-1].share, done[-1].unit) == (1.0, "items encoded")
    done.clear()
    encode(Probe(items[:100]), tok, max_length=99, progress=done.append)
    assert done == []
