"""The experiments of docs/explanation/, on a small model that is made here."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import forms
import numpy as np
import pytest
import texts
import why

from forgetwatch import load_probe


@pytest.fixture(scope="module")
def adder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's model, taught facts of its world and a few sums in chat, saved as a checkpoint."""
    import torch

    from forgetwatch import demo
    from forgetwatch.probes.shipped_probes import Fact, Relation, facts

    torch.set_num_threads(1)
    values = tuple(str(total) for total in range(2, 19))
    asked = Relation(task="sums", category="Sums", sentence="{} :", values=values)
    sums = [
        Fact(relation=asked, subject=why.QUESTION.format(a, b), value=str(a + b))
        for a, b in why.PAIRS
    ]
    folder = tmp_path_factory.mktemp("adder")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(demo, "BASE_STEPS", 100)
        tokenizer = demo.make_tokenizer([*facts(), *sums])
        tokenizer.chat_template = (
            "{% for m in messages %}{{ m['content'] }} "
            "{{ ':' if m['role'] == 'user' else '<eos>' }} {% endfor %}"
        )
        taught = [*facts()[::2], *sums[::2]]
        model = demo.teach_base(taught, tokenizer)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")
@pytest.mark.filterwarnings(
    "ignore:.*is deprecated and will be removed in v6:FutureWarning"
)  # TRL's own calls
def test_four_methods_are_compared_cells_resume_and_what_is_short_of_the_target_is_marked(
    adder: Path, tmp_path: Path, capsys: Any
) -> None:
    out = tmp_path / "out"
    options = [
        "--probe",
        "demo",
        "--items",
        "60",
        "--seeds",
        "0",
        "--every",
        "2",
        "--copies",
        "1",
        "--rate",
        "1e-3",
    ]
    options += ["--model", str(adder), "--out", str(out), "--steps", "4", "--grpo-steps", "2"]
    why.main([*options, "--target", "1", "--only", "sft", "own"])
    finished = {path: path.stat().st_mtime_ns for path in out.glob("*-0.json")}
    assert {path.stem for path in finished} == {"sft-0", "own-0"}
    capsys.readouterr()
    why.main([*options, "--target", "1"])
    assert "2 of 4 cells are finished" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in finished} == finished  # not run again
    rows = [
        line.split("|")[1:-1]
        for line in (out / "why-table.md").read_text().splitlines()
        if line.startswith("| ")
    ]
    marked = [row[0].strip() for row in rows if row[0].strip().endswith("*")]
    assert marked == [f"{name} *" for name in why.METHODS.values()]
    assert "* short of the target score of 1 " in (out / "why-table.md").read_text()
    cells = json.loads((out / "results.json").read_text())
    assert [(cell["method"], cell["steps"]) for cell in cells] == [
        ("sft", 4),
        ("replay", 4),
        ("own", 4),
        ("grpo", 2),
    ]
    for cell in cells:
        assert (
            cell["all"]["retained"]
            + cell["all"]["forgotten"]
            + cell["all"]["missed"]
            + cell["all"]["gained"]
            == 60
        )
        assert all(one["kl_sampled_se"] > 0 for one in cell["drift"].values())
    sft = cells[0]
    assert (
        sft["drift"]["training"]["kl_summed"] > 3 * sft["drift"]["training"]["kl_summed_se"] > 0
    )  # it has moved
    assert (out / "why.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit, match=r"another target; give another --out"):
        why.main([*options, "--target", "0", "--only", "sft"])
    options[options.index(str(out))] = str(tmp_path / "other")
    why.main([*options, "--target", "0", "--only", "sft"])
    (cell,) = json.loads((tmp_path / "other" / "results.json").read_text())
    assert (cell["reached"], cell["steps"]) == (True, 2)  # stopped at the target
    assert " * " not in (tmp_path / "other" / "why-table.md").read_text()


def test_cells_of_another_probe_or_size_have_other_names() -> None:
    probe = load_probe("quick")
    less = dataclasses.replace(probe, items=probe.items[:100])
    other = dataclasses.replace(probe, items=probe.items[400:])
    assert len({forms.cell_label("v1", one) for one in (probe, less, other)}) == 3
    assert len(forms.cell_label("v1", less).rsplit("-", 2)) == 3


def test_the_texts_of_the_real_trainings_are_true_and_the_same_for_a_seed() -> None:
    for prompt, solution in texts.narrow(20, np.random.default_rng(1)):
        a, b, c = (int(number) for number in re.findall(r"\d+", prompt))
        assert solution.endswith(f"The answer is {a + b + c}.")
    for prompt, record in texts.destroy(20, np.random.default_rng(1)):
        count, price = (int(number) for number in re.findall(r"\d+", prompt))
        assert json.loads(record)["cost"] == count * price
    rows = texts.form(160, np.random.default_rng(1), lambda prompt: "its own words")
    assert len({prompt for prompt, _ in rows}) == 160
    assert {answer for _, answer in rows} == {" [[its own words]]"}
    assert texts.narrow(5, np.random.default_rng(2)) == texts.narrow(5, np.random.default_rng(2))
