from __future__ import annotations

from collections import Counter

from forgetwatch import load_probe
from forgetwatch.probes import RELATIONS, demo_probe, facts


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
