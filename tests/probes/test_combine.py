"""`combine` makes one probe of two."""

from __future__ import annotations

from pathlib import Path

import pytest

from forgetwatch import Item, Probe, load_probe
from forgetwatch.errors import ProbeError
from forgetwatch.probe import combine, read_probe

CHOICE = Item(id="1", task="t", prompt="Q:", choices=(" a", " b"), answer=0)
OPEN = Item(id="2", task="o", prompt="Q2", answer="x", match="exact")


def test_the_second_keeps_its_rendering_and_its_decoding() -> None:
    made = combine(Probe([CHOICE], name="a"), Probe([OPEN], name="b", rendering="chat", decoding={"tokens": 7}))
    assert (made.name, made.rendering, made.scoring) == ("a+b", "plain", "loglikelihood")
    assert [made.rendering_of(item) for item in made] == ["plain", "chat"]
    assert made.settings["decoding"]["tokens"] == 7
    assert [made.is_generated(item) for item in made] == [False, True]


def test_an_own_rendering_is_part_of_the_fingerprint_and_of_the_file(tmp_path: Path) -> None:
    made = combine(Probe([CHOICE]), Probe([OPEN], rendering="chat"))
    plain = combine(Probe([CHOICE]), Probe([OPEN]))
    assert made.fingerprint != plain.fingerprint
    made.save(tmp_path / "p.jsonl")
    assert read_probe(tmp_path / "p.jsonl").fingerprint == made.fingerprint


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (Probe([CHOICE], scoring="letters"), "scored in one way, got loglikelihood and letters"),
        (Probe([OPEN], decoding={"tokens": 9}), "generated in one way"),
    ],
)
def test_probes_with_conflicting_settings_are_refused(second: Probe, message: str) -> None:
    first = Probe([Item(id="0", task="o", prompt="Q0", answer="y", match="exact")], decoding={"tokens": 7})
    with pytest.raises(ProbeError, match=message):
        combine(first, second)


def test_quick_and_behaviour_combine() -> None:
    made = combine(load_probe("quick"), load_probe("behaviour"))
    assert (len(made), made.name) == (680, "quick+behaviour")
    assert sum(map(made.is_generated, made)) == 180
    assert made.canary
