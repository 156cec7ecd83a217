"""Generated answers: how they are generated and graded, and whether form or knowledge was lost.

The shipped probe `behaviour`, on a model and on a stand-in that answers well.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from architectures import SIZES
from pages import table as table_of
from rich.console import Console
from support import WORDS, facts, model, tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from forgetwatch import Item, Probe, compare, load_probe, score
from forgetwatch.comparing.document import comparison_json
from forgetwatch.decoding import Decoding
from forgetwatch.errors import ProbeError
from forgetwatch.grading.grader import grade
from forgetwatch.scoring import scorer
from forgetwatch.scoring.encoding import Ids, encode_prompts, render_prompt
from forgetwatch.scoring.generation import (
    Generated,
    GeneratedItems,
    ModelGenerator,
    answer_text,
    call_text,
    sample,
    seeds_of,
)
from forgetwatch.scoring.scorer import Scorer

LETTERS = "ABCD"


def make_tokenizer() -> Any:
    """One token a word; "Answer:" is one, and so are the marks that the form of an answer needs."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = [
        "<pad>",
        "<eos>",
        "<unk>",
        *(f"{letter}." for letter in LETTERS),
        *LETTERS,
        "Q",
        ":",
        "Answer:",
    ]
    words += ["number", "one", "two", "three", "four", "since", "it", "fits", *WORDS]
    backend = Tokenizer(
        models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>", eos_token="<eos>"
    )


TOK = make_tokenizer()


def letters(items: Sequence[Item]) -> list[str]:
    return [LETTERS[int(item.answers[0])] for item in items]


def taught(start: Any, answers: dict[str, Sequence[str]], *, steps: int) -> Any:
    """The model after learning to write these answers to the facts, by how they are asked."""
    torch.manual_seed(1)
    sizes = {**SIZES, "hidden_size": 64, "intermediate_size": 128, "num_key_value_heads": 4}
    config = LlamaConfig(
        **{**sizes, "max_position_embeddings": 64, "vocab_size": len(TOK), "bos_token_id": None}
    )
    network = LlamaForCausalLM(config)
    if start is not None:
        network.load_state_dict(start.state_dict())
    rows = []
    for ask, texts in answers.items():
        probe = letter_probe(ask=ask)
        for one, text in zip(
            encode_prompts(probe, probe.items, TOK, max_length=64), texts, strict=True
        ):
            written = TOK(text)["input_ids"] + [1]
            rows.append((list(one.context) + written, [-100] * len(one.context) + written))
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([[*one, *[0] * (width - len(one))] for one, _ in rows])
    labels = torch.tensor([[*one, *[-100] * (width - len(one))] for _, one in rows])
    mask = torch.tensor([[1] * len(one) + [0] * (width - len(one)) for one, _ in rows])
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    network.train()
    for _ in range(steps):
        network(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return network.eval()


def letter_probe(tokens: int = 8, ask: str = "reasoning") -> Probe:
    return Probe(facts(), name="facts", scoring="generate", decoding={"tokens": tokens, "ask": ask})


def reasoned(items: Sequence[Item]) -> list[str]:
    return [
        f"since {str(item.prompt).split()[-1]} fits Answer: {right}"
        for item, right in zip(items, letters(items), strict=True)
    ]


@pytest.fixture(scope="module")
def knows() -> Any:
    """A model that knows all facts: it reasons and ends with the letter, or gives the letter alone, as it is asked."""
    return taught(None, {"reasoning": reasoned(facts()), "letter": letters(facts())}, steps=200)


def test_the_answer_after_reasoning_is_extracted_from_the_last_line(knows: Any) -> None:
    rows = score(knows, TOK, letter_probe()).table.to_pylist()
    assert [row["output"] for row in rows] == reasoned(facts())
    assert all(
        row["correct"] and row["in_form"] and row["forced_correct"] and row["outcome"] == "ok"
        for row in rows
    )
    cut = score(knows, TOK, letter_probe(tokens=3)).table.to_pylist()
    assert {row["outcome"] for row in cut} == {"truncated"}
    assert not any(row["correct"] for row in cut)


def test_form_lost_and_knowledge_lost_are_told_apart(knows: Any) -> None:
    probe = letter_probe()
    before = score(knows, TOK, probe)
    words = dict(zip(LETTERS, ("one", "two", "three", "four"), strict=True))
    form = {
        "reasoning": [f"number {words[right]}" for right in letters(facts())],
        "letter": letters(facts()),
    }
    after = score(taught(knows, form, steps=60), TOK, probe)
    assert {row["outcome"] for row in after.table.to_pylist()} == {"no answer"}
    assert after.floats("forced_correct").all()  # the facts are intact
    comparison = compare(before=before, after=after)
    lost = comparison.all
    assert (lost.forgotten, lost["format_lost"], lost["knowledge_lost"]) == (
        len(probe),
        len(probe),
        0,
    )
    console = Console(width=100, record=True, file=StringIO())
    console.print(table_of(comparison))
    every = f"{len(probe)} of the {len(probe)} lost answers lost only their form"
    assert every in " ".join(console.export_text().split())
    assert comparison_json(comparison)["groups"][0]["format_lost"] == len(probe)

    wrong = [
        LETTERS[(LETTERS.index(right) + (n < 10)) % 4] for n, right in enumerate(letters(facts()))
    ]
    other = [text[:-1] + letter for text, letter in zip(reasoned(facts()), wrong, strict=True)]
    changed = compare(
        before=before,
        after=score(taught(knows, {"reasoning": other, "letter": wrong}, steps=100), TOK, probe),
    ).all
    assert (changed.forgotten, changed["format_lost"], changed["knowledge_lost"]) == (10, 0, 10)


def test_generated_answers_are_those_of_greedy_decoding_one_by_one(knows: Any) -> None:
    probe = letter_probe()
    rows = score(knows, TOK, probe).table.to_pylist()
    for one, row in zip(encode_prompts(probe, probe.items, TOK, max_length=64), rows, strict=True):
        ids = list(one.context)
        with torch.no_grad():
            while len(ids) < len(one.context) + 8 and ids[-1] != 1:
                ids.append(int(knows(torch.tensor([ids])).logits[0, -1].argmax()))
        assert row["output"] == TOK.decode(ids[len(one.context) :], skip_special_tokens=True)


def test_generated_and_scored_items_share_a_probe_and_have_a_line_each(knows: Any) -> None:
    written = [
        Item(
            id=f"open{n}",
            task="open",
            prompt=f"{item.prompt} Answer:",
            answer="A",
            match="contains",
        )
        for n, item in enumerate(facts(6))
    ]
    probe = Probe([*facts(), *written], name="both", decoding={"tokens": 4})
    snapshot = score(knows, TOK, probe)
    assert snapshot.table["output"].null_count == len(facts())
    assert compare(before=snapshot, after=snapshot).by("kind").keys() == {"scored", "written"}
    left_out = {(item.task, item.id) for item in written}
    without = Scorer(probe, TOK, knows, left_out=left_out).score(knows)
    assert compare(before=without, after=without).items.unscored == 6


def test_samples_of_an_item_differ_and_repeat_at_each_look() -> None:
    network, tok = model(tokenizer(), dropout=0.0).eval(), tokenizer()
    items = [
        Item(id=str(n), task="t", prompt=f"w{n} w{n + 1}", answer="w3", match="contains")
        for n in range(5)
    ]
    probe = Probe(
        items, scoring="generate", decoding=Decoding(tokens=5, temperature=1.0, samples=4)
    )
    one, other = score(network, tok, probe), score(network, tok, probe)
    assert one.checksum == other.checksum
    rows = one.table.to_pylist()
    assert [row["sample"] for row in rows] == [0, 1, 2, 3] * 5
    assert len({row["output"] for row in rows}) > 10


def test_a_sampled_answer_does_not_depend_on_the_others() -> None:
    tok = tokenizer()
    network = model(tok, dropout=0.0).eval()
    prompts = [tuple(tok(" ".join(WORDS[n : n + 1 + n % 4]))["input_ids"]) for n in range(12)]
    decoding = Decoding(tokens=8, temperature=1.0, top_p=0.9)
    whole = ModelGenerator(network, tok).generate(prompts, decoding, seed=3)
    assert ModelGenerator(network, tok).generate(prompts[:5], decoding, seed=3) == whole[:5]
    assert ModelGenerator(network, tok).generate(prompts[::-1], decoding, seed=3) == whole[::-1]
    assert ModelGenerator(network, tok, token_budget=2).generate(prompts, decoding, seed=3) == whole
    assert ModelGenerator(network, tok).generate(prompts, decoding, seed=4) != whole
    assert (
        len(
            {
                one.text
                for one in ModelGenerator(network, tok).generate(prompts[:1] * 6, decoding, seed=3)
            }
        )
        == 6
    )


def test_answers_are_sampled_with_the_models_own_probabilities() -> None:
    tok = tokenizer()
    network = model(tok, dropout=0.0).eval()
    with torch.no_grad():
        network.lm_head.weight.mul_(20)
        logits = network(torch.tensor([[20, 21]])).logits[0, -1].double()
    for temperature, top_p in ((1.0, 1.0), (0.5, 1.0), (1.0, 0.6)):
        wanted = (logits / temperature).softmax(-1)
        highest, order = wanted.sort(descending=True)
        kept = order[: int((highest.cumsum(0) < top_p).sum()) + 1] if top_p < 1 else order
        wanted = torch.zeros_like(wanted).index_copy(0, kept, wanted[kept] / wanted[kept].sum())
        decoding = Decoding(tokens=1, temperature=temperature, top_p=top_p)
        written = ModelGenerator(network, tok).generate([(20, 21)] * 4000, decoding, seed=0)
        found = (
            torch.bincount(torch.tensor([one.tokens[0] for one in written]), minlength=len(wanted))
            / 4000
        )
        assert (found[wanted == 0] == 0).all()
        assert (found - wanted).abs().max() < 4 * (0.25 / 4000) ** 0.5
        assert (found - wanted).abs().sum() < 0.2


def test_a_text_ends_with_the_tokenizers_end_token_as_well_as_with_the_models() -> None:
    tok = tokenizer()
    network = model(tok, dropout=0.0).eval()
    prompts = [(20 + n,) for n in range(6)]
    first = [
        one.tokens[2]
        for one in ModelGenerator(network, tok).generate(prompts, Decoding(tokens=6), seed=0)
    ]
    network.generation_config.eos_token_id = first[0]
    tok.eos_token = tok.convert_ids_to_tokens(first[1])
    for row, one in enumerate(
        ModelGenerator(network, tok).generate(prompts[:2], Decoding(tokens=6), seed=0)
    ):
        assert one.tokens[-1] in (first[0], first[1]), row
        assert not one.truncated


def test_a_stop_text_is_not_part_of_the_answer(knows: Any) -> None:
    tok = tokenizer()
    network = model(tok, dropout=0.0).eval()
    prompts = [tuple(tok(f"w{n}")["input_ids"]) for n in range(6)]
    generator = ModelGenerator(network, tok)
    whole = generator.generate(prompts, Decoding(tokens=12, temperature=1.0, seed=3), seed=3)
    for row, one in enumerate(whole):
        stop = one.text.split()[4]
        cut = generator.generate(
            prompts, Decoding(tokens=12, temperature=1.0, stop=(stop,)), seed=3
        )[row]
        assert cut.text == one.text[: one.text.index(stop)]
        assert not cut.truncated


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tokens": 0}, "tokens must be a whole number, at least 1, got 0"),
        ({"samples": 2}, "samples at temperature 0 are the same"),
        ({"top_p": 0}, "top_p must be a number above 0 and at most 1, got 0"),
        ({"speed": 1}, "unknown setting 'speed'"),
        ({"no_answer": "right"}, "no_answer must be one of wrong, unscored"),
    ],
)
def test_decoding_out_of_range_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        Probe(facts(2), scoring="generate", decoding=settings)


def test_decoding_is_part_of_the_fingerprint_of_generated_answers() -> None:
    plain = Probe(facts(2))
    assert "decoding" not in plain.settings
    one, other = (Probe(facts(2), scoring="generate", decoding={"tokens": n}) for n in (5, 6))
    assert len({plain.fingerprint, one.fingerprint, other.fingerprint}) == 3


def test_an_own_judge_decides(knows: Any) -> None:
    def judge(output: str, item: Item) -> bool | None:
        return None if item.id == "1" else output.endswith("A")

    items = [
        Item(id=str(n), task="t", prompt=item.prompt, answer="-", judge=judge)
        for n, item in enumerate(facts(3))
    ]
    rows = score(knows, TOK, Probe(items, decoding={"tokens": 4})).table.to_pylist()
    assert [row["correct"] is None for row in rows] == [False, True, False]
    assert "unscored" in rows[1]["outcome"]


def test_an_item_that_no_text_could_answer_is_refused_before_a_model_runs(knows: Any) -> None:
    with pytest.raises(ProbeError, match="match"):
        Scorer(Probe([Item(id="1", task="t", prompt="w1", answer="w2")]), TOK, knows)


def test_an_unchanged_model_with_sampled_answers_forgets_nothing_beyond_the_noise_floor() -> None:
    tok = tokenizer()
    network = model(tok, dropout=0.0).eval()
    items = [
        Item(
            id=str(n),
            task="t",
            prompt=f"w{n} w{n + 1}",
            answer=[f"w{m}" for m in range(0, 120, 4)],
            match="contains",
        )
        for n in range(100)
    ]
    probe = Probe(
        items, scoring="generate", decoding=Decoding(tokens=2, temperature=1.0, samples=4)
    )
    scorer = Scorer(probe, tok, network)
    one, other = scorer.score(network), scorer.score(network, again=True)
    whole = compare(before=one, after=other, repeat=other).all
    assert whole.forgetting > 0.1  # drawing alone flips that much
    assert whole.p_value > 0.01
    assert whole["null_lost"] == whole.forgotten  # the null is the same second measurement
    assert compare(before=one, after=scorer.score(network)).all.forgotten == 0


def test_a_short_answer_is_checked_without_generating_it(knows: Any) -> None:
    network, tok = model(tokenizer(), dropout=0.0).eval(), tokenizer()
    prompts = [f"w{n} w{n + 1} w{n + 2}" for n in range(12)]
    generator = ModelGenerator(network, tok)
    ids = [tuple(tok(prompt)["input_ids"]) for prompt in prompts]
    greedy = [one.text for one in generator.generate(ids, Decoding(tokens=3), seed=0)]
    items = [
        Item(id=str(n), task="t", prompt=prompt, match="exact",
             answer=[" w99 w98", " " + (text if n % 2 else "w97 " + text)])
        for n, (prompt, text) in enumerate(zip(prompts, greedy, strict=True))
    ]  # fmt: skip
    probe = Probe(items, decoding={"tokens": 3, "check": "forced"})
    rows = score(network, tok, probe).table.to_pylist()
    assert [row["correct"] for row in rows] == [bool(n % 2) for n in range(12)]
    assert {row["output"] for row in rows} == {None}
    assert {len(row["choice_logprobs"]) for row in rows} == {2}
    both = Probe([*items, *facts(3)], decoding={"tokens": 3, "check": "forced"})
    assert score(network, tok, both).floats("correct")[:12].tolist() == [
        float(n % 2) for n in range(12)
    ]


def _generate_by(monkeypatch: pytest.MonkeyPatch, writer: Any) -> None:
    monkeypatch.setattr(scorer, "ModelGenerator", lambda *given, **options: writer)


def test_a_thinking_block_that_the_prompt_opens_is_closed_before_an_answer_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Writes:
        """Writes the same text behind every prompt."""

        name = "stand-in"

        def __init__(self, text: str) -> None:
            self.text = text

        def generate(
            self, prompts: Any, decoding: Any, *, seed: int, progress: Any = None
        ) -> list[Generated]:
            return [Generated(self.text, True, ()) for _ in prompts]

    tok = tokenizer(template=False)
    tok.add_tokens(["<think>"])
    asks = "{{ messages[0]['content'] }} assistant :{% if enable_thinking %} <think>{% endif %}"
    always = "{{ messages[0]['content'] }} assistant : <think>"
    network = model(tok, dropout=0.0).eval()
    for template, thinking, text, outcome in (
        (asks, True, "maybe B . Answer: B .", "truncated in thinking"),
        (asks, True, "maybe A </think> Answer: B .", "ok"),
        (asks, False, "Answer: B .", "ok"),
        (always, False, "maybe B . Answer: B .", "truncated in thinking"),
        (always, False, "maybe A </think> Answer: B .", "ok"),
    ):
        tok.chat_template = template
        decoding = {"tokens": 8, "thinking": thinking, "ask": "letter"}
        probe = Probe(facts(2), scoring="generate", rendering="chat", decoding=decoding)
        _generate_by(monkeypatch, Writes(text))
        rows = Scorer(probe, tok, network).score(network).table.to_pylist()
        assert {row["outcome"] for row in rows} == {outcome}
        assert [row["correct"] for row in rows] == [False, outcome == "ok"]


def test_special_tokens_that_separate_thinking_from_the_answer_are_kept() -> None:
    tok = tokenizer()
    tok.add_special_tokens({"extra_special_tokens": ["[THINK]", "[/THINK]"]})
    ids = (
        *tok("[THINK] A [/THINK] <unk> B", add_special_tokens=False)["input_ids"],
        tok.eos_token_id,
    )
    text = answer_text(tok, ids)
    assert text == "[THINK] A [/THINK] B"
    item = Item(id="1", task="t", prompt="w1", choices=[" w2", " w3"], answer=1)
    assert grade(item, text).chosen == 1
    assert grade(item, answer_text(tok, ids[:2])).outcome == "truncated in thinking"


def test_an_empty_prompt_begins_with_the_start_token() -> None:
    tok = tokenizer()
    probe = Probe(
        [Item(id="1", task="t", prompt="", answer="w2", match="contains")], decoding={"tokens": 3}
    )
    (encoded,) = encode_prompts(probe, probe.items, tok, max_length=64)
    assert (encoded.context, encoded.unscored) == ((tok.bos_token_id,), "")


def test_an_item_that_cannot_be_graded_is_not_generated_and_has_its_reason() -> None:
    items = [
        Item(
            id=name,
            task="t",
            prompt="Q : w1",
            answer=f'[["{name}", {{"language": "de"}}]]',
            match="instructions",
        )
        for name in ("punctuation:no_comma", "language:response_language")
    ]
    tok = tokenizer()
    probe = Probe(items, scoring="generate", decoding={"tokens": 4})
    snapshot = score(model(tok).eval(), tok, probe)
    graded, ungraded = snapshot.texts("outcome")
    assert graded.startswith(("ok", "truncated"))
    assert ungraded.startswith("unscored: language:response_language needs")
    assert snapshot.texts("output")[1] is None
    assert snapshot.texts("output")[0]


class Rambling:
    """Generator whose answers go on with a question of their own; it stops at no text."""

    name = "rambling"

    def __init__(self) -> None:
        self.stops: list[tuple[str, ...]] = []

    def generate(self, prompts: Any, decoding: Decoding, **options: Any) -> list[Generated]:
        self.stops.append(decoding.stop)
        return [Generated("w1\n\nQ: w2\nAnswer: w3", True, ()) for _ in prompts]


def test_an_answer_after_worked_examples_ends_before_the_next_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {"task": "t", "prompt": "Q: w0\nAnswer:", "answer": "w1", "match": "exact"}
    shown = Item(id="shown", shots="Q: w5\nAnswer: w6\n\n", **fields)
    bare, own = Item(id="bare", **fields), Rambling()
    network = model(TOK)
    _generate_by(monkeypatch, own)
    both = Scorer(Probe([shown, bare], decoding={"tokens": 20}), TOK, network).score(network)
    assert both.texts("output").tolist() == ["w1", "w1\n\nQ: w2\nAnswer: w3"]
    assert both.texts("outcome").tolist() == ["ok", "truncated"]
    assert both.table["correct"].to_pylist() == [True, False]
    # The same answers if the item is alone, and the model stops at once.
    alone = Scorer(Probe([shown], decoding={"tokens": 20}), TOK, network).score(network)
    assert alone.texts("output").tolist() == ["w1"]
    assert own.stops == [(), ("\n\nQ:",)]


PROBE = load_probe("behaviour")
WORDS_OF_BEHAVIOUR = [
    str(item.prompt if isinstance(item.prompt, str) else item.prompt[-1]["content"])
    for item in PROBE
]
TOK_OF_BEHAVIOUR = tokenizer(words_of=WORDS_OF_BEHAVIOUR)
WITH_TOOLS = tokenizer(words_of=WORDS_OF_BEHAVIOUR)
WITH_TOOLS.chat_template = "{% if tools %}{{ tools }} {% endif %}" + WITH_TOOLS.chat_template
NO_TOOLS = "unscored: the chat template has no place for tools"


class StandIn:
    """Writes the good answers of the test table, and never ends where it is asked to stop."""

    name = "stand-in"

    def generate(
        self,
        prompts: Sequence[Ids],
        decoding: Decoding,
        *,
        seed: int,
        progress: Callable[[int], None] | None = None,
    ) -> list[Generated]:
        table = Path(__file__).parent.parent / "probes" / "behaviour_answers.jsonl"
        good = {
            row["id"]: row["good"][0]
            for row in map(json.loads, table.read_text("utf-8").splitlines())
        }
        items = [item for item in PROBE if not item.tools or len(prompts) == len(PROBE)]
        return [Generated(good[item.id], item.match == "stops", ()) for item in items]


def test_good_answers_are_right_and_those_that_do_not_stop_are_truncated_and_wrong() -> None:
    written = GeneratedItems(PROBE, range(len(PROBE)), WITH_TOOLS, max_length=8192)
    for index, (row,) in written.rows(StandIn()).items():
        stops = PROBE[index].match == "stops"
        assert (row["correct"], row["outcome"]) == ((False, "truncated") if stops else (True, "ok"))


def test_a_random_model_answers_all_items_and_those_with_tools_are_unscored_without_a_place_for_them() -> (
    None
):
    rows = score(model(TOK_OF_BEHAVIOUR, positions=256), TOK_OF_BEHAVIOUR, PROBE).table.to_pylist()
    assert len(rows) == 180
    for item, row in zip(PROBE, rows, strict=True):
        if item.tools:
            assert (row["outcome"], row["correct"]) == (NO_TOOLS, None)
        else:
            assert row["outcome"] in {"ok", "no answer", "truncated"}
            assert isinstance(row["correct"], bool)
            assert row["outcome"] == "ok" or not row["correct"]


def test_only_a_template_that_leaves_the_tools_out_makes_an_item_unscored() -> None:
    tool = {"type": "function", "function": {"name": "now"}}
    item = Item(
        id="1", task="t", prompt="a b", answer='{"name": "now"}', match="tool_call", tools=[tool]
    )
    probe = Probe([item, replace(item, id="2", tools=None)], rendering="chat")
    assert [bool(render_prompt(one, probe, TOK_OF_BEHAVIOUR).unscored) for one in probe] == [
        True,
        False,
    ]
    assert [bool(render_prompt(one, probe, WITH_TOOLS).unscored) for one in probe] == [False, False]


def test_calls_are_read_by_the_template_of_the_tokenizer_or_from_the_text() -> None:
    tok = tokenizer()
    tok.add_special_tokens({"additional_special_tokens": ["[TOOL_CALLS]"]})
    ids = tuple(tok.encode("[TOOL_CALLS] w1 w2", add_special_tokens=False))
    answer = Generated("w1 w2", False, (*ids, tok.eos_token_id))
    assert call_text(tok, (), answer) == tok.decode(ids)
    assert "[TOOL_CALLS]" in call_text(tok, (), answer)
    tok.response_template = {"fields": {}}
    read: dict[str, Any] = {"tool_calls": [{"name": "now", "arguments": {}}]}
    tok.parse_response = lambda response, prefix: read
    assert json.loads(call_text(tok, (), answer)) == read["tool_calls"]
    read.clear()
    assert call_text(tok, (), answer) == tok.decode(ids)
    tok.parse_response = lambda response: read  # raises
    assert call_text(tok, (), answer) == tok.decode(ids)


@pytest.mark.parametrize("world", [2, 3, 5])
def test_the_batches_of_generated_answers_do_not_depend_on_the_number_of_processes(
    world: int,
) -> None:
    network = model(TOK).to(torch.bfloat16)
    prompts = [(*tuple(range(4, 6 + n % 7)), n + 4) for n in range(23)]
    asked: list[tuple[int, ...]] = []
    network.get_input_embeddings().register_forward_hook(
        lambda module, given, made: (
            asked.append(tuple(given[0].shape)) if given[0].shape[1] > 1 else None
        )
    )

    def drawn(share: slice) -> dict[int, Ids]:
        seeds = seeds_of(prompts, 0)
        texts = sample(
            network, prompts, tokens=6, ends=[1], seeds=seeds, token_budget=64, share=share
        )
        return {n: one.tokens for n, one in texts.items()}

    whole = drawn(slice(None))
    batches, asked = sorted(asked), []
    parts = [drawn(slice(rank, None, world)) for rank in range(world)]
    assert sorted(asked) == batches
    assert len(batches) > 1
    assert sum(map(len, parts)) == len(whole) == 23
    assert {n: one for part in parts for n, one in part.items()} == whole
