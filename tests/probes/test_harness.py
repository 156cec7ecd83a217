"""`probes.harness`: tasks of lm-evaluation-harness as probes, against what the harness itself asks and scores."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from support import model, tokenizer

from forgetwatch import load_probe
from forgetwatch.errors import ProbeError
from forgetwatch.probe import Probe, read_probe
from forgetwatch.probes.harness import _index
from forgetwatch.scoring.encoding import encode
from forgetwatch.scoring.scorer import Scorer

pytest.importorskip("lm_eval")

REAL_MODEL = os.environ.get("FORGETWATCH_REAL_MODEL")


def words(seed: int, count: int) -> str:
    return " ".join(random.Random(seed).choices([f"w{n}" for n in range(40)], k=count))


def options(n: int, k: int = 4) -> list[str]:
    return [words(100 * n + option, 1 + (n + option) % 3) for option in range(k)]


def arc(n: int) -> dict[str, Any]:
    labels = list("ABCD") if n % 2 else list("1234")
    return {
        "id": f"a{n}",
        "question": f"{words(n, 8)}?",
        "choices": {"text": options(n), "label": labels},
        "answerKey": labels[n % 4],
    }


def hellaswag(n: int) -> dict[str, Any]:
    return {
        "activity_label": words(n, 2),
        "ctx_a": words(n, 9),
        "ctx_b": words(n + 50, 4),
        "ctx": f"{words(n, 9)} {words(n + 50, 4)}",
        "endings": options(n),
        "label": str(n % 4),
    }


def mmlu(n: int) -> dict[str, Any]:
    return {
        "question": f"{words(n, 8)}?",
        "subject": "anatomy",
        "choices": options(n),
        "answer": n % 4,
    }


def piqa(n: int) -> dict[str, Any]:
    return {"goal": words(n, 7), "sol1": words(n + 1, 5), "sol2": words(n + 2, 6), "label": n % 2}


def openbookqa(n: int) -> dict[str, Any]:
    return {
        "question_stem": words(n, 6),
        "choices": {"text": options(n), "label": list("ABCD")},
        "answerKey": "ABCD"[n % 4],
    }


def boolq(n: int) -> dict[str, Any]:
    return {"question": words(n, 6), "passage": words(n + 9, 30), "label": n % 2, "idx": n}


def sciq(n: int) -> dict[str, Any]:
    wrong = {f"distractor{which}": words(n + which, 2) for which in (1, 2, 3)}
    return {
        "question": f"{words(n, 8)}?",
        "correct_answer": words(n + 70, 2),
        "support": words(n + 5, 12),
        **wrong,
    }


def copa(n: int) -> dict[str, Any]:
    question = "cause" if n % 2 else "effect"
    return {
        "premise": f"{words(n, 6)}.",
        "choice1": f"The {words(n + 1, 4)}.",
        "choice2": f"The {words(n + 2, 5)}.",
        "question": question,
        "label": n % 2,
        "idx": n,
    }


def siqa(n: int) -> dict[str, Any]:
    names = {"answerA": words(n + 1, 3), "answerB": words(n + 2, 2), "answerC": words(n + 3, 3)}
    return {
        "context": f"{words(n, 9)}.",
        "question": f"{words(n + 20, 5)}?",
        **names,
        "label": str(1 + n % 3),
    }


def truthfulqa(n: int) -> dict[str, Any]:
    return {
        "question": f"{words(n, 7)}?",
        "mc1_targets": {"choices": options(n, 3 + n % 3), "labels": [1, *[0] * (2 + n % 3)]},
        "mc2_targets": {"choices": options(n, 3), "labels": [1, 0, 0]},
    }


def csqa(n: int) -> dict[str, Any]:
    return {
        "question": f"{words(n, 8)}?",
        "choices": {"label": list("ABCDE"), "text": options(n, 5)},
        "answerKey": "ABCDE"[n % 5],
    }


TASKS: dict[str, tuple[Any, str]] = {
    "arc_easy": (arc, "test"),
    "arc_challenge": (arc, "test"),
    "hellaswag": (hellaswag, "validation"),
    "mmlu_anatomy": (mmlu, "test"),
    "piqa": (piqa, "validation"),
    "openbookqa": (openbookqa, "test"),
    "boolq": (boolq, "validation"),
    "sciq": (sciq, "test"),
    "copa": (copa, "validation"),
    "social_iqa": (siqa, "validation"),
    "truthfulqa_mc1": (truthfulqa, "validation"),
    "commonsense_qa": (csqa, "validation"),
}
"""Maker of rows, and the split that the task evaluates."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def write(folder: Path, task: str, count: int = 6) -> Path:
    """Write the splits of a task, in which no row is that of another split."""
    make, split = TASKS[task]
    folder.mkdir(exist_ok=True, parents=True)
    for at, name in enumerate(dict.fromkeys((split, "train", "validation", "test", "dev"))):
        rows = [make(1000 * at + n) for n in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def harness_task(task: str, folder: Path, shots: int | None = None) -> Any:
    """The harness's task over the files of a folder, with its requests built by itself."""
    files = {file.stem: str(file) for file in folder.glob("*.jsonl")}
    spec = {
        "task": task,
        "dataset_path": "json",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": files},
    }
    (made,) = _index().load({"group": "local", "task": [spec]})["tasks"].values()
    if shots is not None:
        made.set_config(key="num_fewshot", value=shots)
    made.set_fewshot_seed(seed=1234)
    made.build_all_requests()
    return made


def by_document(task: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for request in task.instances:
        found.setdefault(str(request.doc_id), []).append(request)
    return found


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("shots", [None, 2])
def test_requests_are_the_harnesss(task: str, shots: int | None, tmp_path: Path) -> None:
    folder = write(tmp_path / "data", task)
    probe = load_probe(f"lm_eval:{task}", data=folder, shots=shots)
    theirs = by_document(harness_task(task, folder, shots))
    assert {item.id for item in probe} == set(theirs) == {str(n) for n in range(6)}
    for item in probe:
        assert [(item.full_prompt, choice) for choice in item.choices] == [
            one.args[:2] for one in theirs[item.id]
        ]
        assert item.task == task


@pytest.mark.parametrize(
    "task",
    [
        task
        if number < 4
        else pytest.param(task, marks=pytest.mark.full(reason="further tasks of the harness"))
        for number, task in enumerate(TASKS)
    ],
)
def test_token_ids_log_likelihoods_and_outcomes_are_the_harnesss(task: str, tmp_path: Path) -> None:
    from lm_eval.models.huggingface import HFLM

    folder = write(tmp_path / "data", task)
    if REAL_MODEL:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        tok, network = (
            AutoTokenizer.from_pretrained(REAL_MODEL),
            AutoModelForCausalLM.from_pretrained(REAL_MODEL),
        )
    else:
        tok = tokenizer()
        network = model(tok)
    lm = HFLM(pretrained=network.eval(), tokenizer=tok, batch_size=4)
    made = harness_task(task, folder)
    probe = load_probe(f"lm_eval:{task}", data=folder)
    theirs = by_document(made)
    answers = dict(
        zip([id(one) for one in made.instances], lm.loglikelihood(made.instances), strict=True)
    )
    encoded = encode(probe, tok, max_length=lm.max_length)
    snapshot = Scorer(probe, tok, network).score(network)
    for row, (item, ours) in enumerate(zip(probe, encoded, strict=True)):
        requests = theirs[item.id]
        pairs = [lm._encode_pair(*request.args) for request in requests]
        assert [(list(ours.context), list(choice)) for choice in ours.choices] == pairs
        results = [answers[id(request)] for request in requests]
        found = snapshot.table["choice_logprobs"][row].as_py()
        assert found == pytest.approx([score for score, _ in results], abs=2e-3)
        doc = requests[0].doc
        assert snapshot.table["correct"][row].as_py() == bool(
            made.process_results(doc, results)["acc"]
        )


@pytest.mark.parametrize("task", ["arc_easy", "hellaswag"])
def test_norm_by_characters_is_acc_norm(task: str, tmp_path: Path) -> None:
    from lm_eval.models.huggingface import HFLM

    tok = tokenizer()
    network = model(tok).eval()
    folder = write(tmp_path / "data", task, count=24)
    made = harness_task(task, folder)
    lm = HFLM(pretrained=network, tokenizer=tok, batch_size=8)
    answers = dict(
        zip([id(one) for one in made.instances], lm.loglikelihood(made.instances), strict=True)
    )
    theirs = {
        doc: made.process_results(requests[0].doc, [answers[id(one)] for one in requests])[
            "acc_norm"
        ]
        for doc, requests in by_document(made).items()
    }
    probe = load_probe(f"lm_eval:{task}", data=folder, norm="chars")
    snapshot = Scorer(probe, tok, network).score(network)
    ours = dict(
        zip(snapshot.texts("item_id").tolist(), snapshot.floats("correct").tolist(), strict=True)
    )
    assert ours == theirs
    assert probe.norm == "chars"


def test_group_interleaves_its_tasks_and_a_limit_keeps_a_fair_sample(tmp_path: Path) -> None:
    for task in ("arc_easy", "arc_challenge"):
        write(tmp_path / "data" / task, task)
    probe = load_probe("lm_eval:ai2_arc", data=tmp_path / "data")
    assert len(probe) == 12
    few = load_probe("lm_eval:ai2_arc", data=tmp_path / "data", limit=4)
    assert [item.task for item in few].count("arc_easy") == 2
    assert [item.id for item in few] == [item.id for item in probe][:4]


def test_tasks_of_a_group_that_are_no_probes_are_left_out_with_a_warning(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write(data / "truthfulqa_mc1", "truthfulqa_mc1")
    write(data / "truthfulqa_mc2", "truthfulqa_mc1")
    (data / "truthfulqa_gen").mkdir()
    row = {
        "question": "w1?",
        "best_answer": "w2",
        "correct_answers": ["w2"],
        "incorrect_answers": ["w3"],
    }
    (data / "truthfulqa_gen" / "validation.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.warns(
        UserWarning, match=r"truthfulqa_mc2 decides by a function of its own; .*: left out"
    ):
        probe = load_probe("lm_eval:truthfulqa", data=data)
    assert {item.task for item in probe} == {"truthfulqa_mc1", "truthfulqa_gen"}


def test_probe_is_saved_and_read_with_its_worked_examples_apart(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "arc_easy")
    probe = load_probe("lm_eval:arc_easy", data=folder, shots=2)
    probe.save(tmp_path / "arc.jsonl")
    again = read_probe(tmp_path / "arc.jsonl")
    assert isinstance(again, Probe)
    assert again.fingerprint == probe.fingerprint
    assert all(
        item.shots.count("Question:") == 2 and item.prompt.count("Question:") == 1 for item in probe
    )


def test_document_without_its_right_option_is_left_out_with_a_warning(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "piqa")
    rows = [json.loads(line) for line in (folder / "validation.jsonl").read_text().splitlines()]
    rows[2]["label"] = -1
    (folder / "validation.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.warns(
        UserWarning, match="1 document of piqa left out: document 2 has the target -1 of 2 options"
    ):
        assert len(load_probe("lm_eval:piqa", data=folder)) == 5


def test_other_tasks_are_refused_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    winogrande = {"sentence": "w1 _ w2", "option1": "w3", "option2": "w4", "answer": "1"}
    for row, task, reason in (
        (winogrande, "winogrande", "varies the question by option"),
        (truthfulqa(1), "truthfulqa_mc2", "decides by a function of its own"),
    ):
        for split in ("train", "test", "validation"):
            (folder / f"{split}.jsonl").write_text(json.dumps(row) + "\n")
        with pytest.raises(ProbeError, match=f"the task {task} {reason}"):
            load_probe(f"lm_eval:{task}", data=folder)


def test_names_and_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ProbeError, match=r"the harness has no task 'arc_esay', did you mean 'arc_easy'"
    ):
        load_probe("lm_eval:arc_esay")
    with pytest.raises(
        ProbeError, match=r"needed JSONL files in .*, one a split such as test\.jsonl"
    ):
        load_probe("lm_eval:arc_easy", data=tmp_path)
    with pytest.raises(
        ProbeError, match="data, norm, shots and metric are for tasks of lm-evaluation-harness"
    ):
        load_probe("quick", norm="chars")
    with pytest.raises(ProbeError, match=r"the harness cannot load it .* data= "):
        load_probe("lm_eval:arc_easy")
