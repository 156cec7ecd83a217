"""The page of a run, written during the run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support import model, probe, tokenizer, trained, trainer

from forgetwatch import ForgetWatchCallback, Watch
from forgetwatch.progress import seconds
from forgetwatch.run import ReportPage, cost_line, run_output
from forgetwatch.run_folder import REPORT

TOK = tokenizer()


class Clock:
    """A clock that advances by hand, and by the time that drawing takes."""

    def __init__(self) -> None:
        self.now, self.drawing, self.drawn = 1000.0, 0.5, 0

    def perf_counter(self) -> float:
        return self.now

    def run_page(self, *_: Any, **__: Any) -> str:
        self.drawn += 1
        self.now += self.drawing
        return f"page {self.drawn}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(run_output, "time", made)
    monkeypatch.setattr(run_output, "run_page", made.run_page)
    return made


def looked(folder: Path) -> Watch:
    watch = Watch(probe(), folder)
    watch.look(model(TOK), TOK, step=0)
    return watch


def test_the_page_is_written_again_at_each_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    headings = list[str]()
    monkeypatch.setattr(run_output, "_PAGE_SHARE", 1e9)  # these looks follow within a second
    written = run_output.write_text

    def noted(path: Path, text: str) -> None:
        written(path, text)
        if path.name == REPORT:
            headings.append(re.findall(r"to step (\d+);", path.read_text(encoding="utf-8"))[-1])

    monkeypatch.setattr(run_output, "write_text", noted)
    trainer(tmp_path, steps=4, callbacks=[ForgetWatchCallback(probe(), every=2, max_overhead=None)]).train()
    assert headings == ["2", "4"]
    assert (tmp_path / "_forgetwatch" / REPORT).is_file()


def test_a_page_that_cannot_be_written_is_logged_once_and_the_run_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_output, "_PAGE_SHARE", 1e9)

    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_output, "write_text", full)
    run = trained(tmp_path, steps=6, callbacks=[ForgetWatchCallback(probe(), every=1, max_overhead=None)])
    assert run.state.global_step == 6
    logged = capsys.readouterr().err
    assert logged.count("writing the report at step") == 1
    assert "No space left on device" in logged
    assert len(list((tmp_path / "_forgetwatch").glob("step-*.parquet"))) == 6
    assert not (tmp_path / "_forgetwatch" / REPORT).exists()


def test_a_page_that_would_exceed_its_share_of_the_time_is_left_out(tmp_path: Path, clock: Clock) -> None:
    watch, page = looked(tmp_path), ReportPage()
    for step in range(1, 5):
        watch.look(model(TOK), TOK, step=step)
        page.write(watch.run)
        clock.now += 10  # a page took half a second
    assert clock.drawn == 1
    clock.now += 65
    watch.look(model(TOK), TOK, step=9)
    page.write(watch.run)
    assert clock.drawn == 2


def test_the_baseline_of_any_probe_announces_itself_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    probe().save(tmp_path / "mine.jsonl")
    Watch(tmp_path / "mine.jsonl", tmp_path).look(model(TOK), TOK, step=0)
    Watch(probe(), tmp_path / "once", twice=False).look(model(TOK), TOK, step=0)
    told = [line for line in capsys.readouterr().err.splitlines() if "items" in line and " of " not in line[:40]]
    assert told[0].startswith("forgetwatch: baseline: toy, 30 items, then all of them again for the noise")
    assert told[-1] == "forgetwatch: baseline: toy, 30 items"


def test_the_announced_sum_contains_the_second_measurement_and_the_looks(tmp_path: Path) -> None:
    watch = looked(tmp_path)
    assert watch.run.null is not None
    # Seconds of both measurements of the baseline, and of one evaluation.
    watch.run.seconds = {0: 69.4 + 25.7}
    line = cost_line(watch.run, left=4, each=70.0)
    assert "the baseline took 95 s, second measurement included; 4 looks planned, 70 s each: about 6 min" in line
    assert line.endswith(
        "; before training it answered no better than guessing: there is next to nothing to forget here"
    )
    assert cost_line(watch.run, left=1, each=13.2).split("; ")[2] == "1 look planned, 13 s each: about 108 s in all"


def test_a_run_that_resumes_announces_its_looks_alone(tmp_path: Path) -> None:
    took = looked(tmp_path).look_seconds
    resumed = Watch(probe(), tmp_path, resume=True)
    line = cost_line(resumed.run, left=100, each=resumed.look_seconds)
    assert "baseline took" not in line
    assert f"about {seconds(100 * took)} in all" in line


def test_the_end_of_a_run_always_has_a_page(tmp_path: Path, clock: Clock) -> None:
    watch, page = looked(tmp_path), ReportPage()
    page.write(watch.run)
    watch.look(model(TOK), TOK, step=5)
    page.write(watch.run, at_once=True)
    assert clock.drawn == 2
    assert (watch.run.folder.path / REPORT).read_text() == "page 2"
    page.write(watch.run, at_once=True)  # it shows the latest look already
    assert clock.drawn == 2


def test_the_last_look_of_a_fast_run_is_in_its_page(tmp_path: Path) -> None:
    trainer(tmp_path, steps=5, callbacks=[ForgetWatchCallback(probe(), every=1, max_overhead=None)]).train()
    text = (tmp_path / "_forgetwatch" / REPORT).read_text(encoding="utf-8")
    assert "to step 5;" in text
    assert [int(step) for step in re.findall(r'data-group="look:(\d+)"', text)] == [1, 2, 3, 4, 5]
