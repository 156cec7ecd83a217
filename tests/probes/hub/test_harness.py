"""Prompts and choices equal those of lm-evaluation-harness, whose task files render the same rows here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hub_copies import write_copy
from hub_samples import row_of

from forgetwatch import load_probe
from forgetwatch.probes.hub import PRESETS

lm_eval = pytest.importorskip("lm_eval")

TASKS = {
    "mmlu:anatomy": "mmlu/default/mmlu_anatomy.yaml",
    "mmlu-pro": "leaderboard/mmlu_pro/mmlu_pro.yaml",
    "arc-easy": "arc/arc_easy.yaml",
    "arc-challenge": "arc/arc_challenge.yaml",
    "hellaswag": "hellaswag/hellaswag.yaml",
    "piqa": "piqa/piqa.yaml",
    "siqa": "siqa/siqa.yaml",
    "csqa": "commonsense_qa/default.yaml",
    "truthfulqa-mc1": "truthfulqa/truthfulqa_mc1.yaml",
    "gsm8k": "gsm8k/gsm8k.yaml",
    "musr:murder_mysteries": "leaderboard/musr/musr_murder_mysteries.yaml",
    "belebele:deu_Latn": "belebele/belebele_deu_Latn.yaml",
    "global-mmlu:de": "global_mmlu/full/de/global_mmlu_full_de_anatomy.yaml",
    "bbh:navigate": "leaderboard/bbh_mc/navigate.yaml",
    "bbh:boolean_expressions": "leaderboard/bbh_mc/boolean_expressions.yaml",
    "bbh:object_counting": "leaderboard/bbh_mc/object_counting.yaml",
    "bbh:formal_fallacies": "leaderboard/bbh_mc/formal_fallacies.yaml",
    "bbh:disambiguation_qa": "leaderboard/bbh_mc/disambiguation_qa.yaml",
}
"""Presets, and the file of the harness that defines the same task."""


def harness(path: str, root: Path, dataset: str) -> tuple[Any, Any]:
    """A task of the harness over a local copy, and its first question."""
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks._yaml_loader import load_yaml

    config = load_yaml(Path(lm_eval.__file__).parent / "tasks" / path)
    config = {key: value for key, value in config.items() if key not in ("task_alias", "tag", "group")}
    config |= {"dataset_path": str(root / dataset), "num_fewshot": 0}
    task = ConfigurableTask(config=config)
    return task, next(iter(task.eval_docs))


@pytest.mark.parametrize("name", TASKS)
def test_prompt_and_choices_equal_the_harness(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    preset = PRESETS[name.split(":")[0]]
    (source,) = preset.sources_of(name.partition(":")[2])
    row = row_of(preset.name, source)
    splits = {split: [row] for split in (source.split, "train", "validation", "dev", "test")}
    write_copy(tmp_path, source.dataset, {(source.config, split): rows for split, rows in splits.items()})
    (item,) = load_probe(name, root=tmp_path)
    task, doc = harness(TASKS[name], tmp_path, source.dataset)
    described = "bbh" not in name  # its line of description is left out
    expected = task.fewshot_context(doc, 0) if described else task.doc_to_text(doc)
    if "truthfulqa" in name:  # six worked examples stay with the benchmark
        expected = expected.split("\n\n")[-1]
    assert item.prompt == expected
    if item.choices:
        delimiter = task.config.target_delimiter
        choices = [f"{delimiter}{choice}" for choice in task.doc_to_choice(doc)]
        assert sorted(item.choices) == sorted(choices)
        target = task.doc_to_target(doc)
        gold = choices[target] if isinstance(target, int) else f"{delimiter}{target}"
        assert item.choices[int(item.answers[0])] == gold


def test_gpqa_rendering_equals_the_harness(tmp_path: Path) -> None:
    """Its order is random there, so that the harness is given ours."""
    from lm_eval.tasks._yaml_loader import load_yaml
    from lm_eval.utils import apply_template

    source = PRESETS["gpqa-diamond"].sources[0]
    row = row_of("gpqa-diamond", source)
    write_copy(tmp_path, source.dataset, {(source.config, "train"): [row]})
    (item,) = load_probe("gpqa-diamond", root=tmp_path)
    (written,) = load_probe("gpqa-diamond:cot", root=tmp_path)
    path = Path(lm_eval.__file__).parent / "tasks" / "gpqa" / "zeroshot" / "gpqa_diamond_zeroshot.yaml"
    config = load_yaml(path, resolve_func=False)
    doc = row | {f"choice{n}": option for n, option in enumerate(written.choices, start=1)}
    assert item.prompt == apply_template(config["doc_to_text"], doc)
    assert item.choices == tuple(f" {choice}" for choice in config["doc_to_choice"])
