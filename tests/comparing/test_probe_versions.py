"""Outcomes on version 1 of the shipped probes: read and compared with each other, and refused against version 2.

`version_1` holds the first items of `standard` and `behaviour` as version 1 had them, answered by SmolLM2-135M-Instruct
(Apache-2.0) before and after a mild fine-tuning, with the metadata that a look at a part of a probe has.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import snapshot

from forgetwatch import Probe, Snapshot, compare, load_probe, load_snapshot
from forgetwatch.errors import MismatchError
from forgetwatch.probes import shipped
from forgetwatch.probes.shipped import FIRST, shipped_version

FOLDER = Path(__file__).parent / "version_1"
REMEDY = r"score both sides with the same version \(a run folder keeps the version of its run as probe\.jsonl\)"


def old(name: str) -> Snapshot:
    return load_snapshot(FOLDER / f"{name}.parquet")


def new(probe: Probe, like: Snapshot) -> Snapshot:
    """Outcomes on the first items of a probe, with the metadata of other ones."""
    items = probe.items[: len(like)]
    columns = {
        "item_id": [item.id for item in items],
        "task": [item.task for item in items],
        "category": [item.category for item in items],
        "content_hash": [item.content_hash for item in items],
        "correct": [True] * len(items),
        "outcome": ["ok"] * len(items),
        "k": [item.k for item in items],
        "sample": [0] * len(items),
        "in_form": [probe.is_generated(item) or None for item in items],
    }
    meta = {**like.meta, "probe": {**like.meta["probe"], "fingerprint": probe.fingerprint}, "rules": 3}
    return Snapshot.from_columns(columns, meta)


def test_snapshots_of_version_1_are_read_and_compared_with_each_other() -> None:
    before, after = old("standard-before"), old("standard-after")
    assert shipped_version(before.meta["probe"]) == shipped_version(after.meta["probe"]) == 1
    found = compare(before=before, after=after)
    assert (found.all.n, found.all.forgotten, found.all.gained) == (24, 3, 1)
    written = old("behaviour-before")
    assert compare(before=written, after=written).all.n == 9


def test_behaviour_1_against_behaviour_2_is_refused_with_both_versions_and_the_remedy() -> None:
    before = old("behaviour-before")
    with pytest.raises(MismatchError, match=rf"version 1 of the probe 'behaviour' and .* version 2, .*{REMEDY}"):
        compare(before=before, after=new(load_probe("behaviour"), before))
    with pytest.raises(MismatchError, match=r"version 2 of the probe 'behaviour' and .* version 1"):
        compare(before=new(load_probe("behaviour"), before), after=before)


def test_standard_1_against_a_later_standard_is_refused_with_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    items = tuple(replace(item, prompt=f"Once more. {item.prompt}") for item in load_probe("standard").head(60))
    later = replace(load_probe("standard"), items=items)
    monkeypatch.setattr(shipped, "shipped_probe", lambda name: later)
    before = old("standard-before")
    with pytest.raises(MismatchError, match=rf"version 1 of the probe 'standard' and .* version 2, .*{REMEDY}"):
        compare(before=before, after=new(later, before))


def test_answers_graded_by_other_rules_are_refused() -> None:
    before = old("behaviour-before")
    after = replace(before, meta={**before.meta, "rules": 3})
    with pytest.raises(MismatchError, match=r"graded by version 2 of the grading rules and those .* by version 3, .*"):
        compare(before=before, after=after)
    # Where nothing was generated, the rules have graded nothing.
    scored = old("standard-before")
    assert compare(before=scored, after=replace(scored, meta={**scored.meta, "rules": 3})).all.n == 24


@pytest.mark.parametrize("name", sorted(FIRST))
def test_version_1_is_known_under_every_norm_and_no_fingerprint_twice(name: str) -> None:
    assert len(FIRST[name]) in (1, 5, 15)
    assert all(len(fingerprint) == 16 for fingerprint in FIRST[name])
    known = [one for fingerprints in FIRST.values() for one in fingerprints]
    assert len(set(known)) == len(known)
    assert shipped_version({"name": name, "fingerprint": FIRST[name][0] + "0" * 48}) == 1


def test_an_unknown_probe_has_no_version_and_a_beginning_that_of_its_probe() -> None:
    assert shipped_version({"name": "mine", "fingerprint": "ab"}) is None
    assert shipped_version({"name": "behaviour", "fingerprint": "ab"}) is None
    assert shipped_version({}) is None
    assert shipped_version({"name": "behaviour", "fingerprint": load_probe("behaviour").fingerprint}) == 2
    for name, items in (("behaviour", 30), ("standard+behaviour", 300)):  # 300: none of behaviour, which is generated
        head = load_probe(name).head(items)
        assert shipped_version({"name": head.name, "fingerprint": head.fingerprint, "items": items}) == 2


@pytest.mark.parametrize("name", ["quick+standard", "behaviour+behaviour"])
def test_a_probe_of_the_users_own_may_have_a_name_whose_parts_do_not_combine(name: str) -> None:
    assert shipped_version({"name": name, "fingerprint": "ab"}) is None
    meta = {"probe": {"name": name, "fingerprint": "ab"}, "scorer": "forgetwatch"}
    before, after = snapshot([True, False], meta=meta), snapshot([True, False, True], meta=meta)
    with pytest.raises(MismatchError, match="are not outcomes on the same items"):
        compare(before=before, after=after)
