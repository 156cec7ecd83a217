"""Several models as text: the same numbers in the terminal, in Markdown, on the page and in JSON."""

import json
import re

import pytest
from pages import compared, printed, ranked
from rich.cells import cell_len
from support import snapshot

from forgetwatch.comparing.document import comparisons_json
from forgetwatch.comparing.ranking import ModelComparison, Target
from forgetwatch.report.html import page
from forgetwatch.report.several_models import (
    MODELS,
    several_detail,
    several_markdown,
    several_table,
)

KEPT = (7, 9, 8)


def made(
    *kept: int, target: Target | None = None, names: str = "m"
) -> tuple[ModelComparison, dict[str, object], str]:
    """Models that keep so many of ten right answers; together, as JSON, and as a page."""
    base = snapshot([True] * 10, meta={"model": "base"})
    afters = [
        snapshot([at < n for at in range(10)], meta={"model": f"{names}{number}"})
        for number, n in enumerate(kept, 1)
    ]
    several, comparisons = ranked(base, afters, target)
    return several, comparisons_json(comparisons, several), page(comparisons[-1], several=several)


def terminal(several: ModelComparison) -> str:
    return printed(several_detail(several))


def test_the_first_table_ranks_in_at_most_twelve_lines() -> None:
    target = Target(name="eval_accuracy", values=tuple(range(9)))
    several = made(*[3, 9, 8, 7, 6, 5, 4, 2, 1], target=target)[0]
    lines = printed(several_table(several, notes=["one", "two"])).splitlines()
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("forgetwatch  9 models against base  ")
    assert [line.split()[0] for line in lines[2 : 2 + MODELS]] == ["1", "2", "3", "4", "5", "6"]
    assert lines[2 + MODELS].strip() == "3 more; --detail has all"
    assert lines[-2].startswith("*: no other model")
    assert lines[-1] == "2 notes: --detail"


def test_the_table_ranks_and_the_matrix_counts() -> None:
    lines = terminal(
        made(*KEPT, target=Target(name="eval_accuracy", values=(0.9, 0.5, 0.4)))[0]
    ).splitlines()
    assert [line.split()[:4] for line in lines[1:4]] == [
        ["1", "*", "2", "m2"],
        ["2", "3", "m3", "80.0"],
        ["3", "*", "1", "m1"],
    ]
    assert lines[1].split()[4:] == [
        "90.0",
        "0.5",
        "1",
        "0",
        "-10.0",
        "(-40.4",
        "to",
        "+18.9)",
        "NOT",
        "CLEAR",
    ]
    alone = terminal(made(*KEPT)[0]).splitlines()
    assert alone[1].split()[3:] == [
        "90.0",
        "1",
        "0",
        "-10.0",
        "(-40.4",
        "to",
        "+18.9)",
        "NOT",
        "CLEAR",
    ]
    assert max(map(len, alone)) <= 100
    assert "They are nos 1 and 2." in " ".join(lines)
    assert [line.split()[1:] for line in lines[-4:]] == [
        ["base", "–", "3", "1", "2"],
        ["m1", "0", "–", "0", "0"],
        ["m2", "0", "2", "–", "1"],
        ["m3", "0", "1", "0", "–"],
    ]


def test_without_a_target_no_front_is_claimed_and_the_trap_is_named() -> None:
    shown = terminal(made(*KEPT)[0])
    assert "*" not in shown
    assert "A model that learnt nothing keeps everything" in shown


@pytest.mark.parametrize("names", ["checkpoint-", "数学" * 40, "🙂" * 50, "x" * 200])
def test_any_names_fit_eighty_columns_and_are_told_apart(names: str) -> None:
    lines = terminal(made(*[8] * 15, names=names)[0]).splitlines()
    assert max(map(cell_len, lines)) <= 100
    ranks = [line for line in lines if re.match(r" +1 +\d+ ", line)]
    assert [int(line.split()[1]) for line in ranks] == list(range(1, 16))


def test_markdown_and_page_show_the_same_cells() -> None:
    target = Target(name="eval_accuracy", values=(0.9, 0.5, 0.4))
    several, _, html = made(*KEPT, target=target)
    text = several_markdown(several)
    (ranks,) = [line for line in text.splitlines() if line.startswith("| 1 | 2 | m2 |")]
    assert ranks.startswith(
        "| 1 | 2 | m2 | 90.0 (59.6 to 98.2) | 1 | 0 | -10.0 (-40.4 to +18.9) | NOT CLEAR |"
    )
    assert ranks.endswith("| 0.5 | \\* |")
    assert "| 2 | m2 | 0 | 2 | – | 1 |" in text
    section = html[html.index('<section id="several"') : html.index('<section id="summary"')]
    assert "Everything below it is about the last one, <bdi>m3</bdi>" in section
    assert "90.0 (59.6 to 98.2)" in section
    assert re.search(r"2 <bdi>m2</bdi></th><td>0</td><td>2</td><td>–</td><td>1</td>", section)


def test_names_cannot_become_markup() -> None:
    several, _, html = made(8, 9, names="<img src=x onerror=alert(1)>|`x`")
    assert "<img src" not in html
    row = next(
        line for line in several_markdown(several).splitlines() if line.startswith("| 1 | 2 |")
    )
    assert "\\<img src=x onerror=alert(1)\\>" in row
    assert "\\|" in row


def test_the_document_gains_keys_and_keeps_those_it_had() -> None:
    _, document, _ = made(*KEPT, target=Target(name="eval_loss", values=(0.9, 0.5, 0.4)))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert list(document) == ["schema", "comparisons", "matrix", "ranking"]
    assert document["matrix"] == {
        "labels": ["base", "m1", "m2", "m3"],
        "items": 10,
        "left_out": 0,
        "lost": [[0, 3, 1, 2], [0, 0, 0, 0], [0, 2, 0, 1], [0, 1, 0, 0]],
    }
    ranking = document["ranking"]
    assert isinstance(ranking, dict)
    assert ranking["target"] == {"name": "eval_loss", "less_is_better": True}
    assert [(one["number"], one["place"], one["on_front"]) for one in ranking["models"]] == [
        (2, 1, True),
        (3, 2, True),
        (1, 3, False),
    ]


def test_a_page_of_one_comparison_has_no_such_section() -> None:
    assert 'id="several"' not in page(compared([True, False], [True, True]))


def test_no_value_of_the_page_is_a_python_object() -> None:
    sides = [
        snapshot([True] * (8 - at) + [False] * at, meta={"model": f"m{at}"}) for at in range(3)
    ]
    several, comparisons = ranked(sides[0], sides[1:], None)
    text = page(comparisons[-1], several=several)
    assert "Over the 8 questions on which all were scored; 0 are left out." in text
    assert "object at 0x" not in text
    assert "built-in" not in text
