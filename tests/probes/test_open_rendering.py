"""Open questions of a table are asked in the chat template, if the base answers them there."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support import model, tokenizer

from forgetwatch import Probe, Snapshot, Watch, load_probe
from forgetwatch.probes.open_rendering import as_measured, rendered
from forgetwatch.probes.question_table import probe_from

OPEN = [{"question": f"w{n} w{n + 2}", "answer": f"w{n + 1}"} for n in range(20)]
CLOSED = [{"question": f"w{n}?", "options": ["w1", "w2"], "answer": 0} for n in range(3)]


def table() -> Probe:
    return probe_from(OPEN, decoding={"tokens": 2})


def model_that_is_right(
    chat: int | None, plain: int = 0, asked: list[str] | None = None
) -> Callable[[Probe], Snapshot]:
    """Answers to 16 questions, so many right; None without a template."""

    def answers(probe: Probe) -> Snapshot:
        assert len(probe) == 16
        is_chat = probe.rendering_of(probe[0]) == "chat"
        if asked is not None:
            asked.append("chat" if is_chat else "plain")
        right = chat if is_chat else plain
        correct = [None if right is None else n < right for n in range(16)]
        return Snapshot.from_columns(
            {"item_id": [item.id for item in probe], "correct": correct}, {}
        )

    return answers


@pytest.mark.parametrize(
    ("chat", "plain", "rendering", "tried", "words"),
    [
        (13, 0, "chat", ["chat"], "in the chat template: 13 of the first 16 right"),
        (0, 5, "plain", ["chat", "plain"], "in plain text: 5 of the first 16 right, and none in"),
        (0, 0, "chat", ["chat", "plain"], "0 of the first 16 right, and none in plain text"),
        (None, 5, "plain", ["chat"], ""),
    ],
)
def test_the_first_answers_choose_the_rendering(
    chat: int | None, plain: int, rendering: str, tried: list[str], words: str
) -> None:
    asked: list[str] = []
    made, line = rendered(table(), model_that_is_right(chat, plain, asked))
    assert {made.rendering_of(item) for item in made} == {rendering}
    assert not made.may_chat
    assert asked == tried
    assert words in line
    assert bool(line) == bool(words)


def test_what_somebody_has_named_is_kept(tmp_path: Path) -> None:
    def never(probe: Probe) -> Snapshot:
        raise AssertionError(probe)

    for probe in (probe_from(OPEN, rendering="plain"), probe_from(OPEN, rendering="chat")):
        assert rendered(probe, never) == (probe, "")
    assert not probe_from(CLOSED).may_chat
    table().save(tmp_path / "a.jsonl")
    assert load_probe(tmp_path / "a.jsonl").may_chat
    assert not load_probe(tmp_path / "a.jsonl", rendering="plain").may_chat
    plain = probe_from(OPEN, rendering="plain", decoding={"tokens": 2})
    assert table().fingerprint == plain.fingerprint


def test_an_earlier_measurement_decides() -> None:
    chat, _ = rendered(table(), model_that_is_right(9))
    plain, _ = rendered(table(), model_that_is_right(None))
    assert as_measured(table(), chat.fingerprint).fingerprint == chat.fingerprint
    assert as_measured(table(), plain.fingerprint).fingerprint == plain.fingerprint
    assert as_measured(table(), "another").may_chat


def test_a_run_settles_the_rendering_once_and_resumes_with_it(tmp_path: Path) -> None:
    words = tokenizer()
    first = Watch(table(), tmp_path)
    first.look(model(words), words, step=0)
    assert not first.run.probe.may_chat  # no template: plain
    first.close()
    again = Watch(table(), tmp_path, resume=True)
    assert again.run.probe.fingerprint == first.run.probe.fingerprint
    assert not again.run.probe.may_chat
    again.close()
