from __future__ import annotations

from typing import Any

import pytest
from support import tokenizer

from forgetwatch import Item, Probe
from forgetwatch.scoring import Encoded, encode


def encoded(item: Item, tok: Any = None, *, max_length: int = 100, **settings: Any) -> Encoded:
    return encode(Probe([item], **settings), tok or tokenizer(), max_length=max_length)[0]


def item(prompt: str = "Q : w1", choices: tuple[str, ...] = (" w2 w3", " w4"), answer: int = 0) -> Item:
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
    moved, plain = encoded(item("the answer: ", ("yes", "no")), tok), encoded(item("the answer:", (" yes", " no")), tok)
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
        (item("Q " + "w1 " * 9), 10, "11 tokens, and the model reads 10"),
        (Item(id="1", task="t", prompt="Q", answer="w1", match="exact"), 100, "its answer was not asked for"),
    ],
)
def test_an_item_that_cannot_be_scored_has_its_reason(given: Item, max_length: int, says: str) -> None:
    assert encoded(given, max_length=max_length).unscored == says


def test_a_choice_that_the_context_swallows_has_no_tokens_of_its_own() -> None:
    tok = bpe()
    whole, head = tok("the answer")["input_ids"], tok("the answe")["input_ids"]
    assert len(whole) <= len(head)  # the letter is merged into the context's tokens
    assert encoded(item("the answe", ("r", " no")), tok).unscored == "choice 0 has no tokens of its own"


def test_the_last_token_of_a_choice_is_never_read_and_may_exceed_the_context() -> None:
    given = item("Q " * 8, (" w1 w2", " w3"))  # 8 + 2 tokens, of which the model reads 9
    assert encoded(given, max_length=9).unscored == ""
    assert encoded(given, max_length=8).unscored != ""


def test_the_prompt_hash_covers_context_and_choices() -> None:
    hashes = {encoded(i).prompt_hash for i in (item(), item("Q : w2"), item(choices=(" w2 w3", " w5")))}
    assert len(hashes) == 3
    assert encoded(item()).prompt_hash == encoded(item(answer=1)).prompt_hash
    assert encoded(item(), scoring="letters").prompt_hash not in hashes
