"""What forgetting goes with over the pairs of a study, and the paper's findings asked of it."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import snapshot
from typer.testing import CliRunner

from forgetwatch import save_snapshot
from forgetwatch.cli import app
from forgetwatch.comparing.paper_means import CategoryMeans, Spread
from forgetwatch.errors import StudyError
from forgetwatch.study.factors import trends
from forgetwatch.study.pairs import RATES, Compared, Study
from forgetwatch.study.plan import read_plan

ROOT = Path(__file__).parents[2]

ITEMS = 400


def written(
    folder: Path, pairs: list[dict[str, Any]], *, kind: str | None = None, category: str = "Math"
) -> Path:
    """A study whose pairs lose and gain given shares of questions with ten options."""
    rng = np.random.default_rng(0)
    lines = [
        "name: made",
        "stages:",
        "  - name: tuning",
        *([f"    kind: {kind}"] if kind else []),
        "    pairs:",
    ]
    for number, pair in enumerate(pairs):
        before = np.arange(ITEMS) % 2 == 0
        lost, gained = (
            rng.random(ITEMS) < pair.pop("lost"),
            rng.random(ITEMS) < pair.pop("gained", 0.0),
        )
        after = np.where(before, ~lost, gained)
        columns = {"k": [10] * ITEMS, "category": [category] * ITEMS}
        for side, correct in (("before", before), ("after", after)):
            save_snapshot(snapshot(correct.tolist(), **columns), folder / f"{side}{number}.parquet")
        lines.append(f"      - name: pair {number}")
        lines += [f"        {name}: {json.dumps(value)}" for name, value in pair.items()]
        lines += [
            f"        before: before{number}.parquet",
            f"        after: after{number}.parquet",
        ]
    path = folder / "study.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def told(path: Path, *options: str) -> tuple[str, dict[str, Any], str]:
    """What the command prints on one line, its JSON, and its page."""
    out = path.parent / "out"
    done = CliRunner().invoke(
        app, ["study", str(path), "-o", str(out), *options], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return (
        " ".join(done.stdout.split()),
        json.loads((out / "study.json").read_text()),
        (out / "study.html").read_text(),
    )


def sized(lost: Any, *, families: int = 5, **more: Any) -> list[dict[str, Any]]:
    sizes = [1e9, 3e9, 1e10, 3e10]
    return [
        {"family": f"f{family}", "size": f"{size:g}", "lost": float(lost(size, family)), **more}
        for family in range(families)
        for size in sizes
    ]


def test_larger_models_that_forget_less_are_told_with_the_interval_over_families(
    tmp_path: Path,
) -> None:
    pairs = sized(lambda size, family: 0.5 - 0.15 * np.log10(size / 1e9) + 0.02 * family)
    text, document, page = told(written(tmp_path, pairs))
    found = next(one for one in document["trends"] if one["rate"] == "forgetting")
    assert (found["covariate"], found["unit"], found["pairs"], found["families"]) == (
        "size",
        "tenfold",
        20,
        5,
    )
    low, high = found["alone"]["interval"]
    # Half of the questions were right; the adjustment for guessing takes a little off.
    assert low < -0.075 * 10 / 9 < high or low < -0.075 < high
    assert high < 0
    assert found["held"] is None
    assert "forgetting falls with size: " in text
    assert "points per tenfold" in text
    assert "20 pairs of 5 families" in text
    assert "What it goes with" in page


def test_ten_pairs_that_cannot_tell_say_so_with_what_they_would_see(tmp_path: Path) -> None:
    pairs = sized(lambda size, family: 0.1 + 0.1 * family, families=3)[:10]
    text, document, _ = told(written(tmp_path, pairs))
    assert "forgetting and size: cannot tell, " in text
    assert "10 pairs of 3 families would show " in text
    assert "points or more in 80 of 100 such studies" in text
    two = [pair for pair in sized(lambda size, family: 0.2, families=1) if pair["size"] != "1e+10"]
    text, document, _ = told(written(tmp_path, two))
    assert "forgetting and size: cannot tell; 3 pairs of one family give no interval" in text
    assert document["trends"][0]["alone"]["interval"] == [None, None]


def test_words_and_numbers_are_covariates_and_are_held_for_each_other(tmp_path: Path) -> None:
    pairs = sized(lambda size, family: 0.2)
    for number, pair in enumerate(pairs):
        method = ("SFT", "DPO", "SFT", "SFT")[(number // 4 + number) % 4]
        pair["covariates"] = {"method": method, "mix": number % 4 + 1}
        pair["lost"] = 0.1 + (0.3 if method == "DPO" else 0.0)
    _, document, _ = told(written(tmp_path, pairs))
    found = {one["covariate"]: one for one in document["trends"] if one["rate"] == "forgetting"}
    assert list(found) == ["size", "method: DPO against SFT", "mix"]
    assert found["mix"]["unit"] == "unit"
    assert found["method: DPO against SFT"]["unit"] == ""
    low, high = found["method: DPO against SFT"]["held"]["interval"]
    assert 0.08 < low < high < 0.2  # of all questions, of which half were right
    assert document["stages"][0]["pairs"][0]["covariates"] == {"method": "SFT", "mix": 1.0}


@pytest.mark.parametrize(
    ("kind", "lost", "gained", "data", "answers"),
    [
        (
            "continual-pretraining",
            0.2,
            0.1,
            None,
            ("supported", "cannot tell here", "cannot tell here", "cannot tell here"),
        ),
        (
            "continual-pretraining",
            0.8,
            0.1,
            None,
            ("contradicted", "cannot tell here", "cannot tell here", "cannot tell here"),
        ),
        (
            "from-base",
            0.1,
            0.3,
            None,
            ("cannot tell here", "supported", "cannot tell here", "cannot tell here"),
        ),
        (
            "from-base",
            0.1,
            0.0,
            None,
            ("cannot tell here", "contradicted", "cannot tell here", "cannot tell here"),
        ),
        (
            "from-instruct",
            0.03,
            0.02,
            "1K",
            ("cannot tell here", "cannot tell here", "supported", "cannot tell here"),
        ),
        (
            "from-instruct",
            0.5,
            0.02,
            "1K",
            ("cannot tell here", "cannot tell here", "contradicted", "cannot tell here"),
        ),
        (
            "from-instruct",
            0.5,
            0.02,
            "1M",
            ("cannot tell here", "cannot tell here", "cannot tell here", "cannot tell here"),
        ),
    ],
)
def test_the_findings_of_the_paper_are_supported_contradicted_or_cannot_be_told(
    tmp_path: Path,
    kind: str,
    lost: float,
    gained: float,
    data: str | None,
    answers: tuple[str, ...],
) -> None:
    more = {} if data is None else {"data": data}
    pairs = [{"family": f"f{at}", "lost": lost, "gained": gained, **more} for at in range(6)]
    text, document, page = told(written(tmp_path, pairs, kind=kind), "--findings")
    assert tuple(one["answer"] for one in document["findings"]) == answers
    for number, answer in enumerate(answers, 1):
        assert f"{number} {answer}: " in text
    assert "The paper's findings, asked of this study" in page


def test_findings_need_to_know_what_a_stage_does(tmp_path: Path) -> None:
    path = written(tmp_path, [{"lost": 0.1}, {"lost": 0.2}])
    done = CliRunner().invoke(app, ["study", str(path), "--findings"])
    assert done.exit_code == 1
    assert (
        "--findings needs what a stage does (kind: continual-pretraining, from-base or from-instruct), or a merge"
        in str(done.exception)
    )
    text, document, page = told(path)
    assert document["trends"] == []
    assert "<h2>What it goes with" not in page
    assert "cannot tell here" not in text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("covariates: {size: 3}", "covariates: size is a key of the pair itself"),
        ("covariates: {mix: [1, 2]}", "needed a number or a word under 'mix'"),
        ("covariates: {mix: inf}", "needed a finite number under 'mix'"),
        ("covariates: {mix: null}", "leave out what is not known"),
        ("covariates: {mix: 30 %}", "such as 0.3 for 30 %"),
        (
            "covariates: {weight_distance: measurd}",
            "weight_distance: needed measured, or a number of at least 0",
        ),
        ("covariates: {weight_distance: -1}", "weight_distance: needed measured"),
        ("train: .", "no such file"),
        ("covariates: 3", "covariates: needed a mapping"),
        ("family: ''", "needed a text under family"),
        ("famly: a", "unknown key 'famly', did you mean 'family'"),
    ],
)
def test_what_is_no_covariate_is_refused_before_anything_is_read(
    tmp_path: Path, line: str, said: str
) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(
        f"stages:\n  - name: s\n    pairs:\n      - name: a\n        before: x\n        after: y\n        {line}\n"
    )
    with pytest.raises(StudyError, match=said):
        read_plan(path)
    path.write_text(
        "stages:\n  - name: s\n    kind: tuning\n    pairs:\n      - {name: a, before: x, after: y}\n"
    )
    with pytest.raises(
        StudyError, match="kind: needed continual-pretraining or from-base or from-instruct"
    ):
        read_plan(path)


def test_a_number_in_one_pair_and_a_word_in_another_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    pairs = "".join(
        f"      - {{name: {name}, before: x, after: y, covariates: {{mix: {mix}}}}}\n"
        for name, mix in (("a", "1"), ("b", "big"))
    )
    path.write_text(f"stages:\n  - name: s\n    pairs:\n{pairs}")
    with pytest.raises(
        StudyError, match="covariate 'mix' is a number in pair 'a' and a word in pair 'b'"
    ):
        read_plan(path)


def test_three_words_are_compared_with_the_most_frequent_one_alone(tmp_path: Path) -> None:
    lost = {"SFT": 0.1, "DPO": 0.6, "GRPO": 0.3}
    methods = ["SFT", "SFT", "DPO", "GRPO"] * 5
    pairs = [
        {"family": f"f{at // 4}", "lost": lost[method], "covariates": {"method": method}}
        for at, method in enumerate(methods)
    ]
    _, document, _ = told(written(tmp_path, pairs))
    found = {
        one["covariate"]: one["alone"]["slope"]
        for one in document["trends"]
        if one["rate"] == "forgetting"
    }
    assert found["method: DPO against SFT"] == pytest.approx(
        0.25, abs=0.04
    )  # half of the questions were right
    assert found["method: GRPO against SFT"] == pytest.approx(0.1, abs=0.04)


def test_what_cannot_be_asked_and_missing_families_are_noted(tmp_path: Path) -> None:
    pairs = [{"lost": 0.2, "size": f"{at + 1}B", "covariates": {"same": 3}} for at in range(4)]
    pairs[0]["covariates"]["once"] = "x"
    text, _, page = told(written(tmp_path, pairs))
    for note in (
        "same: the same in all pairs; not asked",
        "once: only one pair has it; not asked",
        "no pair names its family: pairs of one base count as one, and each other base as its own",
    ):
        assert f"note: {note}" in text
        assert note in page
    table = (tmp_path / "out" / "study.csv").read_text().splitlines()
    assert table[0].startswith(
        "stage,pair,family,kind,size,data,covariate.same,covariate.once,verdict,averages.tasks,"
    )
    assert [line.split(",")[6:8] for line in table[1:]] == [
        ["3.0", "x"],
        ["3.0", ""],
        ["3.0", ""],
        ["3.0", ""],
    ]


def test_a_step_of_a_large_number_is_one_that_can_be_read(tmp_path: Path) -> None:
    pairs = [
        {
            "family": f"f{at % 5}",
            "lost": 0.1 + 0.4 * (at % 4) / 3,
            "covariates": {"rows": 20_000 * (at % 4)},
        }
        for at in range(20)
    ]
    text, document, _ = told(written(tmp_path, pairs))
    assert document["trends"][0]["unit"] == "10,000"
    assert "forgetting rises with rows: +" in text
    assert "points per 10,000" in text


def test_numbers_of_covariates_may_have_letters_and_signs(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    given = "{tokens: 1.5B, shift: -0.5, method: DPO, base: 3b-chat}"
    path.write_text(
        f"stages:\n  - name: s\n    pairs:\n      - {{name: a, before: x, after: y, covariates: {given}}}\n"
    )
    (pair,) = read_plan(path).pairs
    assert pair.covariates == {"tokens": 1.5e9, "shift": -0.5, "method": "DPO", "base": "3b-chat"}
    assert (pair.family, pair.kind) == ("x", None)


def test_the_distance_of_the_weights_is_measured_between_models_and_left_out_of_files(
    tmp_path: Path,
) -> None:
    torch = pytest.importorskip("torch")
    from support import model, probe, tokenizer

    tok, items = tokenizer(), probe(12)
    base = model(tok)
    for name, size in (("base", 0.0), ("near", 0.1), ("far", 0.4)):
        moved = model(tok)
        with torch.no_grad():
            for weight, other in zip(moved.parameters(), base.parameters(), strict=True):
                weight.copy_(other * (1 + size))
        moved.save_pretrained(tmp_path / name)
        tok.save_pretrained(tmp_path / name)
    (tmp_path / "probe.jsonl").write_text(items.to_jsonl())
    path = tmp_path / "study.yaml"
    pairs = "".join(
        f"      - {{name: {name}, before: base, after: {name}, covariates: {{weight_distance: measured}}}}\n"
        for name in ("near", "far")
    )
    path.write_text(f"probe: probe.jsonl\nstages:\n  - name: s\n    pairs:\n{pairs}")
    _, document, _ = told(path)
    found = [one["covariates"]["weight_distance"] for one in document["stages"][0]["pairs"]]
    assert found == pytest.approx([0.1, 0.4], abs=1e-3)
    lost = [{"lost": 0.2, "covariates": {"weight_distance": "measured"}} for _ in range(2)]
    _, document, _ = told(written(tmp_path, lost))
    assert document["stages"][0]["pairs"][0]["covariates"] == {"weight_distance": None}
    assert document["trends"] == []


def test_a_pair_says_which_knowledge_it_lost_and_reads_its_training_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sure = np.linspace(0.3, 0.99, ITEMS)
    columns = {"k": [4] * ITEMS, "gold_share": sure.tolist()}
    save_snapshot(snapshot([True] * ITEMS, **columns), tmp_path / "a.parquet")
    save_snapshot(snapshot((rng.random(ITEMS) < sure).tolist(), **columns), tmp_path / "b.parquet")
    (tmp_path / "rows.jsonl").write_text('{"text": "a row"}\n')
    path = tmp_path / "study.yaml"
    path.write_text(
        "stages:\n  - name: s\n    pairs:\n      - {name: a, before: a.parquet, after: b.parquet, train: rows.jsonl}\n"
    )
    _, document, page = told(path)
    assert (
        document["stages"][0]["pairs"][0]["why"]["answer"]
        == "within categories, it lost the less sure of its right answers"
    )
    assert "Which knowledge was lost" in page
    assert "## Which knowledge was lost" in (tmp_path / "out" / "study.md").read_text()
    path.write_text(path.read_text().replace("rows.jsonl", "gone.jsonl"))
    with pytest.raises(StudyError, match=r"train: .*gone.jsonl: no such file"):
        read_plan(path)


LEVELS = np.array([0.06, 0.06, 0.04, 0.02, 0.09])
"""Forgetting of the stages of the paper: the small models happen to be those that forget much."""


def worlds(effect: float, *, number: int = 60, stage_effect: float = 1.0) -> Iterator[Study]:
    """Studies of the paper's own pairs: an effect of the stage, one of size, and two covariates without an effect."""
    rng, plan = np.random.default_rng(0), read_plan(ROOT / "configs" / "paper.yaml")
    stages = np.array([plan.stages.index(pair.stage) for pair in plan.pairs])
    families = np.unique([pair.family for pair in plan.pairs], return_inverse=True)[1]
    sizes = np.log10([pair.size or math.nan for pair in plan.pairs])
    for _ in range(number):
        results = []
        rates = [
            stage_effect * LEVELS[stages]
            + effect * sizes
            + rng.normal(0, 0.01, families.max() + 1)[families]
            + rng.normal(0, 0.01, len(sizes))
            for _ in RATES
        ]
        for pair, lost, won in zip(plan.pairs, *rates, strict=True):
            both = (Spread(mean=lost, sd=math.nan), Spread(mean=won, sd=math.nan))
            means = CategoryMeans(
                forgetting=both[0],
                backward_transfer=both[1],
                by_category={},
                unclipped=both,
                ceilings=both,
                ceilings_by_category={},
            )
            mixed = replace(
                pair,
                covariates={"mix": rng.normal(5, 1), "method": str(rng.choice(["SFT", "DPO"]))},
            )
            nothing: Any = None  # the trends read the means alone
            results.append(
                Compared(pair=mixed, means=means, comparison=nothing, averages=nothing, causes=None)
            )
        yield Study(plan=plan, results=tuple(results))


@pytest.mark.parametrize("effect", [0.0, -0.02])
def test_the_slope_of_size_is_that_of_the_world_whatever_the_stages_do(effect: float) -> None:
    found = [
        one.alone.slope
        for study in worlds(effect)
        for one in trends(study)
        if one.covariate == "size"
    ]
    assert len(found) == 120
    assert np.mean(found) == pytest.approx(effect, abs=0.001)
    one_stage = [
        replace(
            study,
            results=tuple(
                replace(one, pair=replace(one.pair, stage="all")) for one in study.compared
            ),
        )
        for study in worlds(effect, number=20)
    ]
    confounded = [
        one.alone.slope for study in one_stage for one in trends(study) if one.covariate == "size"
    ]
    assert np.mean(confounded) < effect - 0.01, (
        "without its stages the study takes them for an effect of size"
    )


def test_pairs_of_another_stage_than_most_are_compared_among_themselves(tmp_path: Path) -> None:
    """Most pairs are merges, which have no rate: the slope of the others is that of the study without merges."""
    tuned = [
        {
            "family": f"f{at % 5}",
            "lost": 0.1 + 0.15 * (at // 5),
            "covariates": {"rate": 10.0 ** (at // 5 - 4), "n": at},
        }
        for at in range(20)
    ]
    merged = [{"family": f"f{at % 5}", "lost": 0.1, "gained": 0.02 * at} for at in range(24)]
    (tmp_path / "alone").mkdir()
    _, without, _ = told(written(tmp_path / "alone", [*map(dict, tuned)]))
    path = written(tmp_path, [*map(dict, tuned), *merged])
    head, _, rest = path.read_text().partition("    pairs:\n")
    pairs = rest.split("      - name: ")[1:]
    both = ["".join(f"      - name: {one}" for one in some) for some in (pairs[:20], pairs[20:])]
    path.write_text(f"{head}    pairs:\n{both[0]}  - name: merge\n    pairs:\n{both[1]}")
    _, document, page = told(path)
    found, alone = (
        {one["covariate"]: one for one in all_of["trends"] if one["rate"] == "forgetting"}
        for all_of in (document, without)
    )
    assert set(found) == {"stage: tuning against merge", "rate", "n"}
    assert found["rate"]["alone"]["slope"] == pytest.approx(alone["rate"]["alone"]["slope"])
    assert found["rate"]["held"]["slope"] == pytest.approx(alone["rate"]["held"]["slope"])
    assert found["stage: tuning against merge"]["held"]["slope"] is None  # no merge has the others
    # A covariate that is named as a column of the table is drawn by its own values.
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    across = [axis["column"] for axis in data["axes"] if axis["across"]]
    assert across == ["covariate.rate", "covariate.n", "accuracy_before"]
    assert [row["covariate.n"] for row in data["rows"]][:3] == [0.0, 1.0, 2.0]


def test_covariates_without_an_effect_are_seldom_told_over_all_questions_and_stages_are() -> None:
    told = wrong = 0
    for study in worlds(0.0, stage_effect=3.0):
        found = [
            one for one in trends(study) if " rises with " in str(one) or " falls with " in str(one)
        ]
        wrong += any(not one.covariate.startswith("stage: ") for one in found)
        told += any("much data against instruction tuning" in one.covariate for one in found)
    assert wrong <= 3
    assert told > 50


def test_a_number_that_the_stage_determines_is_not_told(tmp_path: Path) -> None:
    pairs = sized(lambda size, family: 0.1 + 0.1 * (size > 2e9))
    path = written(tmp_path, pairs)
    lines = path.read_text().split("    pairs:\n")
    own = lines[1].split("      - name: ")[1:]
    small, large = (
        "".join(f"      - name: {one}" for one in own if ("1e+09" in one) == is_small)
        for is_small in (True, False)
    )
    path.write_text(
        f"{lines[0]}    pairs:\n{small}  - name: more\n    pairs:\n{large.replace('3e+09', '1e+10')}"
    )
    text, document, _ = told(path)
    by_name = {one["covariate"]: one for one in document["trends"] if one["rate"] == "forgetting"}
    assert set(by_name) == {"stage: tuning against more", "size"}
    assert by_name["stage: tuning against more"]["alone"]["interval_of_all"][1] < 0
    assert "forgetting falls with stage: tuning against more: " in text
