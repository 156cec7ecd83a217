"""The paper's categories, and maps from files.

A probe for each task, as one: by name, and from the folder of a benchmark.

`combine` makes one probe of two.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import snapshot

from forgetwatch import ForgetWatchCallback, Item, Probe, compare, load_probe
from forgetwatch.errors import ProbeError
from forgetwatch.probe import combine, read_probe
from forgetwatch.probes.categories import Categories, paper_category
from forgetwatch.probes.named import load_tasks


@pytest.mark.parametrize(
    ("task", "category"),
    [
        ("mmlu_anatomy", "Science/Tech"),
        ("community|mmlu:anatomy|0", "Science/Tech"),
        ("bbh_causal_judgement", "Logic"),
        ("arc_easy", "Logic"),
        ("ifeval", "Instruction Following"),
        ("gsm8k", ""),
    ],
)
def test_the_papers_category_of_a_task_in_any_spelling(task: str, category: str) -> None:
    assert paper_category(task) == category


def test_a_written_map_is_read_back_equal(tmp_path: Path) -> None:
    paper = Categories.paper()
    assert len(set(paper.names.values())) == 10
    (tmp_path / "c.csv").write_text(paper.to_csv(), encoding="utf-8")
    assert Categories.read(tmp_path / "c.csv").names == paper.names


def test_a_map_whose_names_are_formulas_is_written_without_them_and_read_back_equal(
    tmp_path: Path,
) -> None:
    names = {"=1+1": "@SUM(1)", "-x": "+y", "'=1": "'tis", "plain": "a,b"}
    text = Categories(names).to_csv()
    assert all(line.lstrip('"')[0] not in "=+-@" for line in text.splitlines())
    (tmp_path / "c.csv").write_text(text, encoding="utf-8")
    assert Categories.read(tmp_path / "c.csv").names == names


def test_yaml_maps_and_prefixes_of_names(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "mmlu*: Facts\nmmlu_college*: Study\nmmlu:anatomy: Body\n'7': Seven\n"
    )
    found = Categories.read(tmp_path / "c.yaml")
    assert [
        found.of(task)
        for task in ("mmlu_virology", "mmlu_college_physics", "mmlu_anatomy", "7", "arc")
    ] == [
        *("Facts", "Study", "Body", "Seven"),
        None,
    ]


def test_a_comparison_is_grouped_by_a_map_and_notes_unmapped_tasks() -> None:
    tasks = ["a", "a", "b", "c"]
    before, after = (
        snapshot(right, task=tasks) for right in ([True] * 4, [False, True, False, True])
    )
    own = Categories({"a": "X", "b": "X", "zebra": "Y"}, "mine.csv")
    found = compare(before=before, after=after, categories=own)
    assert {name: (group.n, group.forgotten) for name, group in found.by("category").items()} == {
        "X": (3, 2),
        "c": (1, 0),
    }
    assert found.all == compare(before=before, after=after).all
    assert found.notes == (
        "categories: 1 of 3 tasks are not in mine.csv and keep theirs (c)",
        "categories: no task for 1 name in mine.csv (zebra)",
    )


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (
            "c.csv",
            "name,category\na,b\n",
            "needed the columns task and category in its first line, task is not there",
        ),
        ("c.csv", "task,category\na\n", "line 2: needed task,category"),
        ("c.csv", "task,category\na,b,c\n", "line 2: needed task,category"),
        (
            "c.csv",
            "task,category\nmmlu:anatomy,b\nmmlu_anatomy,c\n",
            "line 3: 'mmlu_anatomy' has the category 'b'",
        ),
        ("c.csv", "task,category\n", "there are none"),
        ("c.yaml", "- a\n", "needed lines of 'task: category', got a list"),
        ("c.yaml", "a: [1]\n", "needed text on both sides, got 'a': "),
        ("c.yaml", "a: [", "it is not YAML"),
    ],
)
def test_an_unreadable_map_is_refused_with_the_line(
    name: str, text: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ProbeError, match=why):
        Categories.read(tmp_path / name)
    with pytest.raises(ProbeError, match="no such file"):
        Categories.read(tmp_path / "none.csv")


def test_a_task_and_its_prefix_may_have_different_categories(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("task,category\nmmlu,Whole\nmmlu*,Part\n")
    found = Categories.read(path)
    assert (found.of("mmlu"), found.of("mmlu_anatomy")) == ("Whole", "Part")


LETTERS = [
    {"prompt": f"Stance of text {n}? A. for, B. against. Answer:", "answer": "AB"[n % 2]}
    for n in range(6)
]
REASONS = [
    {"prompt": f"Larger than {n}? A: {n + 1} B: 0", "answer": f"A\nReasons: {n + 1} comes later."}
    for n in range(6)
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
    assert {(item.task, item.category) for item in made.items[len(demo) :]} == {
        ("sums", "sums"),
        ("own", "own"),
    }
    callback = ForgetWatchCallback({"base": "demo", "sums": path})
    assert {item.category for item in callback.probe} == {*(item.category for item in demo), "sums"}


def test_ids_of_several_tasks_in_one_probe_stay_apart() -> None:
    items = [
        Item(id="1", task=task, prompt=f"Q {task}", choices=[" a", " b"], answer=0) for task in "xy"
    ]
    assert [item.id for item in load_tasks({"both": Probe(items)})] == ["x/1", "y/1"]


def test_what_cannot_be_evaluated_together_or_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="needed the folder of a benchmark"):
        load_tasks(tmp_path / "nothing")
    with pytest.raises(
        ProbeError,
        match=r"needed folders of tasks, each with a test\.json, got none that can be read",
    ):
        load_tasks(tmp_path)
    with pytest.raises(ProbeError, match="MeetingBank is not watched"):
        load_tasks(write(tmp_path / "only", {"MeetingBank": SUMMARIES}))
    with pytest.raises(ProbeError, match="needed a probe for each task"):
        load_tasks({})
    with pytest.raises(ProbeError, match="no such file"):
        load_tasks({"a": "nothing.csv"})
    letters = Probe(
        [Item(id="1", task="x", prompt="Q", choices=[" a", " b"], answer=0)], scoring="letters"
    )
    with pytest.raises(ProbeError, match=r"probe: .*needed choices that are scored in one way"):
        load_tasks({"base": "demo", "letters": letters})


def test_a_name_after_an_initial_is_no_letter() -> None:
    rows = [
        {"question": f"Who was president {n}?", "answer": name}
        for n, name in enumerate(["A. Lincoln", "B. Obama"])
    ]
    assert [item.match for item in load_probe(rows)] == ["contains", "contains"]


CHOICE = Item(id="1", task="t", prompt="Q:", choices=(" a", " b"), answer=0)
OPEN = Item(id="2", task="o", prompt="Q2", answer="x", match="exact")


def test_the_second_keeps_its_rendering_and_its_decoding() -> None:
    made = combine(
        Probe([CHOICE], name="a"), Probe([OPEN], name="b", rendering="chat", decoding={"tokens": 7})
    )
    assert (made.name, made.rendering, made.scoring) == ("a+b", "plain", "loglikelihood")
    assert [made.rendering_of(item) for item in made] == ["plain", "chat"]
    assert made.settings["decoding"]["tokens"] == 7
    assert [made.is_generated(item) for item in made] == [False, True]


def test_an_own_rendering_is_part_of_the_fingerprint_and_of_the_file(tmp_path: Path) -> None:
    made = combine(Probe([CHOICE]), Probe([OPEN], rendering="chat"))
    plain = combine(Probe([CHOICE]), Probe([OPEN]))
    assert made.fingerprint != plain.fingerprint
    made.save(tmp_path / "p.jsonl")
    assert read_probe(tmp_path / "p.jsonl").fingerprint == made.fingerprint


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (Probe([CHOICE], scoring="letters"), "scored in one way, got loglikelihood and letters"),
        (Probe([OPEN], decoding={"tokens": 9}), "generated in one way"),
    ],
)
def test_probes_with_conflicting_settings_are_refused(second: Probe, message: str) -> None:
    first = Probe(
        [Item(id="0", task="o", prompt="Q0", answer="y", match="exact")], decoding={"tokens": 7}
    )
    with pytest.raises(ProbeError, match=message):
        combine(first, second)


def test_quick_and_behaviour_combine() -> None:
    made = combine(load_probe("quick"), load_probe("behaviour"))
    assert (len(made), made.name) == (680, "quick+behaviour")
    assert sum(map(made.is_generated, made)) == 180
    assert made.canary
