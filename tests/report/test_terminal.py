import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import compared, plain, printed, sure, unfolded, watched
from pages import run as scored_run_table
from support import snapshot

from forgetwatch import Trajectory, compare
from forgetwatch.comparing import Comparison, Tolerance, estimated
from forgetwatch.measures import KNOWN, net_of_luck
from forgetwatch.report import comparison_detail, comparison_table, note_lines
from forgetwatch.report.terminal import LINES, WORST, run_table
from forgetwatch.run_folder import GuardFinding


def first(comparison: Comparison, **options: Any) -> str:
    return unfolded(printed(comparison_table(comparison, **options)))


def detail(comparison: Comparison, **options: Any) -> str:
    return printed(comparison_detail(comparison, **options))


def made(*, categories: int = 3, shares: bool = True, name: str = "c") -> Comparison:
    rows = 40 * categories
    labels = {"category": [f"{name}{i % categories}" for i in range(rows)], "task": ["t"] * rows, "k": [4] * rows}
    columns = {**labels, "gold_share": [0.9] * rows} if shares else labels
    # category i loses i of every 10 items
    after = [not (j // categories % 10 < min(j % categories, 9)) for j in range(rows)]
    return compared([True] * rows, after, **columns)


def row(comparison: Comparison, label: str, **options: Any) -> str:
    """Text of one line of the first table; empty if there is none."""
    lines = first(comparison, **options).splitlines()
    return next((line.removeprefix(label).strip() for line in lines if line.startswith(f"{label} ")), "")


def test_the_first_table_has_what_a_stranger_needs() -> None:
    lines = first(made(), flips="forgetwatch flips a b").splitlines()
    assert lines[0] == "forgetwatch  snapshot against snapshot  120 items"
    assert (
        lines[1] == "FORGOT        true accuracy, estimated, fell by 10 points (95 %: 4.8 to 16.7; limit 2), most in c2"
    )
    assert lines[2] == "accuracy      100.0 -> 90.0 %: -10.0 points (-16.7 to -4.8), limit -2"
    assert lines[3] == "questions     12 of 120 forgotten, 0 gained"
    assert (
        lines[4]
        == "clearly known 12 of the 120 it was sure of are now wrong; lucky guesses among them are not measured"
    )
    assert lines[5].startswith("worst         c2 -20.0 points (-38.4 to -3.4), limit -5")
    assert lines[6] == "next          forgetwatch flips a b --category c2"
    assert " ".join(lines[7:]) == (
        "note: nothing shows how much of known and lost is luck: the options chosen, or the scores of the options, are "
        "not recorded on both sides"
    )


def scored(*, items: int = 300, tilt: float = 0.0, seed: int = 0) -> Comparison:
    """Options with scores on both sides; `tilt` is taken from the right option after."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(items, 4)) * 2
    scores[:, 0] += 1.5
    sides = []
    for side in (0, 1):
        moved = scores + side * rng.normal(size=scores.shape) * 0.8
        moved[:, 0] -= side * tilt
        shares = np.exp(moved) / np.exp(moved).sum(axis=1, keepdims=True)
        sides.append(
            snapshot(
                (moved.argmax(axis=1) == 0).tolist(),
                k=[4] * items,
                gold=[0] * items,
                chosen=moved.argmax(axis=1),
                gold_share=shares[:, 0],
                choice_logprobs=np.log(shares).tolist(),
            )
        )
    return compare(before=sides[0], after=sides[1], null=sides[0])


def test_the_verdict_is_what_luck_leaves_of_the_known_and_lost() -> None:
    comparison = scored(tilt=2.0)
    text = plain(first(comparison))
    found = re.search(
        r"FORGOT (\d+) % of what it clearly knew is gone \((\d+) of (\d+) without lucky guesses; 95 %: (\d+) to", text
    )
    assert found is not None, text
    share, net, knew, low = map(int, found.groups())
    whole = comparison.all
    assert whole["known_lost_net"] is not None
    assert whole["known_net"] is not None
    assert whole["known_lost_net_share_interval"] is not None
    assert abs(net - whole["known_lost_net"]) <= 0.5
    assert knew == round(whole["known_net"])
    assert share == round(100 * whole["known_lost_net"] / whole["known_net"])
    assert low == round(100 * whole["known_lost_net_share_interval"][0])
    line = row(comparison, "clearly known")
    newly = max(round(whole["newly_known_net"]), 0)
    assert line == f"{net} of {knew} lost, {newly} newly known; lucky guesses are left out"
    assert newly == whole["newly_known"]


def test_the_accuracy_is_the_estimate_where_there_are_scores_and_says_so() -> None:
    comparison = scored(tilt=1.0)
    change, (low, high) = estimated(comparison.all)
    shown = f"; estimated true change {100 * change:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f}), limit -2"
    assert row(comparison, "accuracy").endswith(shown)
    assert "estimate" not in row(made(), "accuracy")
    assert row(comparison, "accuracy", tolerance=Tolerance(accuracy=0.03)).endswith(", limit -3")


def test_what_measuring_alone_changes_is_next_to_the_flips() -> None:
    assert row(scored(tilt=1.0), "questions").endswith("; 0 of 300 change when measured twice")
    noisy = compared([True] * 9, [True] * 8 + [False], null=[True] * 7 + [False] * 2)
    assert row(noisy, "questions") == "1 of 9 forgotten, 0 gained; 2 of 9 change when measured twice"


def test_the_words_of_the_old_table_are_gone() -> None:
    for comparison in (made(), scored(tilt=1.0), scored(), sure(4).comparison):
        shown = first(comparison)
        for word in ("can see", "luck alone", "log score", "drift", "twice: 0", "needs", " q ", "net "):
            assert word not in shown.partition("note: ")[0]


def rows(comparison: Comparison, **options: Any) -> list[list[str]]:
    """Cells of the lines of the detail, by at least two blanks."""
    return [re.split(r"\s{2,}", line.strip()) for line in detail(comparison, **options).splitlines()]


def test_categories_that_do_not_differ_beyond_chance_are_not_ranked() -> None:
    alike = compared([True] * 300, [False] * 9 + [True] * 291, category=["a", "b", "c"] * 100)
    assert row(alike, "categories") == "none of 3 stands out"
    assert "worst" not in first(alike)


def test_a_loss_named_after_kept_is_said_to_be_within_its_limit() -> None:
    shown = first(made(), tolerance=Tolerance(accuracy=0.3, category=0.5))
    assert shown.splitlines()[1].startswith(
        "KEPT          judged by accuracy alone: true accuracy, estimated, fell by at most 16.7 points, 95 % sure; c2"
    )
    assert ", limit -50\n" in shown
    assert "next " not in shown


def test_undecided_names_the_command_that_asks_more_questions() -> None:
    unclear = compared([True] * 60, [False] + [True] * 59)
    assert "NOT CLEAR" in plain(first(unclear))
    assert row(unclear, "next", flips="forgetwatch flips a b") == ""
    assert row(unclear, "next", flips="forgetwatch flips a b", more="forgetwatch compare") == "forgetwatch compare"


def test_knowledge_that_is_not_measured_is_named() -> None:
    kept = first(compared([True] * 300, [True] * 300))
    assert "KEPT judged by accuracy alone: true accuracy" in plain(kept)
    assert row(compared([True] * 300, [True] * 300), "clearly known").startswith("not measured: ")


def test_a_model_is_named_by_its_run_and_never_by_its_class() -> None:
    for model in ("LlamaForCausalLM", "GPT2LMHeadModel", "model"):
        sides = [
            snapshot([True] * 9, meta={"model": model, "step": step, "source": f"out/sft/_forgetwatch/{step}.parquet"})
            for step in (0, 30)
        ]
        title = first(compare(before=sides[0], after=sides[1])).splitlines()[0]
        assert title == "forgetwatch  sft at step 30 against sft at step 0  9 items"


def test_the_first_table_has_at_most_18_lines_of_78_columns() -> None:
    """Whatever its names, counts, notes and alarms are."""
    long = made(categories=30, name="a category with a very long name number ")
    notes = ("a note that is far too long for one line " * 4, "another")
    for title in ("", "a title that is much too long for a line " * 4):
        for comparison in (long, replace(long, notes=notes)):
            lines = printed(comparison_table(comparison, title=title)).splitlines()
            assert len(lines) <= LINES
            assert max(map(len, lines)) <= 78


def test_the_first_table_has_a_few_of_the_categories_and_the_detail_all() -> None:
    many = made(categories=30)
    assert {f"c{number}" for number in range(30)} <= {cells[0] for cells in rows(many)}
    assert len(re.findall(r"c\d+ -", row(many, "worst"))) <= WORST
    assert "worst" not in first(made(categories=1))  # one category is the whole


def test_nothing_changed_is_said() -> None:
    same = snapshot([True] * 30 + [False] * 10, category=["a", "b"] * 20)
    lines = first(compare(before=same, after=same)).splitlines()
    assert lines[1].startswith("NOT CLEAR     true accuracy, estimated, may have fallen by up to ")
    assert "questions     none of 40 changed: 30 right, 10 wrong" in lines


def test_an_undefined_number_is_left_out_of_the_first_table_and_named_in_the_detail() -> None:
    nothing = compared([None], [None])
    assert "1 unscored" in first(nothing)
    assert first(nothing).splitlines()[1] == "NO VERDICT    no item was scored on both sides"
    assert ["all", "0", "–", "–"] in [cells[:4] for cells in rows(nothing)]
    for comparison in (nothing, compared([True], [False])):
        assert "n/a" not in first(comparison)
        assert "nan" not in first(comparison) + detail(comparison)


def test_the_decision_follows_the_tolerance() -> None:
    comparison = made()
    for accuracy, word in ((0.02, "FORGOT "), (0.3, "KEPT "), (0.1, "NOT CLEAR ")):
        text = first(comparison, tolerance=Tolerance(accuracy=accuracy, category=0.5))
        assert text.splitlines()[1].startswith(word)


def test_notes_are_whole_where_there_is_room_and_none_is_left_out_without_a_word() -> None:
    comparison = made()
    assert "note: only one" in first(replace(comparison, notes=("only one",)))
    assert first(replace(comparison, notes=("one", "two"))).endswith("note: one\nnote: two\n")
    long = "that matters " * 8
    shown = first(replace(comparison, notes=(long + "to the end", "two")))
    assert "to the end\nnote: two\n" in shown
    many = first(replace(comparison, notes=("one", "two", "three", "four")))
    assert many.endswith("note: one\nnote: two\n2 more notes: --detail\n")
    assert "* four" in detail(replace(comparison, notes=("one", "two", "three", "four")))
    assert [line.plain for line in note_lines(("one", "two"), 1)] == ["2 notes: --detail"]
    # No note is cut.
    assert [line.plain for line in note_lines(("short", long + "to the end"), 2)] == [
        "note: short",
        "1 more note: --detail",
    ]
    assert "…" not in "".join(line.plain for line in note_lines((long * 3,), 9))


def test_the_worst_category_is_the_first() -> None:
    for shares in (True, False):
        assert row(made(shares=shares), "worst").startswith("c2 -")


def test_every_line_of_the_detail_fits_a_hundred_columns() -> None:
    shown = detail(made(categories=30, name="a category with a very long name number "))
    assert max(map(len, shown.splitlines())) <= 100


def test_the_level_and_the_title_can_be_chosen() -> None:
    tasks = compared([True] * 4, [False] * 4, task=["t", "u"] * 2)
    assert "step 3 of 9" in first(tasks, title="step 3 of 9")
    assert {"t", "u"} <= {cells[0] for cells in rows(tasks, by="task")}
    assert not {"t", "u"} & {cells[0] for cells in rows(tasks, by="all")}


@pytest.mark.parametrize("name", ["[red]", "[/]", "a\\[b"])
def test_a_name_is_text_and_never_markup(name: str) -> None:
    comparison = compared([True] * 40, [False] * 20 + [True] * 20, category=[name] * 20 + ["other"] * 20)
    assert f"worst         {name} -" in first(comparison)
    assert name in detail(comparison)


def test_large_counts_fit_a_hundred_columns() -> None:
    after = [False] * 1018 + [True] * 7982 + [True] * 2487 + [False] * 513
    comparison = compared([True] * 9000 + [False] * 3000, after)
    assert max(map(len, (printed(comparison_table(comparison)) + detail(comparison)).splitlines())) <= 100


def test_each_correction_has_its_interval_and_its_assumption() -> None:
    rng = np.random.default_rng(0)
    sides = [rng.integers(0, 4, 400) for _ in range(2)]
    before, after = (snapshot((chosen == 0).tolist(), k=[4] * 400, chosen=chosen) for chosen in sides)
    comparison = compare(before=before, after=after)
    lines = rows(comparison)
    start = next(number for number, cells in enumerate(lines) if cells[0] == "corrected for guessing")
    named = {cells[0]: cells for cells in lines[start + 1 : start + 20] if len(cells) == 4}
    assert list(named)[:2] == ["paper", "guess-corrected"]
    paper = comparison.all.chance.paper
    assert paper is not None
    low, high = paper.forgetting_interval
    assert named["paper"][1] == f"{100 * paper.forgetting:.1f} ({max(100 * low, 0):.1f} to {100 * high:.1f})"
    assert all(cells[3] for cells in named.values())  # what it assumes


def test_samples_and_clusters_are_named() -> None:
    columns = {"item_id": list("1122"), "content_hash": list("AABB"), "sample": [0, 1, 0, 1], "cluster": ["p"] * 4}
    comparison = compared([True, True, True, False], [False, True, False, False], **columns)
    assert "2 items, 2 samples each, in 1 cluster" in first(comparison)


def test_the_papers_numbers_as_its_code_computes_them() -> None:
    labels = {"task": ["mmlu:anatomy"] * 2 + ["made_up"] * 2, "k": [4] * 4}
    comparison = compare(
        before=snapshot([True] * 4, **labels),
        after=snapshot([True, False, False, False], **labels),
        chance="paper-compat",
    )
    assert ["all", "75.0", "0.0"] in rows(comparison)
    assert ["Missing", "100.0", "0.0"] in rows(comparison)
    assert ["Science/Tech", "50.0", "0.0"] in rows(comparison)


def test_foreign_text_does_not_steer_the_terminal() -> None:
    meta = {"model": "\x1b[2Jmodel", "probe": {"name": "\x1b]0;title\x07"}}
    names = ["\x1b[31mred\u202e"] * 20 + ["b\rc"] * 20
    comparison = compared([True] * 40, [False] * 20 + [True] * 20, meta=meta, category=names)
    for shown in (first(comparison), detail(comparison)):
        assert not set(shown) & set("\x1b\x07\r\u202e")
        assert "⟨U+001B⟩[31mred" in shown


RUN = ([True, True, True, False], [False, False, True, False], [True, False, True, False])


def run(*looks: list[bool], planned: int | None = None, k: int | None = 4) -> Trajectory:
    return watched(*looks, planned=planned, k=[k] * len(looks[0]))


def text(trajectory: Trajectory) -> str:
    return printed(comparison_detail(trajectory.comparisons[-1], trajectory=trajectory))


def looks(trajectory: Trajectory) -> list[list[str]]:
    """Cells of the detail's table of looks."""
    lines = [line.split() for line in text(trajectory).splitlines()]
    start = next(at for at, cells in enumerate(lines) if cells[:2] == ["step", "questions"])
    return lines[start + 1 : start + 1 + next(at for at, cells in enumerate(lines[start:]) if not cells) - 1]


def test_each_look_has_a_line_in_the_detail_and_the_alarms_a_sentence() -> None:
    assert [cells[:4] for cells in looks(run(*RUN))] == [["1", "4", "2", "0"], ["2", "4", "1", "0"]]
    assert max(map(len, text(run(*RUN)).splitlines())) <= 100
    kept, lost = [True] * 100, [False] * 40 + [True] * 60
    shown = plain(text(run(kept, kept, lost, lost, planned=5)))
    assert "All questions, step 2: -40.0 points (40 forgotten, 0 gained, of 100)" in shown
    assert "At the last look a fall of 16.0 points over all questions raises one." in shown


def test_a_long_run_shows_every_nth_look_and_the_last() -> None:
    rng = np.random.default_rng(0)
    found = looks(run(*[(rng.random(20) < 0.5).tolist() for _ in range(104)]))
    steps = [int(cells[0]) for cells in found]
    assert (steps[0], steps[-1]) == (1, 103)
    assert len(steps) == 52


def first_of_run_table(trajectory: Trajectory, **options: Any) -> list[str]:
    return unfolded(printed(run_table(trajectory, **options))).splitlines()


def test_the_first_table_of_a_run_names_the_first_alarm_of_each_group() -> None:
    kept, lost = [True] * 100, [False] * 40 + [True] * 60
    trajectory = run(kept, kept, lost, lost, planned=5)
    lines = first_of_run_table(trajectory, run="out/_forgetwatch")
    assert lines[0].startswith("forgetwatch  out, step 3 against the start ")
    assert lines[1].startswith("FORGOT        true accuracy, estimated, fell by 40 points ")
    assert lines[-2:] == [
        "since         all questions: step 2",
        "next          forgetwatch report out; or forgetwatch flips out",
    ]
    assert max(map(len, lines)) <= 100


def test_trips_of_the_guard_are_counted_in_the_table_and_named_unless_an_alarm_is() -> None:
    trips = (
        GuardFinding("alarm", "all:all", 2, "ALARM"),
        GuardFinding("policy", "category:Math accuracy", 2, "Math, step 2: ..."),
        GuardFinding("must_pass", "q7", 3, "item q7 ..."),
    )
    kept, lost = [True] * 100, [False] * 40 + [True] * 60
    lines = first_of_run_table(replace(run(kept, kept, lost, lost, planned=5), findings=trips))
    assert lines[-1] == "guard         tripped by 1 alarm, category:Math accuracy (step 2), item q7 (step 3)"


def test_a_group_that_recovered_after_its_alarm_is_said_to_have_recovered() -> None:
    kept, lost = [True] * 300, [False] * 40 + [True] * 260
    trajectory = run(kept, lost, kept, planned=5)
    lines = first_of_run_table(trajectory)
    assert lines[1].startswith("KEPT ")
    assert lines[-1] == "since         all questions: step 1 (recovered)"
    assert "at the last look +0.0 points (0 forgotten, 0 gained, of 300): recovered." in plain(text(trajectory))


def test_an_alarm_of_a_fall_within_the_limit_says_so() -> None:
    kept, lost = [True] * 900, [False] * 12 + [True] * 888
    trajectory = run(kept, lost, planned=1)
    assert first_of_run_table(trajectory, tolerance=Tolerance(accuracy=0.1))[-1] == (
        "since         all questions: step 1 (within the limit now)"
    )


def test_a_run_without_alarms_or_flips_says_that_nothing_fell() -> None:
    lines = first_of_run_table(run([True] * 9, [True] * 9))
    assert lines[-1] == "looks         no fall beyond chance at 1 look"


def test_a_baseline_alone_is_one_line() -> None:
    assert first_of_run_table(run([True] * 9)) == ["forgetwatch  no look after the baseline"]


def test_each_look_shows_the_known_and_the_lost_of_them_without_luck() -> None:
    trajectory, _ = scored_run_table(items=600)
    for cells, comparison in zip(looks(trajectory), trajectory.comparisons[1:], strict=True):
        net = net_of_luck(comparison.all[KNOWN])
        assert net is not None
        assert cells[4:6] == [str(round(comparison.all["known_net"])), net.net]


def saved(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text("{}")
    return folder


def next_line(trajectory: Trajectory, folder: Path) -> str:
    lines = [str(getattr(line, "plain", "")) for line in run_table(trajectory, run=folder).renderables]
    return next((line for line in lines if line.startswith("next ")), "")


def test_after_a_loss_the_checkpoint_of_a_clearly_better_look_is_named(tmp_path: Path) -> None:
    better, worse = [True] * 360 + [False] * 40, [True] * 240 + [False] * 160
    trajectory = run([True] * 320 + [False] * 80, better, worse, worse)
    named = next_line(trajectory, saved(tmp_path, "checkpoint-1", "checkpoint-2", "checkpoint-3"))
    rest = f"forgetwatch report {tmp_path}; or forgetwatch flips {tmp_path}"
    assert named == f"next          keep {tmp_path}/checkpoint-1; or {rest}"
    (tmp_path / "checkpoint-1").rename(tmp_path / "kept")
    assert next_line(trajectory, tmp_path) == f"next          {rest}"
