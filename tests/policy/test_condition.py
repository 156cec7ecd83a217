"""Gates on the drift of a model and on the history of a run, which no group of items has.

Conditions on what vanished answers bound are undecided; rows that only one side has are named, and not measured.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pages import choices, clusters, samples, sure
from support import holds, snapshot
from typer.testing import CliRunner

from forgetwatch import Trajectory, compare
from forgetwatch.cli import app
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import group_values
from forgetwatch.comparing.trajectory import trajectory_of
from forgetwatch.comparing.verdict import Tolerance
from forgetwatch.errors import GateError
from forgetwatch.measures.base import sentence_of
from forgetwatch.measures.base_drift import DRIFT, Floor, LookDrift
from forgetwatch.measures.quantities import QUANTITIES, range_of, unit_of, value_at
from forgetwatch.policy.condition import Condition, parse_fraction
from forgetwatch.policy.policy import limits_of, parse_policy
from forgetwatch.policy.ruling import Sides, apply_policy
from forgetwatch.snapshot import Snapshot, save_snapshot


@pytest.fixture
def comparison() -> Comparison:
    labels = {"category": ["Math", "Math", "v1.5"], "task": ["Math", "x", "y"], "k": [4, 4, 4]}
    return compare(
        before=snapshot([True, True, False], **labels),
        after=snapshot([False, True, False], **labels),
    )


@pytest.mark.parametrize(
    ("text", "measured"),
    [
        ("forgetting>=0", 1 / 3),
        ("all.forgotten > 0.5", 1),
        ("category:Math.forgetting<1", 0.5),
        ("task:Math.forgotten<=1", 1),
        ("v1.5.missed>0", 1),
        ("chance.paper.forgetting>0", 1 / 3 - (1 / 3) * (2 / 3) / 3),
        ("category:Math.chance.n>1e0", 2),
    ],
)
def test_a_condition_measures_a_quantity_of_a_group(
    comparison: Comparison, text: str, measured: float
) -> None:
    condition = Condition.parse(text)
    assert condition.measure(comparison) == pytest.approx(measured)
    assert holds(condition.text, comparison)


@pytest.mark.parametrize(
    ("op", "expected"), [(">", False), (">=", True), ("<", False), ("<=", True)]
)
def test_each_operator_includes_or_excludes_equality(
    comparison: Comparison, op: str, expected: bool
) -> None:
    assert holds(f"forgotten{op}1", comparison) is expected


@pytest.mark.parametrize(
    "text",
    [
        "forgetting",
        "forgetting>",
        ">0.5",
        "forgetting=0.5",
        "forgetting>much",
        "forgetting>nan",
        "forgetting<inf",
        "",
    ],
)
def test_text_that_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(GateError, match="needed"):
        Condition.parse(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "category:Physics.forgetting>0",
            "no such group; the groups are all, category:Math, category:v1.5",
        ),
        ("category:Math.known_lost>0", "'known_lost' has no number"),
        (
            "Math.forgetting>0",
            "may mean forgetting of category 'Math' or forgetting of task 'Math'",
        ),
    ],
)
def test_an_unknown_or_undefined_quantity_is_an_error_and_never_a_pass(
    comparison: Comparison, text: str, says: str
) -> None:
    with pytest.raises(GateError, match=says):
        holds(text, comparison)


@pytest.mark.parametrize(
    "text", ["speed>0", "all.speed>0", "all.name>0", "all.net_change_interval>0", "chance.paper>0"]
)
def test_an_unknown_quantity_is_refused_before_anything_is_measured(text: str) -> None:
    with pytest.raises(
        GateError, match=r"is not a quantity(; .*lists them, as n, retained|, did you mean)"
    ):
        Condition.parse(text)


def test_a_misspelt_quantity_suggests_the_nearest_one() -> None:
    with pytest.raises(
        GateError, match=r"'forgeting' is not a quantity, did you mean 'forgetting'\?$"
    ):
        Condition.parse("all.forgeting>5%")


def test_every_quantity_that_can_be_named_is_in_the_document(comparison: Comparison) -> None:
    for name in QUANTITIES:
        value: object = group_values(comparison.all)
        # The two ends of an interval are in the document as a list.
        path = re.sub(r"_(low|high)$", "", name) if "_interval" in name else name
        for part in path.split("."):
            value = {} if value is None else value[part]  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("forgetting>5", "forgetting is a share, 0 to 1: the gate would never fail; needed a fraction or a percentage, "
         "as in forgetting>5%, or the count forgotten>5"),
        ("category:Math.forgetting>5", "as in category:Math.forgetting>5%, or the count category:Math.forgotten>5"),
        ("net_change<-2", "net_change is a share, -1 to 1: the gate would never fail; .*net_change<-2%"),
        ("known_lost_net_share>=3", "as in known_lost_net_share>=3%, or the count known_lost_net>=3"),
        ("chance.paper.forgetting>5", "as in chance.paper.forgetting>5%"),
        ("retention<80", "retention is a share, 0 to 1: the gate would always fail; .*retention<80%"),
        ("forgetting>100%", "the gate would never fail; needed a limit inside that range"),
        ("p_value<0", "p_value is a share, 0 to 1: the gate would never fail"),
        ("forgotten<0", "forgotten is a count, at least 0: the gate would never fail"),
        ("log_score_after>0", "log_score_after is in nats, at most 0: the gate would never fail"),
        ("forgetting>-5%", "the gate would always fail; needed a limit inside that range"),
        ("n>-1", "n is a count, at least 0: the gate would always fail"),
        ("net_change<100.5%", "the gate would always fail"),
        ("forgotten>१", "needed .*quantity OP number"),
    ],
)  # fmt: skip
def test_a_limit_that_a_quantity_cannot_reach_is_refused_with_the_remedy(
    text: str, says: str
) -> None:
    with pytest.raises(GateError, match=says):
        Condition.parse(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("forgotten>5%", "forgotten is a count, not a share; needed a number, as in forgotten>5, or the share "
         "forgetting>5%"),
        ("task:a.known_lost_net>2%", "as in task:a.known_lost_net>2, or the share task:a.known_lost_net_share>2%"),
        ("chance.n<20%", r"chance\.n is a count, not a share; needed a number, as in chance\.n<20$"),
        ("log_score_change<-2%", "is in nats, not a share; needed a number, as in .*_change<-0.02$"),
        ("drift.probe.overlap<100%", "is a ratio, not a share"),
    ],
)  # fmt: skip
def test_a_percentage_of_what_is_no_share_is_refused_with_the_remedy(text: str, says: str) -> None:
    with pytest.raises(GateError, match=says):
        Condition.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "known_lost_net>20",
            "known_lost_net<-3",
            "known_lost_net_share>2%",
            "log_score_change<-0.05",
        ),
        *("log_score_change<1", "forgetting>=100%", "net_change<-99%", "chance.n<20"),
    ],
)
def test_a_limit_that_a_quantity_can_reach_is_accepted(text: str) -> None:
    assert Condition.parse(text).text == text


def test_the_net_of_the_known_and_the_log_score_are_measured_in_any_group() -> None:
    made = sure().comparison
    assert holds("known_lost_net>=7", made)
    assert not holds("known_lost_net>7", made)
    assert Condition.parse("known_lost_net_share>10%").measure(made) == pytest.approx(
        7 / (60 - 40 / 3)
    )
    for name in ("known_lost_net", "log_score_change", "margin_change"):
        assert Condition.parse(f"{name}>0").measure(made) == made.all[name]
        measured = Condition.parse(f"category:A.{name}>0").measure(made)
        assert measured == made.by("category")["A"][name] != made.all[name]


def test_every_quantity_is_inside_its_range() -> None:
    made = [sure().comparison, choices().comparison, samples().comparison, clusters().comparison]
    measured = set()
    for group in (group for comparison in made for group in comparison.groups):
        for name in QUANTITIES:
            if (value := value_at(group_values(group), name)) is not None:
                low, high = range_of(name)
                assert low <= value <= high, (group.name, name)
                measured.add(name)
    assert len(measured) > 60


def test_twice_the_items_double_the_counts_and_leave_shares_and_nats() -> None:
    once, twice = (group_values(sure(times).comparison.all) for times in (1, 2))
    # The estimate of the net change weighs margins less, the more items there are.
    precision = ("_se", "p_value", "_low", "_high", "_estimate")
    for name in QUANTITIES:
        if (value := value_at(once, name)) is not None and not name.endswith(precision):
            factor = 2 if unit_of(name) == "count" else 1
            assert value_at(twice, name) == pytest.approx(factor * value, abs=1e-9), name


def test_names_that_look_like_quantities_are_distinguished_or_refused() -> None:
    labels = {"category": ["chance", "Math.chance", "Math", "all"], "k": [4] * 4}
    made = compare(
        before=snapshot([True] * 4, **labels), after=snapshot([False, False, True, True], **labels)
    )
    assert Condition.parse("category:chance.n>0").measure(made) == 1
    assert Condition.parse("category:Math.chance.paper.forgetting>0").measure(made) == 0
    assert Condition.parse("category:Math.chance.forgetting>0").measure(made) == 1
    assert Condition.parse("chance.paper.forgetting>0").measure(made) == pytest.approx(0.5)
    assert Condition.parse("all.n>0").measure(made) == 4
    assert Condition.parse("category:all.n>0").measure(made) == 1
    with pytest.raises(
        GateError, match=r"may mean chance\.n of all 'all' or n of category 'chance'"
    ):
        Condition.parse("chance.n>0").measure(made)


@pytest.mark.parametrize(
    ("text", "value"), [("0.7%", 0.007), ("5%", 0.05), ("-2 %", -0.02), ("1e-3", 0.001), ("3", 3)]
)
def test_a_percentage_is_exactly_its_fraction(text: str, value: float) -> None:
    """0.7 / 100 is less than 0.007: seven items of a thousand would be more than 0.7%."""
    assert parse_fraction(text) == value


@pytest.mark.parametrize(
    "text", ["", "%", "much", "nan", "inf%", "1e999999", "1e99999999999999999999", "1/2"]
)
def test_text_that_is_no_finite_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text or None):
        parse_fraction(text)


def test_a_misspelt_group_gets_the_nearest_name() -> None:
    both = snapshot([True, False], category=["Math", "Law"])
    comparison = compare(before=both, after=both)
    with pytest.raises(
        GateError, match=r"no such group, did you mean 'category:Math'\?; the groups are all, "
    ):
        Condition.parse("category:Mth.forgotten>0").measure(comparison)


MOVED = LookDrift(
    completions=32,
    tokens=1000,
    kl_sampled=0.06,
    kl_sampled_se=0.01,
    overlap=0.8,
    overlap_se=0.02,
    floor=Floor(kl_sampled=1e-7),
)
RUN = ([True, True, True, False], [False, False, True, False], [True, False, True, False])


def run() -> Trajectory:
    return trajectory_of(
        [snapshot(right, meta={"step": step}, k=[4] * 4) for step, right in enumerate(RUN)]
    )


def test_the_drift_of_each_set_can_be_gated() -> None:
    comparison = replace(
        compare(before=snapshot([True]), after=snapshot([True])), drift={"probe": MOVED}
    )
    assert holds("drift.probe.kl_sampled>0.05", comparison)
    assert holds("drift.probe.overlap<0.7", comparison) is False
    assert holds("drift.probe.floor.kl_sampled<1e-6", comparison)
    for text in ("drift.probe.kl_summed>0.1", "drift.training.kl_sampled>0.1"):
        with pytest.raises(
            GateError, match="has no number; needed a drift that was measured after the"
        ):
            Condition.parse(text).measure(comparison)
    with pytest.raises(GateError, match=r"did you mean 'drift\.probe\.kl_sampled'"):
        Condition.parse("drift.probe.kl_sample>0.1")
    with pytest.raises(GateError, match="in nats, at least 0: the gate would always fail"):
        Condition.parse("drift.probe.kl_summed>-1")
    assert comparison[DRIFT] == {"probe": MOVED}


def test_the_history_of_a_run_can_be_gated() -> None:
    trajectory = run()
    last = trajectory.comparisons[-1]
    limits = limits_of(fail_if=["history.ever_forgotten>1"])
    sides = Sides(before=trajectory.baseline, after=trajectory.last, trajectory=trajectory)
    result = apply_policy(limits, sides, comparison=last)
    assert result.line == "gate FAIL: all history.ever_forgotten 2 (fails if >1): beyond the limit"
    assert Condition.parse("history.regained>=1").measure(last, trajectory) == 1
    assert Condition.parse("history.temporal_forgetting>10%").measure(last, trajectory) == 0.25
    with pytest.raises(GateError, match="needed a run with a look after its baseline"):
        apply_policy(limits, replace(sides, trajectory=None), comparison=last)


def test_the_drift_has_a_sentence() -> None:
    assert sentence_of(DRIFT, MOVED) == (
        "texts that it generated at the start are less likely now, by 0.060 nats a token (95 %: 0.040 to 0.080)."
    )
    still = replace(MOVED, kl_sampled=0.001)
    assert sentence_of(DRIFT, still) == (
        "texts that it generated at the start are about as likely as before (KL 0.0010 (-0.019 to 0.021))."
    )
    assert (
        sentence_of(DRIFT, replace(MOVED, kl_sampled=float("inf")))
        == "it rules out texts that it wrote at the start."
    )


def test_to_dict_is_the_json_document() -> None:
    trajectory = run()
    document = trajectory.to_dict(tolerance=Tolerance(accuracy=0.1))
    assert document["schema"] == "forgetwatch/trajectory@2"
    last = trajectory.comparisons[-1].to_dict(tolerance=Tolerance(accuracy=0.1))
    assert document["looks"][-1]["comparison"] == last
    assert last["verdict"]["legs"]["accuracy"]["limit"] == -0.1


N = 800
BEFORE = [at < 640 for at in range(N)]


def sides(vanished: int) -> tuple[Snapshot, Snapshot]:
    after = [None if at < vanished else right for at, right in enumerate(BEFORE)]
    return snapshot(BEFORE), snapshot(after)


@pytest.mark.parametrize(
    "condition",
    [
        "net_change<-2%",
        "net_change_estimate<-2%",
        "forgetting>5%",
        "accuracy_after<50%",
        "forgotten>20",
    ],
)
@pytest.mark.parametrize("vanished", [0, 5, 320])
def test_a_condition_is_open_beyond_one_percent_vanished(
    condition: str, vanished: int, tmp_path: Path
) -> None:
    before, after = sides(vanished)
    if condition.startswith("net"):  # the others are no limits of a policy
        policy = parse_policy(f'critical: ["{condition}"]', "p")
        answer = apply_policy(policy, Sides(before=before, after=after)).answer
        assert answer == ("INCONCLUSIVE" if vanished > 8 else "PASS")
    for name, side in (("b", before), ("a", after)):
        save_snapshot(side, tmp_path / f"{name}.parquet")
    words = [
        "compare",
        str(tmp_path / "b.parquet"),
        str(tmp_path / "a.parquet"),
        "--fail-if",
        condition,
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == (4 if vanished > 8 else 0), done.output
    assert ("without the answers that vanished" in done.output.replace("\n", " ")) == (vanished > 8)


def test_a_condition_on_what_vanished_itself_decides() -> None:
    before, after = sides(320)
    policy = parse_policy('critical: ["newly_unscored>10"]', "p")
    assert apply_policy(policy, Sides(before=before, after=after)).answer == "FAIL"


def test_rows_that_one_side_alone_has_are_said_and_are_not_all_of_a_group(tmp_path: Path) -> None:
    before = snapshot(BEFORE, category=["Math"] * N)
    save_snapshot(before, tmp_path / "b.parquet")
    save_snapshot(before.head(480), tmp_path / "a.parquet")
    (tmp_path / "p.yaml").write_text("required: [category:Math]\ncritical: ['net_change<-2%']")
    words = [
        "gate",
        *(str(tmp_path / f"{name}.parquet") for name in "ba"),
        "--policy",
        str(tmp_path / "p.yaml"),
    ]
    done = CliRunner().invoke(app, [*words, "--on-mismatch", "intersect"])
    assert "320 items that one side alone has are left out" in " ".join(done.stdout.split())
    assert re.search(r"320 items that one side", done.stdout)
    assert done.exit_code == 4
