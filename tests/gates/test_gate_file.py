from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import probe

from forgetwatch import Item, Probe
from forgetwatch.comparing import Tolerance
from forgetwatch.errors import GateError
from forgetwatch.gates import Condition, FailIf, Gate, MustPass, NoWorseThan, Selection, read_gate


def read(folder: Path, text: str, **given_probe: Probe) -> Gate:
    (folder / "gate.yaml").write_text(text, encoding="utf-8")
    return read_gate(folder / "gate.yaml", **given_probe)


def test_every_key_of_a_gate_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("a\n\n b c \na\n")
    gate = read(
        tmp_path,
        """
        tolerance: 2%
        fail_if: ["known_lost_net>20", "category:Art.forgetting>0.7%"]
        groups:
          category:Math: {tolerance: 0.03, fail_if: [chance.paper.forgetting>5%]}
          "task:x:y": {tolerance: 10%}
          all: {fail_if: [n<10]}
        must_pass: ["017", 017, yes]
        subset: {tasks: [gsm8k, "x:y"], categories: [Math], items: ids.txt}
        """,
    )
    assert gate.limits == (
        NoWorseThan(tolerance=0.02),
        FailIf(condition=Condition.parse("known_lost_net>20")),
        FailIf(condition=Condition.parse("category:Art.forgetting>0.7%")),
        NoWorseThan(tolerance=0.03, group="category:Math"),
        FailIf(condition=Condition.parse("chance.paper.forgetting>5%"), group="category:Math"),
        NoWorseThan(tolerance=0.1, group="task:x:y"),
        FailIf(condition=Condition.parse("n<10"), group="all"),
    )
    assert gate.must_pass == MustPass(items=((None, "017"), (None, "yes")))
    assert gate.subset == Selection(tasks=("gsm8k", "x:y"), categories=("Math",), items=("a", "b c"))


def test_a_tolerance_may_limit_each_leg(tmp_path: Path) -> None:
    gate = read(tmp_path, "tolerance: {accuracy: 2%, known: 4%, category: 0.06}")
    assert gate.limits == (
        NoWorseThan(tolerance=0.02),
        NoWorseThan(tolerance=0.04, leg="knowledge"),
        NoWorseThan(tolerance=0.06, leg="category"),
    )
    assert gate.tolerance == Tolerance(accuracy=0.02, known=0.04, category=0.06)


def test_items_that_must_be_right_by_task_or_by_the_probe(tmp_path: Path) -> None:
    gate = read(tmp_path, "must_pass: {x: [1, 2], y: [1]}")
    assert gate.must_pass == MustPass(items=(("x", "1"), ("x", "2"), ("y", "1")))
    item = Item(id="1", task="t", prompt="?", choices=(" a", " b"), answer=0, must_pass=True)
    assert read(tmp_path, "must_pass: true", probe=Probe([item])).must_pass == MustPass(items=(("t", "1"),))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "needed a mapping"),
        ("- tolerance", "needed a mapping"),
        ("{}", "has no limit"),
        ("subset: {tasks: [x]}", "has no limit"),
        ("groups: {}", "has no limit"),
        ("groups: {all: {}}", "has no limit"),
        ("limits: [n>1]", "unknown key 'limits'; the keys are tolerance, fail_if, groups, must_pass, subset"),
        ("Tolerance: 2%", "unknown key"),
        ("groups: {all: {limit: 2%}}", "groups: all: unknown key 'limit'"),
        (
            "tolerance: 1%\nsubset: {task: [x]}",
            "unknown key 'task', did you mean 'tasks'.; the keys are tasks, categories, items",
        ),
        ("tolerance:", "needed a share above 0 and below 1, .* got ''"),
        ("tolerance: null", "got 'null'"),
        ("tolerance: 2", "got '2'"),
        ("tolerance: -2%", "needed a share"),
        ("tolerance: nan", "needed a share"),
        ("tolerance: [2%]", "needed a share"),
        ("tolerance: {}", "tolerance: needed at least one of accuracy, known, category"),
        ("tolerance: {know: 5%}", "unknown key 'know', did you mean 'known'.*; the keys are accuracy, known, category"),
        ("tolerance: {known: 5}", "needed a share"),
        ("groups: {'category:a': {tolerance: {known: 5%}}}", "known is about all items; set it at the top of the file"),
        ("fail_if: forgetting>5%", "fail_if: needed a list of texts"),
        ("fail_if: []", "needed a list of texts, at least one"),
        ("fail_if: [{forgetting: 5%}]", "needed a list of texts"),
        ("fail_if: [forgetting]", "needed .*quantity OP number"),
        ("fail_if: [forgetting>5]", "the gate would never fail; .*forgetting>5%"),
        ("groups: {'category:x': {fail_if: [known_lost_net>5%]}}", "is a count, not a share"),
        ("fail_if: [speed>5]", "'speed' is not a quantity"),
        ("groups: {Math: {tolerance: 2%}}", "needed all, category:NAME or task:NAME, got 'Math'"),
        ("groups: {'category:': {tolerance: 2%}}", "needed all, category:NAME"),
        ("groups: {'kind:written': {tolerance: 2%}}", "needed all, category:NAME"),
        ("groups: {all: 2%}", "groups: all: needed a mapping"),
        ("groups: {'task:x': {fail_if: ['task:y.n>1']}}", "needs a quantity alone"),
        ("must_pass: false", "needed true, a list of ids, or a mapping"),
        ("must_pass:", "needed true, a list of ids"),
        ("must_pass: []", "needed a list of texts, at least one"),
        ("must_pass: {}", "names no item"),
        ("must_pass: {x: 1}", "must_pass: x: needed a list"),
        ("must_pass: true", "means the items marked in the probe; name it with --probe"),
        ("tolerance: 2%\ntolerance: 20%", "line 2: 'tolerance' is there twice"),
        ("tolerance: 2%\nsubset: {}", "subset: needed at least one of"),
        ("tolerance: 2%\nsubset: {items: [a]}", "needed the name of a file"),
        ("tolerance: 2%\nsubset: {items: nope.txt}", r"nope.txt: no such file; needed a file with an id a line"),
        ("tolerance: 2%\nsubset: {items: empty.txt}", "empty.txt: needed one id per line"),
    ],
)
def test_a_malformed_gate_is_refused_and_never_a_pass(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(GateError, match=says):
        read(tmp_path, text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(GateError, match=r"gate\.yaml: no such file; needed a gate in YAML"):
        read_gate(tmp_path / "gate.yaml")
    with pytest.raises(GateError, match="Is a directory"):
        read_gate(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("tolerance: 2% # größer".encode("latin-1"))
    with pytest.raises(GateError, match="not UTF-8 text"):
        read_gate(tmp_path / "latin.yaml")


WORDS = ["tolerance", "fail_if", "groups", "must_pass", "subset", "tasks", "items", "all", "category:a", "task:x"]
LEAVES = st.one_of(
    st.sampled_from(["2%", "0.5", "forgetting>5%", "n<1", "true", "a", "gate.yaml", "\0"]),
    *(st.text(max_size=5), st.none(), st.booleans(), st.integers(), st.floats()),
)
KEYS = st.one_of(st.sampled_from(WORDS), st.text(max_size=3))
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(WORDS[:5]), VALUES, min_size=1))
def test_any_yaml_is_a_gate_with_limits_or_refused(tmp_path: Path, document: dict[str, Any]) -> None:
    try:
        gate = read(tmp_path, yaml.safe_dump(document, allow_unicode=True), probe=probe(3))
    except GateError:
        return
    assert not gate.is_empty


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_any_bytes_are_a_gate_or_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "gate.yaml").write_bytes(data)
    with pytest.raises(GateError):
        read_gate(tmp_path / "gate.yaml")


@pytest.mark.parametrize(("length", "shown"), [(78, "x" * 78 + "'"), (79, "x" * 78 + "…")])
def test_long_values_are_cut_to_eighty_characters_in_an_error(tmp_path: Path, length: int, shown: str) -> None:
    with pytest.raises(GateError) as refused:
        read(tmp_path, "subset: " + "x" * length)
    assert str(refused.value).endswith(f"got '{shown}")
