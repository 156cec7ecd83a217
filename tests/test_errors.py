from __future__ import annotations

import forgetwatch.errors as errors


def test_every_error_is_in_the_drawn_tree_and_has_one_base() -> None:
    classes = [cls for cls in vars(errors).values() if isinstance(cls, type) and cls.__module__ == errors.__name__]
    assert len(classes) > 3
    for error in classes:
        assert issubclass(error, errors.ForgetwatchError)
        assert error.__name__ in (errors.__doc__ or "")
