"""Comparing files must not load torch; and a test that shows that this one can fail."""

import subprocess
import sys
from pathlib import Path

import pytest

import forgetwatch
import forgetwatch.errors as errors

NAMES = {
    *(
        "Comparison",
        "Decision",
        "ForgetWatchCallback",
        "Guard",
        "Item",
        "Probe",
        "Snapshot",
        "Trajectory",
        "Watch",
    ),
    *("compare", "decide", "load_probe", "load_snapshot", "save_snapshot", "score"),
}


def test_the_public_names_are_these_and_sorted() -> None:
    assert set(forgetwatch.__all__) == NAMES
    assert forgetwatch.__all__ == sorted(
        forgetwatch.__all__, key=lambda name: (name.islower(), name)
    )
    assert set(dir(forgetwatch)) >= NAMES


def test_the_word_is_in_python_without_any_other_import(tmp_path: Path) -> None:
    """In a fresh Python that imports the module of comparisons alone."""
    for name, lost in (("a", 0), ("b", 100)):
        rows = [f"q{number},{int(number >= lost)}" for number in range(300)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["item_id,correct", *rows]))
    code = f"""
from forgetwatch.comparing.comparison import compare
comparison = compare(before={str(tmp_path / "a.csv")!r}, after={str(tmp_path / "b.csv")!r})
word = comparison.decision.word
assert comparison.to_dict()["verdict"]["word"] == word == "FORGOT", word
assert str(comparison).startswith("FORGOT "), str(comparison)
assert comparison.decision.legs and comparison.decision.next
"""
    assert loaded(code) == "[]"


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


def test_every_error_is_in_the_drawn_tree_and_has_one_base() -> None:
    classes = [
        cls
        for cls in vars(errors).values()
        if isinstance(cls, type) and cls.__module__ == errors.__name__
    ]
    assert len(classes) > 3
    for error in classes:
        assert issubclass(error, errors.ForgetwatchError)
        assert error.__name__ in (errors.__doc__ or "")


def test_the_text_of_an_error_is_one_line_whatever_a_file_calls_its_columns() -> None:
    error = errors.SnapshotError("t.csv: its columns are a\nb, c\r\nd, \u2028e\x1b[31m")
    assert str(error) == "t.csv: its columns are a b, c d,  e⟨U+001B⟩[31m"


HEAVY = "{'torch', 'transformers', 'trl', 'accelerate', 'peft', 'datasets', 'tokenizers', 'matplotlib', 'wandb'}"


def loaded(code: str) -> str:
    """The heavy packages that a fresh Python has loaded after running some code."""
    program = f"{code}\nimport sys\nprint(sorted({HEAVY} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1]


def test_importing_comparing_and_reporting_stay_light(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item_id,correct\na,1\nb,0\n")
    code = f"""
import forgetwatch, json
from forgetwatch.cli import app
from forgetwatch.policy.policy import Condition
from forgetwatch.report import eight_lines, plots, terminal, tracker_rows
from rich.console import Console
comparison = forgetwatch.compare(before={str(tmp_path / "a.csv")!r}, after={str(tmp_path / "a.csv")!r})
json.dumps(comparison.to_dict())
tracker_rows.tracker_row(comparison, seconds=1.0)
Console().print(terminal.first_lines(eight_lines.first_table(comparison)))
Condition.parse("forgetting>0").measure(comparison)
forgetwatch.save_snapshot(forgetwatch.load_snapshot({str(tmp_path / "a.csv")!r}), {str(tmp_path / "s.parquet")!r})
forgetwatch.load_probe("demo")
"""
    assert loaded(code) == "[]"


def test_help_and_version_load_no_numpy() -> None:
    code = "from forgetwatch.cli import app\napp(['--help'], standalone_mode=False)"
    program = (
        f"{code}\nimport sys\nprint(sorted({{'numpy', 'pyarrow', 'scipy'}} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_names_that_need_torch_do_load_it() -> None:
    assert "torch" in loaded("import forgetwatch\nforgetwatch.score")


def test_reading_and_writing_a_run_folder_stays_light() -> None:
    assert loaded("import forgetwatch.run_folder") == "[]"
