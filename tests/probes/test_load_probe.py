"""A probe is loaded by name or path; `demo` has one item for each fact of its world."""

from collections import Counter
from pathlib import Path

import pytest
from support import probe

from forgetwatch import load_probe
from forgetwatch.errors import ProbeError
from forgetwatch.probes.shipped_probes import NAMES, RELATIONS, demo_probe, facts


def test_a_probe_is_loaded_by_path(tmp_path: Path) -> None:
    probe().save(tmp_path / "p.jsonl")
    assert load_probe(tmp_path / "p.jsonl").fingerprint == probe().fingerprint
    assert load_probe(str(tmp_path / "p.jsonl")).name == "toy"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("standrd", ", did you mean 'standard'[?]"),
        ("quick+behavior", ", did you mean 'behaviour'[?]"),
        ("none.jsonl", ""),
    ],
)
def test_an_unknown_name_is_refused_with_the_closest_one(name: str, near: str) -> None:
    needed = f"needed {', '.join(NAMES)}, demo, a file"
    with pytest.raises(
        ProbeError, match=f"no such file, and no such shipped probe{near}; {needed}"
    ):
        load_probe(name)


def test_a_folder_is_no_probe(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match=r"needed a file of items or rows, got a folder"):
        load_probe(tmp_path)


def test_a_number_behind_a_name_takes_the_first_items() -> None:
    assert list(load_probe("standard:60")) == list(load_probe("standard"))[:60]


def test_the_world_is_deterministic_and_subjects_are_distinct() -> None:
    assert facts() == facts()
    assert len({fact.subject for fact in facts()}) == len(facts()) == 360


def test_the_values_of_a_relation_are_balanced() -> None:
    for relation in RELATIONS:
        counts = Counter(fact.value for fact in facts() if fact.relation is relation)
        assert set(counts) == set(relation.values)
        assert max(counts.values()) - min(counts.values()) <= 1


def test_the_probe_has_one_item_a_fact_with_its_relations_values() -> None:
    probe = demo_probe()
    assert len(probe) == 360
    assert {item.k for item in probe} == {2, 3, 4, 5}
    assert len({item.category for item in probe}) == 6
    for item, fact in zip(probe, facts(), strict=True):
        assert item.choices[item.answer] == f" {fact.value}"
    assert load_probe("demo").fingerprint == probe.fingerprint


def test_columns_and_key_are_for_tables_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("frage,a,b,answer\nIs it one?,x,y,1\nIs it two?,x,y,2\n")

    probe = load_probe(path, columns={"prompt": "frage", "choices": ["a", "b"]}, key="from-1")

    assert [item.answer for item in probe] == [0, 1]
    for name in ("quick", "mmlu"):
        with pytest.raises(
            ProbeError, match=f"{name}: needed a table of questions for key, and this is not one"
        ):
            load_probe(name, key="from-1")
