from __future__ import annotations

import forgetwatch.errors as errors


def test_every_error_is_in_the_drawn_tree_and_has_one_base() -> None:
    classes = [cls for cls in vars(errors).values() if isinstance(cls, type) and cls.__module__ == errors.__name__]
    assert len(classes) > 3
    for error in classes:
        assert issubclass(error, errors.ForgetwatchError)
        assert error.__name__ in (errors.__doc__ or "")


def test_the_text_of_an_error_is_one_line_whatever_a_file_calls_its_columns() -> None:
    error = errors.SnapshotError("t.csv: its columns are a\nb, c\r\nd, \u2028e\x1b[31m")
    assert str(error) == "t.csv: its columns are a b, c d,  e⟨U+001B⟩[31m"
