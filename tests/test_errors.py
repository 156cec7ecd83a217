from __future__ import annotations

import forgetwatch.errors as errors


def test_every_error_stands_in_the_drawn_tree_and_has_one_base() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert len(classes) > 3
    for error in classes:
        assert issubclass(error, errors.ForgetwatchError)
        assert error.__name__ in (errors.__doc__ or "")
