"""One comparison has the same numbers wherever it is shown, to the digits shown: read back from each and compared."""

import csv
import html
import io
import json
import math
import re
from typing import Any

import pytest
from pages import choices, clusters, detail_of, plain, printed, run, samples, sure, unfolded
from pages import table as table_of
from support import snapshot

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.document import comparison_json
from forgetwatch.comparing.verdict import estimated_categories, leg_interval
from forgetwatch.policy.policy import load_policy
from forgetwatch.policy.ruling import Sides, apply_policy
from forgetwatch.report.cells import HEADINGS
from forgetwatch.report.comment import policy_comment
from forgetwatch.report.csv_table import comparisons_csv
from forgetwatch.report.eight_lines import first_table
from forgetwatch.report.html import page
from forgetwatch.report.markdown import comparison_markdown
from forgetwatch.report.tracker_rows import tracker_row

MADE = {
    "sure": lambda: (sure().comparison, None),
    "choices": lambda: (choices().comparison, None),
    "samples": lambda: (samples().comparison, None),
    "clusters": lambda: (clusters().comparison, None),
    "run": lambda: (run()[0].comparisons[-1], run()[0]),
}

Numbers = dict[str, dict[str, list[str]]]


@pytest.fixture(params=MADE, scope="module")
def shown(request: pytest.FixtureRequest) -> tuple[Comparison, Any]:
    return MADE[request.param]()


def numbers(text: str) -> list[str]:
    """The numbers in a cell, as they are written, without commas."""
    return re.findall(r"[+-]?\d*\.?\d+|n/a|–", text.replace(",", ""))


def in_json(comparison: Comparison) -> Numbers:
    """Every number that a table of groups shows, from the JSON document, rounded by rules of its own."""
    many = len(estimated_categories(comparison))
    groups = zip(_document(comparison)["groups"], comparison.groups, strict=True)
    return {
        f"{one['level']}:{one['name']}": _rounded(one, leg_interval(group, many))
        for one, group in groups
    }


def _document(comparison: Comparison) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json.dumps(comparison_json(comparison), allow_nan=False))
    return loaded


def _rounded(group: dict[str, Any], interval: tuple[float, float]) -> dict[str, list[str]]:
    if group["level"] != "category":  # those of the categories hold together
        assert interval == pytest.approx(
            group["net_change_estimate_interval"] or group["net_change_interval"]
        )
    return {
        "n": [_count(group["n"])],
        "accuracy_before": [_percent(group["accuracy_before"])],
        "accuracy_after": [_percent(group["accuracy_after"])],
        "forgotten": [_count(group["forgotten"])],
        "gained": [_count(group["gained"])],
        "known_net": [_count(group["known_net"] and round(group["known_net"]))],
        "known_lost_net": _net_of_luck(group),
        "net_change_estimate": [*map(_points, (group["net_change_estimate"], *interval))],
    }


def _net_of_luck(group: dict[str, Any]) -> list[str]:
    lost, by_luck = group["known_lost"], group["known_lost_by_luck"]
    if by_luck is None:
        return ["–"]
    # Luck is rounded and subtracted, so that the three counts add up; few are shown to one decimal.
    digits = 0 if max(lost, by_luck) >= 10 and lost == int(lost) else 1
    shown = (lost - round(by_luck, digits), *group["known_lost_net_interval"])
    return [f"{round(value, digits) + 0.0:.{digits}f}".removesuffix(".0") for value in shown]


def _count(value: float | None) -> str:
    return (
        "–"
        if value is None
        else f"{value:.1f}"
        if abs(value - round(value)) > 1e-9
        else f"{value:.0f}"
    )


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _points(value: float) -> str:
    return f"{100 * value:+.1f}"


def in_page(comparison: Comparison, **options: Any) -> Numbers:
    rows = re.findall(
        r'<tr class="\w+" data-group="([^"]*)">(.*?)</tr>', page(comparison, **options)
    )
    return {
        html.unescape(name): {
            what: numbers(html.unescape(text))
            for what, text in re.findall(r'data-name="(\w+)">([^<]*)<', row)
        }
        for name, row in rows
        if not name.startswith("look:")
    }


def in_markdown(comparison: Comparison, level: Any) -> Numbers:
    found = {}
    for line in comparison_markdown(comparison, by=level).splitlines():
        cells = [cell.strip().replace("\\", "") for cell in line.strip("|").split("|")]
        if len(cells) == 1 + len(HEADINGS) and numbers(cells[1]) and not cells[0].startswith("---"):
            kind = {"all": "all", "scored": "kind", "written": "kind"}.get(cells[0], level)
            name = f"{kind}:{cells[0]}"
            found[name] = dict(zip(HEADINGS, map(numbers, cells[1:]), strict=True))
    return found


def test_the_page_shows_what_the_document_holds(shown: tuple[Comparison, Any]) -> None:
    comparison, trajectory = shown
    in_tables, wanted = in_page(comparison, trajectory=trajectory), in_json(comparison)
    left_out = {name for name in wanted.keys() - in_tables.keys() if name.startswith("task:")}
    rows = [wanted[name] for name in wanted if name.startswith("category:")]
    assert (
        not left_out or [wanted[name] for name in wanted if name in left_out] == rows
    )  # the same by other names
    assert in_tables == {name: row for name, row in wanted.items() if name not in left_out}


@pytest.mark.parametrize("level", ["category", "task"])
def test_markdown_shows_what_the_document_holds(shown: tuple[Comparison, Any], level: str) -> None:
    comparison, _ = shown
    wanted = {
        name: row
        for name, row in in_json(comparison).items()
        if name.split(":")[0] in ("all", "kind", level)
    }
    assert in_markdown(comparison, level) == wanted


def test_the_csv_table_has_every_digit_of_the_document(shown: tuple[Comparison, Any]) -> None:
    comparison, _ = shown
    rows = list(csv.DictReader(io.StringIO(comparisons_csv([comparison]))))
    groups = _document(comparison)["groups"]
    assert len(rows) == len(groups)
    compared = 0
    for row, group in zip(rows, groups, strict=True):
        assert (row.pop("level"), row.pop("name")) == (group["level"], group["name"])
        assert (row.pop("before"), row.pop("after")) == comparison.labels
        for path, text in row.items():
            value = _at(group, path)
            assert text == "" if value is None else float(text) == value
            compared += value is not None
    assert compared > 30 * len(groups)


def _at(group: dict[str, Any], path: str) -> Any:
    end = re.fullmatch(r"(\w+_interval(?:_worst)?)_(low|high)", path)
    if end:
        return None if group[end[1]] is None else group[end[1]][end[2] == "high"]
    value: Any = group
    for part in path.split("."):
        value = None if value is None else value[part]
    return value


def test_the_terminal_shows_the_same_numbers_of_the_whole_and_of_each_category(
    shown: tuple[Comparison, Any],
) -> None:
    comparison, _ = shown
    lines, wanted = printed(detail_of(comparison)).splitlines(), in_json(comparison)
    lines = lines[lines.index("All numbers") :]
    columns = ("n", "forgotten", "gained", "known_net", "known_lost_net", "net_change_estimate")
    for name in ("all:all", *(f"category:{name}" for name in comparison.by("category"))):
        own = name.partition(":")[2]
        line = next(line for line in lines if line.startswith(f"  {own} "))
        assert numbers(line.removeprefix(f"  {own}")) == [
            cell for column in columns for cell in wanted[name][column]
        ]


def test_the_first_table_shows_the_same_numbers(shown: tuple[Comparison, Any]) -> None:
    comparison, _ = shown
    first = first_table(comparison)
    rows, whole = dict(first.rows), in_json(comparison)["all:all"]
    lost, n, won, *sides = numbers(rows["answers"].split("%")[0])
    assert ([lost], [n], [won]) == (whole["forgotten"], whole["n"], whole["gained"])
    assert sides[-1:] == whole["accuracy_after"]
    counted = re.search(r"lost (\S+) of about (\S+) clearly known", first.decision.basis)
    assert (counted is not None) == (
        first.decision.word == "FORGOT" and first.decision.deciding == "knowledge"
    )
    if counted:
        assert ([counted[2]], float(counted[1])) == (
            whole["known_net"],
            max(float(whole["known_lost_net"][0]), 0.0),
        )
    fell = [one.group.name for one in first.found.lost]
    assert not fell or rows["where"].startswith(f"worst: {fell[0]}, ")


def test_trackers_get_the_numbers_of_the_document(shown: tuple[Comparison, Any]) -> None:
    comparison, trajectory = shown
    row = tracker_row(comparison, seconds=1.0, full=True, trajectory=trajectory)
    compared = 0
    for group in _document(comparison)["groups"]:
        name = re.sub(r"\W", "_", group["name"].lower())
        key = {"all": "all", "category": name, "task": f"tasks/{name}"}[group["level"]]
        for what in (
            *(
                "n",
                "forgotten",
                "gained",
                "known",
                "known_lost",
                "known_lost_net",
                "log_score_change",
            ),
            *("accuracy_before", "net_change", "p_value"),
        ):
            named = "items" if what == "n" else what
            assert row.get(f"eval_forget/{key}/{named}") == group[what], (key, what)
            compared += group[what] is not None
        ends = [row[f"eval_forget/{key}/net_change_interval_{end}"] for end in ("low", "high")]
        assert ends == group["net_change_interval"]
    assert compared >= 6 * len(comparison.groups)


def test_the_page_shows_each_look_as_the_document_does() -> None:
    trajectory, _ = run()
    text = page(trajectory.comparisons[-1], trajectory=trajectory)
    rows = re.findall(r'data-group="look:([\d,]+)">(.*?)</tr>', text)
    assert [int(step.replace(",", "")) for step, _ in rows] == list(trajectory.steps[1:])
    for (_, row), comparison in zip(rows, trajectory.comparisons[1:], strict=True):
        cells = {
            what: numbers(html.unescape(cell))
            for what, cell in re.findall(r'data-name="(\w+)">([^<]*)<', row)
        }
        assert cells == in_json(comparison)["all:all"]


def test_the_corrections_are_those_of_the_document() -> None:
    comparison = choices().comparison
    chance = _document(comparison)["groups"][0]["chance"]
    text = page(comparison)
    for name, key in (("paper", "paper"), ("guess-corrected", "guess_corrected")):
        row = re.search(rf'data-correction="{name}">(.*?)</tr>', text)
        assert row is not None
        for what, rate in (("forgotten", "forgetting"), ("gained", "backward_transfer")):
            cell = re.search(rf'data-name="{what}">([^<]*)<', row[1])
            assert cell is not None
            value = chance[key][rate]
            assert not math.isnan(value)
            assert numbers(cell[1])[0] == _percent(min(max(value, 0.0), 1.0))
            assert numbers(cell[1])[0] in plain(comparison_markdown(comparison))


def in_words(comparison: Comparison, trajectory: Any) -> dict[str, str]:
    """Each output as one line of words, without tags and escapes."""
    sides = Sides(before=snapshot([True]), after=snapshot([True]), trajectory=trajectory)
    result = apply_policy(load_policy("fine-tune"), sides, comparison=comparison)
    marked = re.sub(
        r"<(style|script|svg).*?</\1>",
        " ",
        page(comparison, trajectory=trajectory),
        flags=re.DOTALL,
    )
    outputs = {
        "terminal": unfolded(printed(table_of(comparison, trajectory=trajectory, gate=result))),
        "detail": printed(detail_of(comparison, trajectory=trajectory)),
        "page": html.unescape(re.sub(r"<[^>]+>", " ", marked)),
        "markdown": re.sub(
            r"\\([^\w\s])", r"\1", comparison_markdown(comparison, trajectory=trajectory)
        ),
        "comment": re.sub(r"\\([^\w\s])", r"\1", policy_comment(result)),
    }
    return {name: " ".join(text.replace("→", "->").split()) for name, text in outputs.items()}


def test_no_output_contradicts_another(shown: tuple[Comparison, Any]) -> None:
    comparison, trajectory = shown
    document = _document(comparison)
    whole, verdict = document["groups"][0], document["verdict"]
    change, ends = whole["net_change_estimate"], leg_interval(comparison.all, 1)
    for name, text in in_words(comparison, trajectory).items():
        assert name == "detail" or verdict["word"] in text, name
        assert (
            name == "detail"
            or first_table(comparison, trajectory=trajectory).decision.claim in text
        ), name
        for lost, n, won in re.findall(
            r"([\d.]+) of ([\d,]+) lost, ([\d.]+) gained", text.partition("worst: ")[0]
        ):
            assert [lost, n, won] == [_count(whole[one]) for one in ("forgotten", "n", "gained")], (
                name
            )
        for share, lost, known in re.findall(
            r"([\d.]+) % (?:of what it clearly knew is gone|lost) \((\d+) of (\d+)", text
        ):
            assert float(share) == pytest.approx(
                100 * int(lost) / int(known), abs=0.51 + 50 / int(known)
            ), name
        numbers_of_all = re.findall(
            r"(?:true change|net change of all questions) ([+-][\d.]+) points \(?(\S+) to ([+-][\d.]+)",
            text,
        )
        assert all(one == tuple(map(_points, (change, *ends))) for one in numbers_of_all), name
