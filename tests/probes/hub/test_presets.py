"""Every preset loads in every form from a folder of the hub's shape, and fails with a remedy without one."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hub_copies import write_copy
from hub_samples import GSM8K, MMLU, TRUTHFUL, row_of

from forgetwatch import Probe, load_probe
from forgetwatch.errors import ProbeError
from forgetwatch.probes.hub import FORMS, PRESETS, Preset, Source

LETTERS = (" A", " B", " C", " D", " E")


def sources_of(preset: Preset) -> tuple[Source, ...]:
    """All sources of a preset, or of one with dozens of parts the first ones."""
    return preset.sources if len(preset.sources) <= 27 and not preset.needs_part else preset.sources[:2]


def copy_of(preset: Preset, root: Path) -> Path:
    """A copy with unlike rows: two and six worked examples, or eight where no split holds examples."""
    tables: dict[str, dict[tuple[str | None, str], list[dict[str, Any]]]] = {}
    for source in sources_of(preset):
        rows = [different(row_of(preset.name, source), number) for number in range(8)]
        splits = tables.setdefault(source.dataset, {})
        splits[source.config, source.split] = rows[:2] if source.examples else rows
        if source.examples:
            splits[source.config, source.examples] = rows[2:]
    for dataset, splits in tables.items():
        write_copy(root, dataset, splits)
    return root


def different(row: dict[str, Any], number: int) -> dict[str, Any]:
    """The row with another question."""
    asks = ("question", "goal", "context", "question_stem", "Question", "sentence", "input", "prompt", "ctx_a")
    name = next(name for name in asks if name in row)
    marked = {name: f"No. {number}: {row[name]}"}
    if "input_formatted" in row:
        marked["input_formatted"] = f"No. {number}: {row['input_formatted']}"
    names = {key: f"{row[key]}-{number}" for key in ("id", "Record ID", "sample_id") if key in row}
    return row | marked | names


def name_of(preset: Preset) -> str:
    return f"{preset.name}:{preset.sources[0].part}" if preset.needs_part else preset.name


def load(preset: Preset, root: Path, form: str = "") -> Probe:
    part = "" if not preset.needs_part and len(preset.sources) <= 27 else f":{preset.sources[0].part}"
    part = "" if preset.name == "mmlu" else part
    return load_probe(f"{preset.name}{part}{form}", root=root)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
@pytest.mark.parametrize("form", FORMS)
def test_every_preset_loads_in_every_form(preset: Preset, form: str, tmp_path: Path) -> None:
    probe = load(preset, copy_of(preset, tmp_path), f":{form}")
    settings = {"scoring": "loglikelihood", "rendering": "plain"} | dict(FORMS[form][1])
    assert (probe.scoring, probe.rendering) == (settings["scoring"], settings["rendering"])
    assert len({(item.task, item.id) for item in probe}) == len(probe) > 1
    assert all(item.prompt for item in probe)
    assert probe.fingerprint == load(preset, tmp_path, f":{form}").fingerprint


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_without_network_the_error_comes_at_once_with_the_remedy(
    preset: Preset, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: tried.append("looked a name up"))
    monkeypatch.setattr(socket.socket, "connect", lambda *_: tried.append("connected"))
    monkeypatch.setattr(time, "sleep", lambda _: tried.append("waited"))
    with pytest.raises(ProbeError) as error:
        load_probe(name_of(preset))
    assert tried == []
    source = preset.sources_of(preset.sources[0].part if preset.needs_part else "")[0]
    assert str(error.value).startswith(source.dataset)
    assert f"split {source.split}" in str(error.value)
    assert "HF_HUB_OFFLINE" in str(error.value)
    assert "root=" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (PermissionError("403 Client Error: gated repo"), "accept its terms at huggingface.co/datasets/cais/mmlu"),
        (ConnectionError("Couldn't reach 'cais/mmlu' on the Hub"), "the hub cannot be reached"),
        (ValueError("BuilderConfig 'all' not found"), "name a revision"),
        (RuntimeError("no space"), "it cannot be loaded (RuntimeError: no space)"),
    ],
)
def test_an_error_of_the_hub_is_raised_with_the_remedy(
    said: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise said

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    with pytest.raises(ProbeError, match="cais/mmlu") as error:
        load_probe("mmlu")
    assert told in str(error.value)


def test_a_missing_copy_and_a_missing_package_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProbeError, match=r"needed the folder .*cais/mmlu, a copy"):
        load_probe("mmlu", root=tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(ProbeError, match=r"needs the package datasets: pip install 'forgetwatch\[train\]'"):
        load_probe("mmlu")


def mmlu(root: Path, rows: Iterable[dict[str, Any]], **examples: Any) -> Path:
    tables = {("all", "test"): list(rows)} | {("all", split): table for split, table in examples.items()}
    return write_copy(root, "cais/mmlu", tables)


def test_every_prefix_of_a_benchmark_is_a_fair_sample_of_its_tasks(tmp_path: Path) -> None:
    sizes = {"anatomy": 40, "virology": 20, "astronomy": 20}
    rows = [
        MMLU | {"subject": subject, "question": f"{subject} {n}"}
        for subject, n in ((subject, n) for subject, size in sizes.items() for n in range(size))
    ]
    probe = load_probe("mmlu", root=mmlu(tmp_path, rows))
    for count in (8, 24, 60):
        beginning = [item.task for item in probe.head(count)]
        for subject, size in sizes.items():
            assert abs(beginning.count(f"mmlu_{subject}") - count * size / 80) <= 1
    assert [i.id for i in load_probe("mmlu", root=tmp_path, limit=8)] == [item.id for item in probe.head(8)]
    shuffled = load_probe("mmlu", root=mmlu(tmp_path / "other", rows[::-1]))
    assert [item.content_hash for item in shuffled] == [item.content_hash for item in probe]


def test_rows_that_are_not_questions_are_left_out_with_a_warning(tmp_path: Path) -> None:
    root = mmlu(tmp_path, [MMLU, MMLU | {"answer": 4}, MMLU | {"answer": -1}, MMLU | {"question": ""}])
    with pytest.warns(UserWarning, match="left out") as told:
        probe = load_probe("mmlu", root=root)
    assert len(probe) == 1
    assert [str(one.message).split(" left out")[0] for one in told] == ["mmlu: 1 row of cais/mmlu all test"] * 3
    with pytest.raises(ProbeError, match="no row is one; the last of its rows: needed 'question', and it is empty"):
        load_probe("mmlu", root=mmlu(tmp_path / "b", [MMLU | {"question": ""}]))


def test_a_row_of_unknown_shape_is_an_error_with_its_columns(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match=r"row 0: not the shape that is known .*'answer'.*it has question, choices"):
        load_probe("mmlu", root=mmlu(tmp_path, [{"question": "q", "choices": ["a", "b"]}]))


def test_the_header_comes_once_before_all_worked_examples(tmp_path: Path) -> None:
    rows = [MMLU | {"question": f"q{n}", "answer": n % 4} for n in range(9)]
    root = mmlu(tmp_path, rows[:2], dev=rows[2:])
    for item in load_probe("mmlu", root=root, shots=5):
        prompt = str(item.full_prompt)
        assert prompt.startswith("The following are multiple choice questions (with answers) about anatomy.\n\nq")
        assert prompt.count("The following") == 1
        assert prompt.count("\nAnswer: ") == 5
        assert prompt.endswith("\nD. cat\nAnswer:")
    zero = load_probe("mmlu", root=root)
    assert all(str(item.prompt).count("Answer:") == 1 for item in zero)


def test_worked_examples_are_the_data_sets_own_steps(tmp_path: Path) -> None:
    rows = [different(GSM8K, n) for n in range(8)]
    root = write_copy(tmp_path, "openai/gsm8k", {("main", "test"): rows[:1], ("main", "train"): rows[1:]})
    (item,) = load_probe("gsm8k", root=root, shots=5)
    assert str(item.full_prompt).count("Answer: It is 2+2=<<2+2=4>>4.\n#### 1,004\n\n") == 5
    assert (item.answer, item.match) == ("1,004", "number")
    (chat,) = load_probe("gsm8k:cot", root=root)
    assert "Answer: N" in str(chat.prompt)


def test_options_are_permuted_by_the_questions_text(tmp_path: Path) -> None:
    rows = [TRUTHFUL | {"question": f"Do fish swim {n} miles?"} for n in range(60)]
    root = write_copy(tmp_path, "truthfulqa/truthful_qa", {("multiple_choice", "validation"): rows})
    probe = load_probe("truthfulqa", root=root)
    assert {item.choices[int(item.answers[0])] for item in probe} == {" They do."}
    assert {int(item.answers[0]) for item in probe} == {0, 1, 2}


def test_single_options_several_right_options_and_options_inside_the_text(tmp_path: Path) -> None:
    root = copy_of(PRESETS["mmlu-pro"], tmp_path)
    write_copy(
        root,
        "TIGER-Lab/MMLU-Pro",
        {(None, "test"): [row_of("mmlu-pro", PRESETS["mmlu-pro"].sources[0]) | {"options": ["a"], "answer_index": 0}]},
    )
    assert [item.k for item in load_probe("mmlu-pro", root=root)] == [1]
    safe = load(PRESETS["salad-mrq"], copy_of(PRESETS["salad-mrq"], tmp_path))
    assert {item.answers for item in safe} == {(0, 2)}
    days = load_probe("bbh:date_understanding", root=copy_of(PRESETS["bbh"], tmp_path))
    assert {item.choices for item in days} == {(" (A)", " (B)", " (C)")}
    written = load_probe("bbh:date_understanding:cot", root=tmp_path)
    assert {item.choices for item in written} == {("Monday", "Moonday", "Sunday")}
    assert "Options" not in str(written[0].prompt)


def test_the_text_of_a_list_is_parsed_and_never_executed(tmp_path: Path) -> None:
    source = PRESETS["musr"].sources[0]
    row = row_of("musr", source)
    good = write_copy(tmp_path / "a", source.dataset, {(None, source.split): [row]})
    assert load_probe("musr:murder_mysteries", root=good)[0].choices == (" Ann", " O'Neil")
    bad = [row | {"choices": "[__import__('os').abort()]"}, row]
    with pytest.warns(UserWarning, match="needed a list of options"):
        load_probe(
            "musr:murder_mysteries", root=write_copy(tmp_path / "b", source.dataset, {(None, source.split): bad})
        )


def test_languages_are_categories_and_can_be_combined(tmp_path: Path) -> None:
    preset = PRESETS["belebele"]
    rows = [different(row_of("belebele", preset.sources[0]), n) for n in range(4)]
    write_copy(tmp_path, "facebook/belebele", {("deu_Latn", "test"): rows, ("fra_Latn", "test"): rows})
    probe = load_probe("belebele:deu_Latn+fra_Latn", root=tmp_path)
    assert sorted(item.category for item in probe) == ["deu_Latn"] * 4 + ["fra_Latn"] * 4
    assert len({item.cluster for item in probe}) == 1
    with pytest.raises(ProbeError, match="needed a part, such as belebele:acm_Arab"):
        load_probe("belebele", root=tmp_path)


def test_gpqas_text_is_marked_as_private(tmp_path: Path) -> None:
    probe = load(PRESETS["gpqa-diamond"], copy_of(PRESETS["gpqa-diamond"], tmp_path))
    assert all(item.tags == ("private",) for item in probe)
    assert {item.choices for item in probe} == {(" (A)", " (B)", " (C)", " (D)")}
    for item in probe:
        gold = "ABCD"[int(item.answers[0])]
        assert f"\n({gold}) gold\n" in str(item.prompt) + "\n"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("mmlu:anatomi", "mmlu:anatomi: no such part or form, did you mean 'anatomy'.; parts: abstract_algebra"),
        ("mmlu:anatomy+", "mmlu:: no such part"),
        ("arc_easy:COT", "it has no parts; forms: scored, letters, cot, base"),
        ("mmlu:anatomy:cot:cot", "needed NAME"),
        ("paper:mmlu", "paper has no parts"),
    ],
)
def test_a_wrong_name_is_refused_with_the_valid_ones(name: str, why: str) -> None:
    with pytest.raises(ProbeError, match=why.replace("+", r"\+")):
        load_probe(name)


@pytest.mark.parametrize("options", [{"limit": 0}, {"shots": -1}])
def test_numbers_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ProbeError, match="must be"):
        load_probe("mmlu", **options)


def test_paper_has_its_benchmarks_in_ten_categories(tmp_path: Path) -> None:
    of_paper = (
        *("mmlu", "bbh", "gpqa-diamond", "musr", "arc-easy", "arc-challenge", "hellaswag", "truthfulqa-mc1", "siqa"),
        *("mctest", "piqa", "csqa", "salad-mrq", "ifeval"),
    )
    for name in of_paper:
        if name != "arc-challenge":
            copy_of(PRESETS[name], tmp_path)
    arc = [row_of("arc-easy", PRESETS["arc-easy"].sources[0])]
    tables = {(config, split): arc for config in ("ARC-Easy", "ARC-Challenge") for split in ("test", "train")}
    write_copy(tmp_path, "allenai/ai2_arc", tables)
    subjects = ("anatomy", "global_facts", "sociology", "econometrics")
    mmlu(tmp_path, [MMLU | {"subject": subject, "question": subject} for subject in subjects])
    probe = load_probe("paper", root=tmp_path)
    assert {item.category for item in probe} == {
        *("Common Sense", "Culture", "Instruction Following", "Knowledge/QA", "Language", "Liberal Arts", "Logic"),
        *("Math", "Safety/Truth", "Science/Tech"),
    }
    written = [item for item in probe if probe.is_generated(item)]
    assert {item.category for item in written} == {"Instruction Following"}
    cot = load_probe("paper:cot", root=tmp_path)
    assert all(map(cot.is_generated, cot))
