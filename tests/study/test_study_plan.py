"""The file of a study: what it says, and what is refused before any model is scored."""

import re
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from forgetwatch.cli import app
from forgetwatch.errors import StudyError
from forgetwatch.probes.categories import Categories, PaperTasks, paper_category, subjects
from forgetwatch.probes.named import load_probe
from forgetwatch.study.pairs import is_model
from forgetwatch.study.plan import read_plan

PAPER = Path(__file__).parent.parent.parent / "configs" / "paper.yaml"


def written(folder: Path, text: str) -> Path:
    path = folder / "study.yaml"
    path.write_text(text)
    return path


def one_pair(pair: str, top: str = "") -> str:
    return f"{top}\nstages:\n  - name: tuning\n    pairs:\n      - {pair}\n"


def test_a_file_gives_its_stages_pairs_sides_and_settings(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "base.csv").write_text("item_id,correct\na,1\n")
    text = """
probe: standard
decoding: {temperature: 0.6, top_p: 0.95}
stages:
  - name: one
    pairs:
      - name: first
        size: 8B
        data: 1e6
        before: logs/base.csv
        after: [{path: org/model, decoding: {tokens: 9}, rendering: chat}, org/other]
  - name: two
    pairs:
      - {name: second, on_mismatch: intersect, before: ./gone, after: {path: a.parquet, where: {model: x}, set: {k: 4}}}
"""
    plan = read_plan(written(tmp_path, text))
    first, second = plan.pairs
    assert plan.name == "study"
    assert plan.stages == ("one", "two")
    assert (first.size, first.data, first.stage, first.on_mismatch) == (8e9, 1e6, "one", "error")
    assert first.before[0].location == str(tmp_path / "logs" / "base.csv")
    tuned, other = first.after
    assert (tuned.location, tuned.rendering, tuned.probe) == ("org/model", "chat", "standard")
    assert tuned.decoding == {
        "temperature": 0.6,
        "top_p": 0.95,
        "tokens": 9,
    }  # those of a side add to the study's
    assert other.decoding == {"temperature": 0.6, "top_p": 0.95}
    assert second.on_mismatch == "intersect"
    assert second.before[0].location == str(
        tmp_path / "gone"
    )  # a path that is not there, and no model id
    assert second.after[0].columns is not None
    assert second.after[0].columns.where == {"model": "x"}


PAIR = "{name: a, before: b.csv, after: c.csv}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (one_pair(PAIR, "stage: 1"), "unknown key 'stage', did you mean 'stages'"),
        (
            one_pair("{name: a, before: b.csv, aftr: c.csv}"),
            "pair 'a': unknown key 'aftr', did you mean 'after'",
        ),
        (
            one_pair("{name: a, before: {pth: b.csv}, after: c}"),
            "before: unknown key 'pth', did you mean 'path'",
        ),
        (
            one_pair(f"{PAIR}\n      - {PAIR}"),
            "pair 'a': the name is there twice, first in stage 'tuning'",
        ),
        (
            one_pair(PAIR) + "  - {name: more, pairs: [" + PAIR + "]}",
            "stage 'more': pair 'a': the name is there twice",
        ),
        (
            one_pair(PAIR) + "  - {name: tuning, pairs: [" + PAIR + "]}",
            "the stage 'tuning' is there twice",
        ),
        (
            one_pair("{name: a, before: b.csv}"),
            "pair 'a': needed before and after, after is missing",
        ),
        (
            one_pair("{name: a, before: [a, b], after: [a, b, c]}"),
            "pair 'a': 2 seeds before and 3 after",
        ),
        (
            one_pair("{name: a, size: big, before: b, after: c}"),
            "pair 'a': size: needed a number above 0",
        ),
        (
            one_pair("{name: a, size: -3, before: b, after: c}"),
            "pair 'a': size: needed a number above 0",
        ),
        (one_pair("{name: a, size: '1,5B', before: b, after: c}"), "size: needed a number above 0"),
        (
            one_pair("{name: a, size: '1.5.2', before: b, after: c}"),
            "size: needed a number above 0",
        ),
        (one_pair("{name: a, size: B, before: b, after: c}"), "size: needed a number above 0"),
        (one_pair("{name: a, before: %s, after: c}" % ("x" * 5000)), "before: '"),
        (
            one_pair("{name: a, before: %s, after: c}" % ("x" * 5000)),
            "cannot be looked up (File name too long)",
        ),
        (one_pair(PAIR, "probe: " + "x" * 5000), "probe: '"),
        (
            one_pair("{name: a, before: [], after: c}"),
            "pair 'a': before: needed a path or a model id",
        ),
        (one_pair("{before: b, after: c}"), "needed a text under name, got nothing"),
        (
            one_pair(PAIR, "decoding: {temprature: 1}"),
            "unknown setting 'temprature', did you mean 'temperature'",
        ),
        (one_pair(PAIR, "decoding: {top_p: 2}"), "top_p must be a number above 0 and at most 1"),
        (one_pair(PAIR, "on_mismatch: ignore"), "on_mismatch: needed error or intersect"),
        (
            one_pair(PAIR, "allow_prompt_mismatch: perhaps"),
            "allow_prompt_mismatch: needed true or false",
        ),
        (one_pair(PAIR, "chance: paper"), "chance: needed own or paper-compat"),
        (
            one_pair("{name: a, before: {path: b.csv, map: {corect: x}}, after: c}"),
            "unknown column 'corect'",
        ),
        ("stages: []", "needed a list under stages"),
        ("", "needed a mapping"),
        ("stages: [a: [", "it is not YAML"),
    ],
)
def test_a_wrong_file_is_one_sentence_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(StudyError) as caught:
        read_plan(path)
    assert said in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8B", 8e9),
        ("1.5b", 1.5e9),
        ("817", 817),
        ("1,234,567", 1234567),
        ("1,200.5K", 1200500),
        ("2_000", 2000),
    ],
)
def test_sizes_may_have_letters_and_groups_of_three_digits(
    tmp_path: Path, text: str, size: float
) -> None:
    (pair,) = read_plan(
        written(tmp_path, one_pair(f"{{name: a, size: '{text}', before: b, after: c}}"))
    ).pairs
    assert pair.size == size


def test_a_path_next_to_the_file_is_never_taken_for_a_model_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    written(
        tmp_path,
        one_pair("{name: a, before: ./gone, after: [there, ../up, org/model, gone.csv, ./a/b]}"),
    )
    (pair,) = read_plan(Path("study.yaml"), probe="standard").pairs
    sources = (*pair.before, *pair.after)
    assert [source.location for source in sources] == [
        "./gone",
        "there",
        "../up",
        "org/model",
        "./gone.csv",
        "./a/b",
    ]
    assert [is_model(source) for source in sources] == [False, False, False, True, False, False]


def test_a_probe_of_the_command_line_replaces_that_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.jsonl").write_text("{}")
    path = written(
        tmp_path,
        one_pair("{name: a, before: {path: x/y, probe: own}, after: x/z}", "probe: standard"),
    )
    (pair,) = read_plan(path, probe="quick").pairs
    assert (pair.before[0].probe, pair.after[0].probe) == ("own", "quick")
    monkeypatch.chdir(tmp_path / "elsewhere")  # relative to here, and not to the file
    (pair,) = read_plan(path, probe="mine.jsonl").pairs
    assert pair.after[0].probe == str(tmp_path / "elsewhere" / "mine.jsonl")


def test_decoding_may_be_written_as_in_yaml(tmp_path: Path) -> None:
    top = "decoding: {temperature: .6, top_p: 1., samples: 3, thinking: true, stop: ['.5']}"
    (pair,) = read_plan(written(tmp_path, one_pair(PAIR, top))).pairs
    decoding = {"temperature": 0.6, "top_p": 1.0, "samples": 3, "thinking": True, "stop": [".5"]}
    assert pair.before[0].decoding == decoding


def test_the_example_in_the_help_is_a_study(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["study", "--help"]).stdout
    example = textwrap.dedent(
        shown[shown.index(" stages:") : shown.index(" Size, data and covariates")]
    )
    (pair,) = read_plan(written(tmp_path, example)).pairs
    assert (pair.stage, pair.name, pair.size) == ("instruction tuning", "llama 8B", 8e9)
    assert (pair.family, pair.covariates) == ("llama", {"method": "SFT"})
    assert pair.before[0].location == str(tmp_path / "logs" / "base.parquet")


def test_the_papers_study_has_its_pairs_and_the_folders_of_its_script() -> None:
    plan = read_plan(PAPER)
    assert (plan.name, plan.chance, len(plan.pairs)) == ("paper", "paper-compat", 31)
    assert Counter(pair.stage for pair in plan.pairs) == {
        "domain-continual pretraining": 5,
        "instruction tuning": 9,
        "reasoning, trained from base models": 5,
        "reasoning, trained from instruct models, little data": 5,
        "reasoning, trained from instruct models, much data": 7,
    }
    assert len({(pair.before[0].given, pair.after[0].given) for pair in plan.pairs}) == 31
    assert all(pair.allow_prompt_mismatch for pair in plan.pairs)
    # Each side is a folder that the script makes, one for a base and one for each seed of a tuned model.
    script = PAPER.with_suffix(".sh").read_text()
    made = {
        (kind, model): tokens
        for kind, model, tokens in re.findall(r"^(base|tuned) (\S+) (\d+)$", script, re.M)
    }
    sides = {
        source.given for pair in plan.pairs for side in (pair.before, pair.after) for source in side
    }
    folders = {f"../logs/base/{model}" for kind, model in made if kind == "base"}
    folders |= {
        f"../logs/tuned/{model}/seed-{seed}"
        for kind, model in made
        if kind == "tuned"
        for seed in range(3)
    }
    assert sides == folders
    assert {tokens for (_, model), tokens in made.items() if "Qwen2.5-Math-7B" in model} == {"4096"}
    names = Categories.read(PAPER.with_suffix(".csv"))
    for name in subjects():  # the harness has another name for them
        assert names.of(f"mmlu_flan_cot_fewshot_{name}") == paper_category(f"mmlu_{name}") != ""
    assert (
        len({row[0] for row in PaperTasks.released().rows.values() if row[0]}) == 10
    )  # its categories


def test_every_probe_that_a_config_names_can_be_loaded() -> None:
    named = {
        (path.name, probe)
        for path in sorted(PAPER.parent.glob("*.yaml"))
        for probe in re.findall(r"^\s*(?:- )?probe: *\"?([^\s\"#]+)", path.read_text(), re.M)
    }
    assert len(named) >= 4
    for path, probe in named:
        assert len(load_probe(probe)), path
