"""The section of a model card, and the results in its head, as the hub's own library reads them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from commands import Run
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from support import probe, trainer

from forgetwatch import ForgetWatchCallback, Trajectory
from forgetwatch.errors import SnapshotError
from forgetwatch.report import write_card


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Output of a training of TRL with the callback, which writes the card of TRL's own README."""
    folder = tmp_path_factory.mktemp("card") / "tuned"
    watch = ForgetWatchCallback(probe(40, norm="bytes"), every=2, max_overhead=None, drift=False, model_card=True)
    trainer(folder, steps=4, callbacks=[watch], save_strategy="steps", save_steps=2).train()
    return folder


def test_a_training_writes_its_result_into_the_card_of_trl(output: Path) -> None:
    card = ModelCard((output / "README.md").read_text(encoding="utf-8"))
    assert "SFT" in card.text
    assert card.text.count("## What it forgot") == 1
    whole = Trajectory.from_run(output).comparisons[-1].all
    assert f"{whole.forgotten} of 40 forgotten, {whole.gained} gained" in card.text
    found = {result.metric_type: result.metric_value for result in card.data.eval_results}
    assert found["accuracy_after"] == round(whole.accuracy_after, 4)
    assert (found["forgotten"], found["gained"]) == (whole.forgotten, whole.gained)


def test_a_card_holds_no_text_of_a_question(output: Path) -> None:
    text = (output / "README.md").read_text(encoding="utf-8")
    assert not any(item.prompt in text for item in probe(40))


def test_the_command_replaces_the_section_and_keeps_everything_else(output: Path, command: Run, tmp_path: Path) -> None:
    other = EvalResult(
        task_type="text-generation", dataset_type="wikitext", dataset_name="W", metric_type="loss", metric_value=3.0
    )
    path = output / "README.md"
    head = ModelCardData(model_name="mine", license="mit", eval_results=[other])
    path.write_text(f"---\n{head}\n---\nBefore.\n\n<!-- forgetwatch -->\nold\n<!-- end of forgetwatch -->\n\nAfter.\n")
    first = command("report", str(output), "--model-card", "-o", str(tmp_path / "r.html"))
    assert (first.status, first.stdout.splitlines()[-1]) == (0, f"model card: {path}")
    written = path.read_text(encoding="utf-8")
    card = ModelCard(written)
    assert card.text.startswith("Before.\n\n<!-- forgetwatch -->\n## What it forgot")
    assert card.text.endswith("<!-- end of forgetwatch -->\n\nAfter.\n")
    assert (card.data.model_name, card.data.license) == ("mine", "mit")
    assert {result.dataset_type for result in card.data.eval_results} == {"wikitext", "forgetwatch"}
    command("report", str(output), "--model-card", "-o", str(tmp_path / "r.html"))
    assert path.read_text(encoding="utf-8") == written


def test_a_card_is_made_where_there_is_none(output: Path, tmp_path: Path) -> None:
    write_card(tmp_path / "model" / "README.md", Trajectory.from_run(output))
    card = ModelCard((tmp_path / "model" / "README.md").read_text(encoding="utf-8"))
    assert card.data.model_name == "model"
    assert card.text.startswith("<!-- forgetwatch -->")


def test_a_marker_within_a_text_is_no_section(output: Path, tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("Put `<!-- forgetwatch -->` there.\n\n# Usage\n\nkeep me\n")
    write_card(path, Trajectory.from_run(output))
    assert ModelCard(path.read_text()).text.startswith(
        "Put `<!-- forgetwatch -->` there.\n\n# Usage\n\nkeep me\n\n<!--"
    )


def test_a_folder_that_is_no_output_of_a_training_gets_no_card(output: Path, command: Run, tmp_path: Path) -> None:
    shutil.copytree(output / "_forgetwatch", tmp_path / "results")
    done = command("report", str(tmp_path / "results"), "--model-card", "-o", str(tmp_path / "r.html"))
    assert (done.status, (tmp_path / "README.md").exists()) == (1, False)
    assert "--model-card: needed the output_dir of a training or its _forgetwatch, got" in done.stderr


@pytest.mark.parametrize(
    "head", ["model-index:\n- 3", "tags: [a", "model-index:\n- name: a\n  results: []\n- name: b\n  results: []"]
)
def test_a_card_whose_head_cannot_be_read_is_left_as_it_is(output: Path, tmp_path: Path, head: str) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"---\n{head}\n---\ntext\n")
    with pytest.raises(SnapshotError, match=r"README.md: the metadata at its head cannot be read"):
        write_card(path, Trajectory.from_run(output))
    assert path.read_text() == f"---\n{head}\n---\ntext\n"
