"""Generated answers of a measurement that was interrupted: it goes on, and gives the rows of one that was not."""

from pathlib import Path

import pytest
from support import facts, model, tokenizer

from forgetwatch import Item, Probe, Snapshot
from forgetwatch.kept_answers import KeptAnswers
from forgetwatch.scoring.cached_score import score_checkpoint
from forgetwatch.scoring.scorer import Scorer


def open_probe(items: int = 24) -> Probe:
    asked = [
        Item(id=str(n), task="t", prompt=f"{fact.prompt} w{n}", answer="w1", match="contains")
        for n, fact in enumerate(list(facts(items)))
    ]
    return Probe(
        asked, decoding={"tokens": 5, "temperature": 1.0, "samples": 2}, scoring="generate"
    )


def snapshot(path: Path | None) -> Snapshot:
    tok = tokenizer()
    net = model(tok)
    scorer = Scorer(open_probe(), tok, net, token_budget=8)
    return scorer.score(net, kept=KeptAnswers(path, "weights"))


@pytest.mark.parametrize("moment", range(10))
def test_interrupted_at_ten_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    path = tmp_path / "s.answers"
    add, batches = KeptAnswers.add, list[int]()

    def counted(kept: KeptAnswers, answers: dict[str, object]) -> None:
        batches.append(len(answers))
        if len(batches) > moment and path == kept.path and not is_continued:
            raise KeyboardInterrupt
        add(kept, answers)

    monkeypatch.setattr(KeptAnswers, "add", counted)
    is_continued = False
    whole = snapshot(None)
    in_all = len(batches)
    batches.clear()
    with pytest.raises(KeyboardInterrupt):
        snapshot(path)
    assert len(batches) == moment + 1
    is_continued = True
    batches.clear()
    assert snapshot(path).checksum == whole.checksum
    assert len(batches) == in_all - moment


def test_a_checkpoint_leaves_no_answers_in_the_cache(saved: Path, cache: Path) -> None:
    score_checkpoint(str(saved), open_probe(4))
    assert {path.suffix for path in cache.iterdir()} <= {".parquet", ".lock"}


def test_a_checkpoint_goes_on_from_the_file_that_is_named(saved: Path, tmp_path: Path) -> None:
    answers = tmp_path / "out.answers"
    score_checkpoint(str(saved), open_probe(4), answers=answers)
    assert answers.read_bytes().count(b'"tokens"') == 8
