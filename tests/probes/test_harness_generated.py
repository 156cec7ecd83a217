"""Generating tasks of lm-evaluation-harness: its filters and metrics judge our outputs, as they judge its own."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import WORDS, model, tokenizer, trained

from forgetwatch import (
    ForgetWatchCallback,
    Item,
    Probe,
    Snapshot,
    Trajectory,
    compare,
    load_probe,
    load_snapshot,
)
from forgetwatch.errors import ProbeError
from forgetwatch.probe import read_probe
from forgetwatch.probes import harness
from forgetwatch.probes.harness import harness_judge
from forgetwatch.scoring import scorer
from forgetwatch.scoring.generation import Generated
from forgetwatch.scoring.scorer import Scorer

pytest.importorskip("lm_eval")

TOK = tokenizer()

OWN = """
task: own_words
dataset_path: own/data
output_type: generate_until
test_split: test
fewshot_split: train
doc_to_text: "Q : {{question}} Answer :"
doc_to_target: "{{answer}}"
num_fewshot: 1
generation_kwargs:
  until: ["w3"]
  max_gen_toks: 6
filter_list:
  - name: "second"
    filter:
      - function: "regex"
        regex_pattern: "^\\\\s*\\\\S+ (\\\\S+)"
      - function: "take_first"
process_results: !function own_words.graded
metric_list:
  - metric: even
    aggregation: mean
    higher_is_better: true
  - metric: length
    aggregation: mean
    higher_is_better: true
"""

GRADED = """
def graded(doc, results):
    word = results[0]
    even = word.startswith("w") and word[1:].isdigit() and (int(word[1:]) + len(doc["question"])) % 2 == 0
    return {"length": len(word) / 10, "even": int(even)}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(harness, "_TASKS", {})


@pytest.fixture
def own_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task with a filter and a metric that the harness does not have, and the folder of its data."""
    from lm_eval.tasks import TaskManager

    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "own_words.yaml").write_text(OWN)
    (folder / "own_words.py").write_text(GRADED)
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    monkeypatch.setattr(harness, "_index", lambda: manager)
    rows = [{"question": " ".join(WORDS[n : n + 1 + n % 4]), "answer": WORDS[n]} for n in range(20)]
    return splits(tmp_path / "data", rows)


def splits(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True)
    for split in ("train", "validation", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def theirs(task: str, folder: Path, network: Any) -> dict[str, dict[str, Any]]:
    """Metrics of each document, generated and judged by the harness alone."""
    from lm_eval.models.huggingface import HFLM

    files = {file.stem: str(file) for file in folder.glob("*.jsonl")}
    spec = {
        "task": task,
        "dataset_path": "json",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": files},
    }
    (made,) = harness._index().load({"group": "local", "task": [spec]})["tasks"].values()
    made.set_fewshot_seed(seed=1234)
    made.build_all_requests()
    lm = HFLM(pretrained=network, tokenizer=TOK, batch_size=1)
    for request, answer in zip(made.instances, lm.generate_until(made.instances), strict=True):
        request.resps.append(answer)
    made.apply_filters()
    return {
        str(request.doc_id): {
            f"{metric},{name}": value
            for name in request.filtered_resps
            for metric, value in made.process_results(
                request.doc, [request.filtered_resps[name]]
            ).items()
        }
        for request in made.instances
    }


def outcomes(snapshot: Snapshot) -> dict[str, float]:
    return dict(
        zip(snapshot.texts("item_id").tolist(), snapshot.floats("correct").tolist(), strict=True)
    )


def test_outcomes_are_those_of_a_filter_and_a_metric_of_the_tasks_own(own_task: Path) -> None:
    network = model(TOK).eval()
    probe = load_probe("lm_eval:own_words", data=own_task)
    found = outcomes(Scorer(probe, TOK, network).score(network))
    expected = {
        doc: metrics["even,second"]
        for doc, metrics in theirs("own_words", own_task, network).items()
    }
    assert found == expected
    assert 0 < sum(expected.values()) < len(expected)
    assert probe.items[0].match == "lm_eval:own_words:even,second"
    assert probe.items[0].shots.count("Answer :") == 1


def test_a_run_needs_no_data_after_its_start(own_task: Path, tmp_path: Path) -> None:
    probe = load_probe("lm_eval:own_words", data=own_task)
    trained(tmp_path / "run", callbacks=[ForgetWatchCallback(probe, every=[3], max_overhead=None)])
    shutil.rmtree(own_task)
    harness._TASKS.clear()
    folder = tmp_path / "run" / "_forgetwatch"
    stored = read_probe(folder / "probe.jsonl")
    assert stored.fingerprint == probe.fingerprint
    network = model(TOK).eval()
    again = Scorer(stored, TOK, network).score(network)
    comparison = compare(before=load_snapshot(folder / "baseline.parquet"), after=again)
    assert comparison.all.n == 20
    assert len(Trajectory.from_run(tmp_path / "run").comparisons) == 3


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("unsafe_code: true", "runs code that a model wrote"),
        ("repeats: 4", "asks each question 4 times"),
    ],
)
def test_tasks_that_cannot_be_judged_by_one_output_are_refused(
    own_task: Path, setting: str, reason: str
) -> None:
    stored = load_probe("lm_eval:own_words", data=own_task).items[0]
    path = own_task.parent / "tasks" / "own_words.yaml"
    path.write_text(f"{path.read_text()}\n{setting}\n")
    with pytest.raises(ProbeError, match=f"the task own_words {reason}"):
        load_probe("lm_eval:own_words", data=own_task)
    with pytest.raises(ProbeError, match=f"lm_eval:own_words {reason}"):
        harness_judge(stored)


def test_the_code_of_a_task_that_only_a_file_names_is_loaded_once_the_user_names_it(
    own_task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = load_probe("lm_eval:own_words", data=own_task).items[0]
    module = own_task.parent / "tasks" / "own_words.py"
    module.write_text(GRADED + f"\nopen({str(module.with_suffix('.ran'))!r}, 'w').close()\n")
    harness._TASKS.clear()
    monkeypatch.setattr(harness, "_NAMED", set())  # as in a new process
    with pytest.raises(
        ProbeError,
        match=r"loads Python code .* only a file names it; set FORGETWATCH_TASKS=own_words",
    ):
        harness_judge(stored)
    assert not module.with_suffix(".ran").exists()
    monkeypatch.setenv("FORGETWATCH_TASKS", "drop,own_words")
    judge = harness_judge(stored)
    assert judge is not None
    assert judge("w1 w2", stored) in (0, 1)


HOSTILE = """
import json, os, sys
from pathlib import Path
seen = []

def watch(event, values):
    if event == "socket.connect" or event == "socket.getaddrinfo":
        seen.append([event, str(values[1:2] or values[:1])])
        raise OSError("no network")
    if event == "exec":
        name = values[0].co_filename
        if "/lm_eval/tasks/" in name and not name.endswith(("__init__.py", "manager.py")) and "/_" not in name:
            seen.append([event, name])

from forgetwatch import ForgetWatchCallback
from forgetwatch.errors import ProbeError
from forgetwatch.probes import harness
harness._index()
sys.addaudithook(watch)
said = {}
for name in sys.argv[1:]:
    row = {"id": "1", "task": name, "prompt": "Q", "answer": "a", "meta": {"doc": {}}}
    row["match"] = f"lm_eval:{name}:m,none"
    Path("probe.jsonl").write_text(json.dumps(row) + "\\n")
    try:
        ForgetWatchCallback("probe.jsonl")
    except ProbeError as error:
        said[name] = str(error)
print(json.dumps([said, seen, os.path.exists("ran")]))
"""

CODE = (
    "mbpp",
    "humaneval_plus",
    "meqsum",
    "mediqa_qa2019",
    "olaph",
    "mts_dialog",
    "ifeval",
    "drop",
    "squadv2",
)


def test_a_probe_file_runs_no_code_and_looks_nothing_up(tmp_path: Path) -> None:
    """A folder of the name of a metric stands where the training is started."""
    (tmp_path / "code_eval").mkdir()
    (tmp_path / "code_eval" / "code_eval.py").write_text("open('ran', 'w').close()\n")
    online = {name: value for name, value in os.environ.items() if "OFFLINE" not in name}
    ran = subprocess.run(
        [sys.executable, "-c", HOSTILE, "humaneval", *CODE, "bbh"],
        cwd=tmp_path,
        env={**online, "HF_HOME": str(tmp_path / "hub")},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    said, seen, has_run = json.loads(ran.stdout.splitlines()[-1])
    assert not has_run
    assert seen == []
    assert "runs code that a model wrote" in said["humaneval"]
    assert "no single task" in said["bbh"]
    assert all("runs code that a model wrote" in said[name] for name in CODE[:2])
    assert all(
        f"only a file names it; set FORGETWATCH_TASKS={name}" in said[name] for name in CODE[2:]
    )


@pytest.mark.parametrize("until", [5, None, ["a", 5], {"a": 1}])
def test_stop_texts_that_are_none_are_refused_with_the_item(until: object) -> None:
    meta = {"doc": {}, "until": until}
    with pytest.raises(ProbeError, match=r"item '1': meta.until must be text or a list of texts"):
        Item(id="1", task="t", prompt="Q", answer="a", match="lm_eval:t:m,none", meta=meta)


class Writes:
    """Writes a text for each prompt in place of a model."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def generate(self, prompts: Any, decoding: Any, **options: Any) -> list[Generated]:
        return [Generated(text, False, ()) for text in self.texts]


GSM8K = [{"question": f" {WORDS[n]} ", "answer": f"{n} and {n} .\n#### {2 * n}"} for n in range(6)]
DROP = [
    {
        "section_id": "s",
        "query_id": f"q{n}",
        "passage": "w1 w2",
        "question": f" {WORDS[n]} ",
        "answer": {
            "number": str(n),
            "date": {"day": "", "month": "", "year": ""},
            "spans": [],
            "worker_id": "",
            "hit_id": "",
        },
        "validated_answers": {"number": [], "date": [], "spans": [], "worker_id": [], "hit_id": []},
    }
    for n in range(6)
]
SOLVED = ["#### 0", "so 2", "#### 4", "2", "#### 8 Question: #### 1", ""]
SPANS = ["0", "so 1", "5", "3", " 4 .", ""]


@pytest.mark.parametrize(
    ("task", "rows", "written", "metric", "decides"),
    [
        ("gsm8k", GSM8K, SOLVED, None, "exact_match,strict-match"),
        ("gsm8k", GSM8K, SOLVED, "exact_match,flexible-extract", "exact_match,flexible-extract"),
        ("drop", DROP, SPANS, None, "em,none"),
    ],
)
def test_every_output_has_the_outcome_that_the_harness_gives_it(
    task: str,
    rows: list[dict[str, Any]],
    written: list[str],
    metric: str | None,
    decides: str,
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    probe = load_probe(
        f"lm_eval:{task}", data=splits(tmp_path / "data", rows), shots=0, metric=metric
    )
    monkeypatch.setattr(scorer, "ModelGenerator", lambda *given, **options: Writes(written))
    probe = replace(
        probe, items=tuple(sorted(probe, key=lambda item: item.id)), decoding={"tokens": 8}
    )
    network = model(TOK).eval()
    found = Scorer(probe, TOK, network).score(network)
    # The harness cuts at its stop texts before anything else.
    (made,) = harness._TASKS.values()
    expected = []
    for text, item in zip(written, probe, strict=True):
        cut = min(
            [text.find(stop) for stop in made.config.generation_kwargs["until"] if stop in text]
            or [len(text)]
        )
        expected.append(harness._judged(made, item.meta["doc"], text[:cut])[decides])
    assert found.floats("correct").tolist() == expected
    assert len(set(expected)) == 2
    assert all(item.match == f"lm_eval:{task}:{decides}" for item in probe)


def test_a_metric_that_is_no_outcome_leaves_the_answer_unscored(tmp_path: Path) -> None:
    probe = load_probe("lm_eval:drop", data=splits(tmp_path / "data", DROP), shots=0, metric="f1")
    (item,) = (one for one in probe if one.id == "5")
    judge = harness_judge(item)
    assert judge is not None
    assert 0 < judge("w1 5", item) < 1
    with pytest.raises(
        ProbeError, match=r"the task drop has no metric 'bleu'; it has em,none, f1,none"
    ):
        load_probe("lm_eval:drop", data=tmp_path / "data", metric="bleu")


def test_the_document_is_part_of_the_question(tmp_path: Path) -> None:
    one, other = (
        Item(
            id="1",
            task="t",
            prompt="Q",
            answer="a",
            match="lm_eval:t:m,none",
            meta={"doc": {"x": x}},
        )
        for x in (1, 2)
    )
    assert one.content_hash != other.content_hash
    bare = Item(id="1", task="t", prompt="Q", answer="a", match="lm_eval:t:m,none")
    network = model(TOK)
    with pytest.raises(ProbeError, match="needs the document under `doc` in its meta"):
        Scorer(Probe([bare]), TOK, network)


def test_a_name_of_the_harness_has_its_prefix(tmp_path: Path) -> None:
    with pytest.raises(
        ProbeError,
        match="a task of lm-evaluation-harness with its prefix, such as lm_eval:arc_easy",
    ):
        load_probe("gsm8k")
    for task, rows in (("gsm8k", [*GSM8K, *GSM8K]), ("drop", DROP)):
        splits(tmp_path / "both" / task, rows)
    several = load_probe("lm_eval:gsm8k,drop", data=tmp_path / "both", shots=0)
    assert {item.task for item in several.items[:2]} == {"gsm8k", "drop"}


def test_without_the_harness_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "find_spec", lambda name: None)
    with pytest.raises(
        ProbeError,
        match=r"such as lm_eval:arc_easy, which needs pip install 'forgetwatch\[harness\]'",
    ):
        load_probe("gsm8k")
