from __future__ import annotations

import pytest

import forgetwatch

NAMES = {
    *("Comparison", "ForgetWatchCallback", "Guard", "Item", "Probe", "Snapshot", "Trajectory", "Watch"),
    *("compare", "load_probe", "load_snapshot", "save_snapshot", "score"),
}


def test_the_public_names_are_these_and_sorted() -> None:
    assert set(forgetwatch.__all__) == NAMES
    assert forgetwatch.__all__ == sorted(forgetwatch.__all__, key=lambda name: (name.islower(), name))
    assert set(dir(forgetwatch)) >= NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_name_is_there_and_explains_itself(name: str) -> None:
    assert getattr(forgetwatch, name).__doc__


def test_the_errors_are_public() -> None:
    assert forgetwatch.errors.__all__ == sorted(forgetwatch.errors.__all__)
    for name in forgetwatch.errors.__all__:
        assert issubclass(getattr(forgetwatch.errors, name), forgetwatch.errors.ForgetwatchError)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'speed'"):
        _ = forgetwatch.speed
