"""Token ids of contexts and of what follows them against those of whole texts, for tokenizers of several kinds."""

import os
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import model, tokenizer
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import AutoTokenizer, ByT5Tokenizer, PreTrainedTokenizerFast

from forgetwatch import Item, Probe
from forgetwatch.errors import ScoringError
from forgetwatch.progress import Done
from forgetwatch.scoring.encoding import (
    Encoded,
    encode,
    encode_prompts,
    render,
    render_prompt,
    tokenize_continued,
)
from forgetwatch.scoring.scorer import Scorer


def encoded(item: Item, tok: Any = None, *, max_length: int = 100, **settings: Any) -> Encoded:
    return encode(Probe([item], **settings), tok or tokenizer(), max_length=max_length)[0]


def item(
    prompt: str = "Q : w1", choices: tuple[str, ...] = (" w2 w3", " w4"), answer: int = 0
) -> Item:
    return Item(id="1", task="t", prompt=prompt, choices=choices, answer=answer)


def bpe() -> Any:
    """A byte-level BPE whose merges cross spaces, so that borders matter."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    texts = ["the answer is yes", "the answer: no", "yes it is", "answer: yes"] * 5
    backend.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False)
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="y")


def test_context_and_choices_are_cut_where_the_context_ends() -> None:
    tok = tokenizer()
    made = encoded(item(), tok)
    assert tok.decode(made.context) == "Q : w1"
    assert [tok.decode(ids) for ids in made.choices] == ["w2 w3", "w4"]
    assert made.unscored == ""


def test_bos_is_added_where_the_tokenizer_adds_it_and_never_twice() -> None:
    tok = tokenizer(bos=True)
    assert encoded(item(), tok).context[0] == tok.bos_token_id
    assert encoded(item("<bos> Q"), tok).context.count(tok.bos_token_id) == 1
    assert tok.bos_token_id not in encoded(item(), tokenizer()).context


def test_a_chat_template_brings_its_own_special_tokens() -> None:
    tok = tokenizer(bos=True)
    assert tok.bos_token_id not in encoded(item(), tok, rendering="chat").context


def test_an_empty_prompt_becomes_a_start_token() -> None:
    tok = tokenizer()
    assert encoded(item(""), tok).context == (tok.bos_token_id,)
    tok.bos_token = None
    assert encoded(item(""), tok).context == (tok.eos_token_id,)


def test_spaces_at_the_end_of_the_prompt_belong_to_the_choice() -> None:
    tok = bpe()
    moved, plain = (
        encoded(item("the answer: ", ("yes", "no")), tok),
        encoded(item("the answer:", (" yes", " no")), tok),
    )
    assert (moved.context, moved.choices) == (plain.context, plain.choices)


def test_a_line_break_at_the_end_of_a_plain_prompt_belongs_to_the_choice() -> None:
    tok = bpe()
    made = encoded(item("the answer:\n", ("yes", "no")), tok)
    assert made.context == tuple(tok("the answer:")["input_ids"])
    assert tok.decode(made.choices[0]) == "\nyes"


def test_context_and_choice_together_are_the_tokens_of_the_whole_text() -> None:
    tok = bpe()
    made = encoded(item("the answer", (" is yes", ": no")), tok)
    for ids, text in zip(made.choices, (" is yes", ": no"), strict=True):
        whole = tok("the answer" + text)["input_ids"]
        assert list(ids) == whole[len(made.context) :]


@pytest.mark.parametrize(
    ("given", "max_length", "says"),
    [
        (item(choices=(" w2", "")), 100, "choice 1 has no text"),
        (item(choices=(" w2", "  ")), 100, "choice 1 has no text"),
        (item("Q " + "w1 " * 9), 10, "longer than the 10 tokens that the model reads"),
        (
            Item(id="1", task="t", prompt="Q", answer="w1", match="exact"),
            100,
            "its answer was not asked for",
        ),
    ],
)
def test_an_item_that_cannot_be_scored_has_its_reason(
    given: Item, max_length: int, says: str
) -> None:
    assert encoded(given, max_length=max_length).unscored == says


def test_a_choice_that_the_context_swallows_has_no_tokens_of_its_own() -> None:
    tok = bpe()
    whole, head = tok("the answer")["input_ids"], tok("the answe")["input_ids"]
    assert len(whole) <= len(head)  # the letter is merged into the context's tokens
    assert (
        encoded(item("the answe", ("r", " no")), tok).unscored
        == "choice 0 has no tokens of its own"
    )


def test_the_last_token_of_a_choice_is_never_read_and_may_exceed_the_context() -> None:
    given = item("Q " * 8, (" w1 w2", " w3"))  # 8 + 2 tokens, of which the model reads 9
    assert encoded(given, max_length=9).unscored == ""
    assert encoded(given, max_length=8).unscored != ""


def test_the_prompt_hash_covers_context_and_choices() -> None:
    hashes = {
        encoded(i).prompt_hash for i in (item(), item("Q : w2"), item(choices=(" w2 w3", " w5")))
    }
    assert len(hashes) == 3
    assert encoded(item()).prompt_hash == encoded(item(answer=1)).prompt_hash
    assert encoded(item(), scoring="letters").prompt_hash not in hashes


WORDS = re.findall(
    r"\S+",
    "the answer is question which of following capital river mountain Paris London red green blue number twelve "
    "because therefore unbelievable internationalization 1984 3.14 x=y+1 don't it's e.g. naïve café Ångström été "
    "Straße ΣΊΣΥΦΟΣ слово ответ 問題 答案 東京都 ค ำถาม 한국어 👩‍👩‍👧 🇨🇱 A. B. C. D. Answer: Question: -- ... "
    ":) __init__ aaaaaaaaaaaaaaa ababababababab ",
)
SEPARATORS = [
    " ",
    " ",
    " ",
    " ",
    "\n",
    "\n\n",
    "  ",
    "\t",
    "",
    " \n ",
    "\u00a0",
    "\u3000",
    "   \n\n    ",
]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<mask>"]
REAL = Path(os.environ.get("FORGETWATCH_REAL_MODEL", "/nowhere"))


def corpus() -> list[str]:
    rng = random.Random(0)
    return [
        "".join(rng.choice(WORDS) + rng.choice(SEPARATORS) for _ in range(12)) for _ in range(300)
    ]


def byte_level() -> Any:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return trained(
        backend, trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    )


def whole_text_bpe() -> Any:
    """SentencePiece's BPE as converted for Llama: no pre-tokenization, so that a token may span words."""
    backend = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=["<unk>"], show_progress=False, max_token_length=16
    )
    return trained(backend, trainer)


def metaspace(model: Any, trainer: Any) -> Any:
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    return trained(backend, trainer)


def unigram_trainer() -> Any:
    return trainers.UnigramTrainer(
        vocab_size=500,
        special_tokens=["<unk>"],
        unk_token="<unk>",
        show_progress=False,
        max_piece_length=20,
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


def straightforward(
    texts: Sequence[tuple[str, Sequence[str]]], tok: Any
) -> list[tuple[Any, list[Any]]]:
    """The reference: each whole text by itself, cut after as many ids as its context has."""

    texts_of = [[context, *(context + text for text in added)] for context, added in texts]
    ids = iter(
        tok([text for row in texts_of for text in row], add_special_tokens=False, verbose=False)[
            "input_ids"
        ]
    )
    rows = [[tuple(next(ids)) for _ in row] for row in texts_of]
    return [(context, [whole[len(context) :] for whole in wholes]) for context, *wholes in rows]


def written(*, min_size: int, max_size: int) -> st.SearchStrategy[str]:
    pair = st.tuples(
        st.sampled_from([*WORDS, *SPECIAL, "e\u0301", "\u0301"]), st.sampled_from(SEPARATORS)
    )
    pieces = st.lists(pair, min_size=min_size, max_size=max_size)
    any_text = st.text(max_size=4)
    return st.tuples(pieces, any_text).map(
        lambda made: "".join(a + b for a, b in made[0]) + made[1]
    )


@st.composite
def prompts(draw: st.DrawFn) -> list[tuple[str, list[str]]]:
    """Contexts, some with a long beginning in common, and what is appended to them."""
    beginning = draw(st.sampled_from(["", "", draw(written(min_size=60, max_size=120))]))
    endings = draw(st.lists(written(min_size=0, max_size=50), min_size=1, max_size=3))
    appended = st.lists(
        st.one_of(written(min_size=0, max_size=4), st.sampled_from([" A", "A", "", " ", "\nB"]))
    )
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
    return [
        (shots + text(30).rstrip() + " end", [" A", " B", "A", "B", " the answer", "\n"])
        for _ in range(items)
    ]


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
        lambda row, index: (
            len(row) if index == 1 else len(row[index])
        ),  # one id at the beginning, that no tail shows
        lambda row, index: (
            len(row[-1]) if index == len(row) - 20 else len(row[index])
        ),  # far from the end
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
    texts += [
        ("Q:" + run * n, [run * k for k in range(1, 9)])
        for run in (" -", " a b")
        for n in range(40, 140, 7)
    ]
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
        ((ids, rest),) = straightforward(
            [(context, [moved + text for text in (*one.choices, *spelled)])], tok
        )
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
@pytest.mark.parametrize(
    "name", ["byte-level BPE", "BPE over the whole text", "Unigram", "with BOS", "real"]
)
def test_encoded_items_are_those_of_whole_texts(name: str, rendering: Any, scoring: Any) -> None:
    if name == "real" and not REAL.is_dir():
        pytest.skip("no real tokenizer: set FORGETWATCH_REAL_MODEL")
    given = {
        "real": lambda: AutoTokenizer.from_pretrained(REAL),
        "with BOS": lambda: tokenizer(bos=True),
    }
    tok = given[name]() if name in given else with_template(made(name))
    prompts = [
        "",
        "Q",
        " ",
        *(context + end for context, _ in five_shot(8) for end in ("", " ", "\n", " \n ")),
    ]
    choices = (" yes", "no", " 東京", " a longer answer of words", "A")
    items = [
        Item(id=str(n), task="t", prompt=text, choices=choices, answer=0)
        for n, text in enumerate(prompts)
    ]
    probe = Probe(items, rendering=rendering, scoring=scoring)
    encoded = encode(probe, tok, max_length=4096)
    assert [
        (one.context, one.choices, one.spellings) for one in encoded
    ] == encoded_straightforwardly(probe, tok)


def test_prompts_of_generated_answers_are_those_of_whole_texts() -> None:
    tok = made("byte-level BPE")
    items = [
        Item(id=str(n), task="t", prompt=text + " ", answer="yes", match="exact")
        for n, (text, _) in enumerate(five_shot(6))
    ]
    probe = Probe(items, scoring="generate")
    encoded = encode_prompts(probe, items, tok, max_length=4096)
    assert [one.context for one in encoded] == [
        tuple(tok(item.prompt)["input_ids"]) for item in items
    ]


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
    items = [
        Item(id=str(n), task="t", prompt=f"w{n}", choices=(" A", " B"), answer=0)
        for n in range(1100)
    ]
    encode(Probe(items), tok, max_length=99, progress=done.append)
    assert [one.count for one in done] == [0, 500, 1000, 1100]
    assert (done[-1].share, done[-1].unit) == (1.0, "items encoded")
    done.clear()
    encode(Probe(items[:100]), tok, max_length=99, progress=done.append)
    assert done == []


QUESTION = Item(id="1", task="t", prompt="Q : w1", choices=(" w2 w3", " w4"), answer=0)
CHAT = (
    {"role": "user", "content": "w5"},
    {"role": "assistant", "content": "w6"},
    {"role": "user", "content": "w1"},
)
NEEDS_W = "{% if messages[-1].content[0] != 'w' %}{{ raise_exception('no') }}{% endif %}"
"""Beginning of a template that refuses some questions."""


def rendered(item: Item, **settings: Any) -> Any:
    return render(item, Probe([item], **settings), tokenizer())


def test_plain_log_likelihood_leaves_prompt_and_choices_unchanged() -> None:
    made = rendered(QUESTION)
    assert (made.context, made.choices, made.templated) == ("Q : w1", (" w2 w3", " w4"), False)
    assert made.spellings == ((), ())


def test_worked_examples_come_before_the_prompt() -> None:
    item = replace(QUESTION, shots="Q : w5 w6\n\n")
    assert rendered(item).context == "Q : w5 w6\n\nQ : w1"
    assert rendered(item, rendering="chat").context.count("Q : w5 w6\n\nQ : w1") == 1


def test_letters_list_the_choices_in_the_prompt() -> None:
    made = rendered(QUESTION, scoring="letters")
    assert made.context == "Q : w1\nA. w2 w3\nB. w4\nAnswer:"
    assert made.choices == (" A", " B")
    assert made.spellings == (("A",), ("B",))


def test_choices_that_are_letters_are_not_listed_again() -> None:
    made = rendered(
        replace(QUESTION, prompt="... A. x B. y Answer:", choices=("A", "B")), scoring="letters"
    )
    assert made.context == "... A. x B. y Answer:"
    assert made.choices == ("A", "B")
    assert made.spellings == ((" A",), (" B",))


def test_chat_wraps_the_prompt_and_the_letter_has_no_space() -> None:
    item = replace(QUESTION, prompt="w1", choices=(" w2", " w3"), system="w9")
    made = rendered(item, scoring="letters", rendering="chat")
    assert made.context.startswith("system : w9 user : w1\nA. w2\nB. w3\n")
    assert made.context.endswith("assistant :")
    assert made.choices == ("A", "B")
    assert made.templated


def test_chat_messages_keep_their_order_and_the_options_follow_the_last() -> None:
    made = rendered(
        replace(QUESTION, prompt=CHAT, choices=("w7", "w8")), scoring="letters", rendering="chat"
    )
    assert made.context.startswith("user : w5 assistant : w6 user : w1\nA. w7\nB. w8\n")
    assert CHAT[2]["content"] == "w1"


@pytest.mark.parametrize(
    ("template", "prompt", "system", "reason"),
    [
        ("hello", "w1", None, "the question"),
        (
            "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}",
            "w1",
            "w9",
            "the system message",
        ),
        ("{{ messages[-1].content }}", CHAT, None, "message 1, of the user"),
        ("{{ messages[0].content }}{{ messages[1].content }}", CHAT, None, "the question"),
        (NEEDS_W + "hello", "w1", None, "the question"),
        (
            "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}",
            CHAT,
            None,
            "message 2, of the as",
        ),
    ],
)
def test_a_template_that_drops_a_part_of_an_item_leaves_it_unscored(
    template: str, prompt: Any, system: str | None, reason: str
) -> None:
    item, tok = replace(QUESTION, prompt=prompt, system=system), tokenizer()
    tok.chat_template = template
    probe = Probe([item], rendering="chat")
    for made in (render(item, probe, tok), render_prompt(item, probe, tok)):
        assert made.unscored.startswith(f"the chat template leaves out {reason}")


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}{{ m.content | upper }}{% endfor %}",
        "{% for m in messages %}{{ m.content | trim }}\n{% endfor %}",
        "{% for m in messages %}{{ m.content | tojson }}{% endfor %}",
        NEEDS_W + "{% for m in messages %}{{ m.content }}{% endfor %}",
    ],
)
def test_a_template_that_changes_texts_or_asks_for_something_drops_nothing(template: str) -> None:
    item, tok = replace(QUESTION, prompt=CHAT, system="w9"), tokenizer()
    tok.chat_template = template
    assert render(item, Probe([item], rendering="chat"), tok).unscored == ""


def test_parts_of_a_message_and_messages_without_text_are_no_text_that_was_dropped() -> None:
    parts = ({"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "w1"}]},)
    silent = ({"role": "assistant", "content": ""}, {"role": "user", "content": "w1"})
    tok = tokenizer()
    tok.chat_template = (
        "{% for m in messages %}{% if m.tool_calls %}call{% elif m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{% endfor %}"
    )
    calls = (
        {"role": "assistant", "content": "w5", "tool_calls": [{"name": "f"}]},
        {"role": "user", "content": "w1"},
    )
    for prompt in (parts, silent, calls):
        item = replace(QUESTION, prompt=prompt)
        assert render(item, Probe([item], rendering="chat"), tok).unscored == ""


def test_a_template_that_refuses_is_a_clear_error() -> None:
    tok = tokenizer()
    tok.chat_template = "{{ raise_exception('System role not supported') }}"
    with pytest.raises(ScoringError, match=r"item '1'.*System role not supported"):
        render(QUESTION, Probe([QUESTION], rendering="chat"), tok)


def test_chat_needs_a_template() -> None:
    probe = Probe([QUESTION], rendering="chat")
    with pytest.raises(ScoringError, match="no chat template"):
        render(QUESTION, probe, tokenizer(template=False))


def test_a_template_that_drops_the_question_is_refused_also_where_the_options_differ() -> None:
    """All contexts are the same, and no two rows."""
    items = [
        Item(
            id=str(n),
            task="t",
            prompt=f"Q : w{n} w{n + 1}",
            choices=(f" w{n + 30}", f" w{n + 60}"),
            answer=n % 2,
        )
        for n in range(20)
    ]
    tok = tokenizer()
    tok.chat_template = "{{ messages[-1]['content'].split()[0] }}"
    with pytest.raises(ScoringError, match="20 of 20 questions have the token ids of another one"):
        Scorer(Probe(items, name="options", rendering="chat"), tok, model(tok))
    # One question with many pairs of options is no such case.
    same = [replace(item, prompt="Q : which ?") for item in items]
    Scorer(Probe(same, name="same"), tokenizer(), model(tokenizer()))
