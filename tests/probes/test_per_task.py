"""A probe for each task, as one: by name, and from the folder of a benchmark."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from forgetwatch import ForgetWatchCallback, Item, Probe, load_probe
from forgetwatch.errors import ProbeError, WatchError
from forgetwatch.probes import load_tasks

LETTERS = [{"prompt": f"Stance of text {n}? A. for, B. against. Answer:", "answer": "AB"[n % 2]} for n in range(6)]
REASONS = [
    {"prompt": f"Larger than {n}? A: {n + 1} B: 0", "answer": f"A\nReasons: {n + 1} comes later."} for n in range(6)
]
SUMS = [{"prompt": f"What is {n} plus {n}? Answer:", "answer": str(2 * n)} for n in range(6)]
SUMMARIES = [{"prompt": f"Summarize talk {n}.", "answer": f"talk {n} " * 40} for n in range(6)]


def write(folder: Path, tasks: dict[str, list[dict[str, Any]]], split: str = "test") -> Path:
    for name, rows in tasks.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for one in ("train", split):
            (folder / name / f"{one}.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder


@pytest.mark.parametrize("split", ["test", "eval"])
def test_a_folder_of_tasks_is_read_and_what_cannot_be_graded_is_named(
    tmp_path: Path, split: str, capfd: pytest.CaptureFixture[str]
) -> None:
    tasks = {"FOMC": LETTERS, "MeetingBank": SUMMARIES, "NumGLUE-cm": SUMS, "ScienceQA": REASONS}
    made = load_tasks(write(tmp_path / "TRACE", tasks, split))
    found = Counter((item.task, item.category, item.match) for item in made)
    assert found == {
        ("FOMC", "FOMC", "letter"): 6,
        ("NumGLUE-cm", "NumGLUE-cm", "number"): 6,
        ("ScienceQA", "ScienceQA", "letter"): 6,
    }
    assert [item.answer for item in made if item.task == "ScienceQA"] == ["A"] * 6
    assert "MeetingBank is not watched: " in capfd.readouterr().err


def test_named_probes_are_categories_and_the_base_keeps_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, {"sums": SUMS}) / "sums" / "test.json"
    own = Probe([Item(id="1", task="x", prompt="Q", choices=[" a", " b"], answer=0)])
    made = load_tasks({"base": "demo", "sums": path, "own": own})
    assert made.name == "base+sums+own"
    demo = load_probe("demo")
    assert made.items[: len(demo)] == demo.items
    assert {(item.task, item.category) for item in made.items[len(demo) :]} == {("sums", "sums"), ("own", "own")}
    callback = ForgetWatchCallback(probes={"base": "demo", "sums": path})
    assert {item.category for item in callback.probe} == {*(item.category for item in demo), "sums"}


def test_ids_of_several_tasks_in_one_probe_stay_apart() -> None:
    items = [Item(id="1", task=task, prompt=f"Q {task}", choices=[" a", " b"], answer=0) for task in "xy"]
    assert [item.id for item in load_tasks({"both": Probe(items)})] == ["x/1", "y/1"]


def test_what_cannot_be_evaluated_together_or_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="needed the folder of a benchmark"):
        load_tasks(tmp_path / "nothing")
    with pytest.raises(ProbeError, match=r"needed folders of tasks, each with a test\.json, got none that can be read"):
        load_tasks(tmp_path)
    with pytest.raises(ProbeError, match="MeetingBank is not watched"):
        load_tasks(write(tmp_path / "only", {"MeetingBank": SUMMARIES}))
    with pytest.raises(ProbeError, match="needed a probe for each task"):
        load_tasks({})
    with pytest.raises(ProbeError, match="no such file"):
        load_tasks({"a": "nothing.csv"})
    letters = Probe([Item(id="1", task="x", prompt="Q", choices=[" a", " b"], answer=0)], scoring="letters")
    with pytest.raises(ProbeError, match=r"probes: .*needed choices that are scored in one way"):
        load_tasks({"base": "demo", "letters": letters})
    with pytest.raises(WatchError, match="probe and probes: needed one of them"):
        ForgetWatchCallback("demo", probes={"base": "demo"})


def test_a_name_after_an_initial_is_no_letter() -> None:
    rows = [
        {"question": f"Who was president {n}?", "answer": name} for n, name in enumerate(["A. Lincoln", "B. Obama"])
    ]
    assert [item.match for item in load_probe(rows)] == ["contains", "contains"]
