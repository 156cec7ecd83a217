"""The ladder: the list that suits a model, three fixed lists, and no question that chose among them."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from support import snapshot

from forgetwatch import Probe, Snapshot, load_probe
from forgetwatch.errors import ProbeError
from forgetwatch.probes.ladder import LISTS, suitable_list
from forgetwatch.probes.named import fitted
from forgetwatch.probes.shipped_probes import stratified

TRIAL = load_probe("ladder")


def answers(right: Mapping[str, int], *, unscored: str = "") -> Snapshot:
    """Answers to the trial: so many of a list are right."""
    seen: Counter[str] = Counter()
    outcomes = []
    for item in TRIAL:
        seen[item.task] += 1
        outcomes.append(None if item.task == unscored else seen[item.task] <= right[item.task])
    return snapshot(outcomes, task=[item.task for item in TRIAL])


@pytest.mark.parametrize(
    ("right", "unscored", "name"),
    [
        ((20, 12, 8), "", "ladder-1"),
        ((28, 22, 12), "", "ladder-2"),
        ((30, 27, 20), "", "ladder-3"),
        ((29, 25, 21), "ladder-3", "ladder-2"),
    ],
)
def test_the_list_whose_questions_are_right_most_nearly_in_seven_tenths_suits(
    right: tuple[int, int, int], unscored: str, name: str
) -> None:
    measured = answers(dict(zip(LISTS, right, strict=True)), unscored=unscored)
    assert suitable_list(TRIAL, lambda trial: measured) == name
    assert fitted(TRIAL, lambda trial: measured).fingerprint == load_probe(name).fingerprint


def test_a_model_that_reads_no_question_of_the_trial_gets_the_first_list() -> None:
    empty = answers(dict.fromkeys(LISTS, 0))
    unscored = snapshot([None] * len(empty), task=empty.texts("task").tolist())
    assert suitable_list(TRIAL, lambda trial: unscored) == "ladder-1"


def test_an_earlier_list_stays_and_another_probe_is_unchanged() -> None:
    def never(trial: Probe) -> Snapshot:
        pytest.fail("asked")

    assert fitted(TRIAL, never, earlier="ladder-3").name == "ladder-3"
    assert fitted(TRIAL, never, earlier="ladder-2+strata").name == "ladder-2+strata"
    assert fitted(demo := load_probe("demo"), never) is demo


def test_no_question_of_the_trial_is_in_a_list() -> None:
    assert Counter(item.task for item in TRIAL) == dict.fromkeys(LISTS, 30)
    tried = {item.prompt for item in TRIAL}
    assert not any(item.prompt in tried for name in LISTS for item in load_probe(name))


@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_400_of_standard_and_800_others_and_every_prefix_is_fair(name: str) -> None:
    items = load_probe(name).items
    standard = {item.content_hash for item in load_probe("standard").items[:400]}
    others = [item for item in items if item.content_hash not in standard]
    assert (len(items), len(others)) == (1200, 800)
    assert all(len(item.choices) == 4 for item in others)
    for first in (250, 500, 1000):
        assert stratified(items, first=first) == list(items)
        there = Counter(item.task for item in others if item in items[:first])
        whole = Counter(item.task for item in others)
        assert all(abs(there[task] - whole[task] * first / 1200) < 1.5 for task in whole)


def test_lists_are_harder_from_one_to_the_next() -> None:
    levels = [
        [int(item.task[-1]) for item in load_probe(name) if item.task[-2:-1] == ":"]
        for name in LISTS
    ]
    assert [(min(values), max(values)) for values in levels] == [(1, 3), (3, 5), (6, 8)]
    assert np.diff([np.mean(values) for values in levels]).min() > 2


def test_dependent_questions_share_a_cluster() -> None:
    for name in LISTS:
        for kind in ("events", "facts", "reading"):
            items = [item for item in load_probe(name) if item.id.startswith(f"{kind}-")]
            assert all(str(item.cluster).startswith(f"{kind}:") for item in items)
            if kind == "events":
                by_cluster = {(item.cluster, item.choices[item.answer]) for item in items}
                assert len(by_cluster) == len({cluster for cluster, _ in by_cluster})
                assert len(by_cluster) < len(items)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ladder-4", "no such file, and no such shipped probe.*ladder-3"),
        ("ladder:100", r"needed a list of the ladder beside .* such as ladder-2:100$"),
        ("ladder+strata", r"needed a list of the ladder beside .* such as ladder-2\+strata$"),
    ],
)
def test_a_name_without_a_list_is_refused(name: str, says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        load_probe(name)


def test_strata_are_forty_each_of_languages_code_instructions_and_behaviour() -> None:
    strata = load_probe("strata")
    assert len(strata) == 160
    assert sum(strata.is_generated(item) for item in strata) == 80
    assert len({item.task for item in strata if item.task.startswith("multilingual")}) == 6
