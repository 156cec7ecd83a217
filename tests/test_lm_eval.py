"""The scorer inside lm-evaluation-harness, against the harness's own model class.

A run of lm-evaluation-harness before and after a few training steps, and what its logs say.
"""

import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import WORDS, model, tokenizer

from forgetwatch import compare, load_snapshot
from forgetwatch.errors import ForgetwatchError

TOK = tokenizer()


def engines(network: Any) -> tuple[Any, Any]:
    from lm_eval.models.huggingface import HFLM

    from forgetwatch.lm_eval import ForgetwatchLM

    options = {"pretrained": network, "tokenizer": TOK, "batch_size": 4, "max_length": 24}
    return HFLM(**options), ForgetwatchLM(**options)


def requests(contexts: int) -> list[Any]:
    """Four continuations of each context, some of one token, one of them twice; some contexts too long."""
    from lm_eval.api.instance import Instance

    rng = random.Random(2)
    made = []
    for number in range(contexts):
        context = " ".join(rng.choices(WORDS, k=3 + 4 * (number % 7)))
        choices = [" " + " ".join(rng.choices(WORDS, k=1 + choice)) for choice in range(3)]
        made += [
            Instance("loglikelihood", {}, (context, choice), number)
            for choice in (*choices, choices[0])
        ]
    return made


def test_log_likelihoods_and_greedy_flags_are_the_harnesss() -> None:
    theirs, ours = engines(model(TOK).eval())
    asked = requests(21)
    expected, found = (
        theirs.loglikelihood(asked, disable_tqdm=True),
        ours.loglikelihood(asked, disable_tqdm=True),
    )
    assert [one for one, _ in found] == pytest.approx([one for one, _ in expected], abs=1e-4)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]
    assert ours._layout is None  # shared rows are tested again at every call


def test_continuations_of_greedy_decoding_are_flagged() -> None:
    from lm_eval.api.instance import Instance

    network = model(TOK).eval()
    ids = TOK("w1 w2 w3")["input_ids"]
    with torch.no_grad():
        for _ in range(3):
            ids.append(int(network(torch.tensor([ids])).logits[0, -1].argmax()))
    written = " " + TOK.decode(ids[3:])
    asked = [
        Instance("loglikelihood", {}, ("w1 w2 w3", text), 0) for text in (written, " w9 w9 w9")
    ]
    (_, first), (_, second) = engines(network)[1].loglikelihood(asked, disable_tqdm=True)
    assert (first, second) == (True, False)


def test_rolling_log_likelihoods_are_the_harnesss() -> None:
    from lm_eval.api.instance import Instance

    text = " ".join(random.Random(1).choices(WORDS, k=50))
    asked = [Instance("loglikelihood_rolling", {}, (text,), 0)]
    theirs, ours = engines(model(TOK).eval())
    expected = theirs.loglikelihood_rolling(asked, disable_tqdm=True)
    assert ours.loglikelihood_rolling(asked, disable_tqdm=True) == pytest.approx(expected, abs=1e-3)


def test_a_sharded_model_is_left_to_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    network = model(TOK).eval()
    theirs, ours = engines(network)
    asked = requests(3)
    monkeypatch.setattr("forgetwatch.lm_eval.Engine", None)  # would fail if it were used
    next(network.parameters()).ds_id = 0  # type: ignore[attr-defined]
    assert ours.loglikelihood(asked, disable_tqdm=True) == theirs.loglikelihood(
        asked, disable_tqdm=True
    )


def test_without_the_harness_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval.api.registry", None)
    monkeypatch.delitem(sys.modules, "forgetwatch.lm_eval", raising=False)
    with pytest.raises(ForgetwatchError, match=r"pip install 'forgetwatch\[harness\]'"):
        import forgetwatch.lm_eval  # noqa: F401


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of the harness before and after, and the output folder that its tracker wrote."""
    folder = tmp_path_factory.mktemp("harness")
    network = model(TOK, positions=256).eval()
    runs = {"before": evaluate(network, folder, "before")}
    train(network)
    return {"folder": folder, **runs, "after": evaluate(network, folder, "after")}


def documents(folder: Path) -> dict[str, str]:
    """Files of questions: with three options, with a blank and two options, and open."""
    rng = random.Random(3)

    def words(count: int) -> str:
        return " ".join(rng.choices(WORDS[:60], k=count))

    rows = {
        "choice": [
            {"question": words(4), "options": [words(1 + o) for o in range(3)], "right": n % 3}
            for n in range(40)
        ],
        "blank": [
            {"before": words(3), "options": WORDS[n : n + 2], "end": words(2), "n": n % 2}
            for n in range(20)
        ],
        "open": [{"question": words(4), "answer": WORDS[n % 7]} for n in range(12)],
    }
    rows["choice"].append(rows["choice"][0])  # the same document twice
    paths = {}
    for name, of_task in rows.items():
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in of_task), encoding="utf-8")
        paths[name] = str(path)
    return paths


def tasks(folder: Path) -> list[dict[str, Any]]:
    paths = documents(folder)

    def task(name: str, **settings: Any) -> dict[str, Any]:
        data = {"data_files": {"test": paths[name]}, "cache_dir": str(folder / "cache")}
        return {
            "task": f"toy_{name}",
            "dataset_path": "json",
            "dataset_kwargs": data,
            "test_split": "test",
            **settings,
        }

    accuracy = [
        {"metric": name, "aggregation": "mean", "higher_is_better": True}
        for name in ("acc", "acc_norm")
    ]
    exact = [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}]
    filters = [
        {
            "name": name,
            "filter": [{"function": "regex", "regex_pattern": pattern}, {"function": "take_first"}],
        }
        for name, pattern in (("strict", "^(w\\d+)"), ("any", "(w\\d+)\\s*$"))
    ]
    return [
        task(
            "choice",
            output_type="multiple_choice",
            doc_to_text="Q : {{question}} Answer :",
            doc_to_choice="options",
            doc_to_target="right",
            metric_list=accuracy,
        ),
        task(
            "blank",
            output_type="multiple_choice",
            doc_to_text=lambda doc: doc["n"],
            doc_to_choice=lambda doc: [f"{doc['before']} {option}" for option in doc["options"]],
            doc_to_target=lambda doc: doc["end"],
            metric_list=accuracy[:1],
        ),
        task(
            "open",
            output_type="generate_until",
            doc_to_text="Q : {{question}} Answer :",
            doc_to_target="answer",
            generation_kwargs={"until": ["\n"], "max_gen_toks": 3},
            filter_list=filters,
            metric_list=exact,
        ),
    ]


def evaluate(network: Any, folder: Path, name: str) -> Mapping[str, Any]:
    import lm_eval
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.models.huggingface import HFLM
    from lm_eval.utils import handle_non_serializable

    tracker = EvaluationTracker(output_path=str(folder / "out"))
    found: dict[str, Any] = lm_eval.simple_evaluate(
        model=HFLM(pretrained=network, tokenizer=TOK, batch_size=8, max_length=200),
        tasks=tasks(folder),
        log_samples=True,
        evaluation_tracker=tracker,
        bootstrap_iters=0,
    )
    (folder / f"{name}.json").write_text(
        json.dumps(found, default=handle_non_serializable), encoding="utf-8"
    )
    tracker.general_config_tracker.model_name_sanitized = f"org__{name}"
    samples = found.pop("samples")
    raw = json.loads(json.dumps(samples, default=handle_non_serializable))
    tracker.save_results_aggregated(results=found, samples=samples)
    for task in found["configs"]:
        tracker.save_results_samples(task_name=task, samples=samples[task])
    return raw


def train(network: Any) -> None:
    """Enough steps on one text to change many answers."""
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-2)
    ids = torch.tensor(
        [TOK(" ".join(random.Random(n).choices(WORDS[:60], k=24)))["input_ids"] for n in range(4)]
    )
    network.train()
    for _ in range(8):
        network(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    network.eval()


def counts(logs: Mapping[str, Any], task: str, metric: str, filtered: str = "none") -> list[int]:
    """Rows, forgotten and gained by the harness's own samples, matched by their place."""
    before, after = (
        [row[metric] for row in logs[side][task] if row["filter"] == filtered]
        for side in ("before", "after")
    )
    pairs = list(zip(before, after, strict=True))
    return [len(pairs), pairs.count((1, 0)), pairs.count((0, 1))]


def test_results_as_json_give_the_counts_of_the_harnesss_samples(logs: dict[str, Any]) -> None:
    sides = [logs["folder"] / f"{name}.json" for name in ("before", "after")]
    found = compare(before=sides[0], after=sides[1], metric="acc").by("task")
    for task in ("toy_choice", "toy_blank"):
        group = found[task]
        assert [group.n, group.forgotten, group.gained] == counts(logs, task, "acc")
    group = found["toy_open"]
    assert [group.n, group.forgotten, group.gained] == counts(
        logs, "toy_open", "exact_match", "strict"
    )
    assert sum(group.forgotten + group.gained for group in found.values()) > 5


def test_the_files_that_the_harness_writes_give_the_same_as_its_results(
    logs: dict[str, Any],
) -> None:
    for name in ("before", "after"):
        for metric in ("acc", "acc_norm"):
            results = load_snapshot(logs["folder"] / f"{name}.json", metric=metric)
            files = load_snapshot(logs["folder"] / "out" / f"org__{name}", metric=metric)
            order = np.lexsort([results.texts("item_id"), results.texts("task")])
            again = np.lexsort([files.texts("item_id"), files.texts("task")])
            for column in results.table.column_names:
                assert results.table[column].take(order) == files.table[column].take(again), column
            assert files.meta["num_fewshot"] == {
                f"toy_{task}": 0 for task in ("blank", "choice", "open")
            }


def test_choices_and_gold_are_those_that_the_harness_had(logs: dict[str, Any]) -> None:
    for metric in ("acc", "acc_norm"):
        read = load_snapshot(logs["folder"] / "after.json", metric=metric)
        rows = [(task, row) for task in ("toy_choice", "toy_blank") for row in logs["after"][task]]
        gold = [
            row["doc"]["right"] if task == "toy_choice" else row["doc"]["n"] for task, row in rows
        ]
        choice = read.texts("task") != "toy_open"
        assert read.ints("gold")[choice].tolist() == gold
        chosen = read.ints("chosen")[choice] == read.ints("gold")[choice]
        assert chosen.tolist() == [row.get(metric, row["acc"]) == 1 for _, row in rows]
        assert not any("contradict" in note or "does not follow" in note for note in read.notes)
    assert read.texts("item_id")[:41].tolist() == [str(n) for n in range(41)]


def test_each_filter_can_be_selected(logs: dict[str, Any]) -> None:
    sides = [
        next((logs["folder"] / "out" / f"org__{name}").glob("samples_toy_open*"))
        for name in ("before", "after")
    ]
    for filtered in ("strict", "any"):
        group = compare(before=sides[0], after=sides[1], metric=f"exact_match,{filtered}").all
        assert [group.n, group.forgotten, group.gained] == counts(
            logs, "toy_open", "exact_match", filtered
        )
