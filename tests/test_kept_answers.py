"""A file of answers that only grows: what is whole is kept, and what was cut is asked again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from forgetwatch.errors import SnapshotError
from forgetwatch.kept_answers import KeptAnswers


def test_answers_are_there_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "s.answers"
    first = KeptAnswers(path, ["probe", 1])
    first.add({"a": {"text": "é\u2028\n", "x": [1.5, None]}})
    first.add({"b": True, "c": {}})
    again = KeptAnswers(path, ["probe", 1])
    assert len(again) == 3
    assert again.get("a") == {"text": "é\u2028\n", "x": [1.5, None]}
    assert again.get("d") is None
    again.remove()
    again.remove()
    assert not path.exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-7],
        lambda data: data.replace(b'"right"', b'"wrong"'),
        lambda data: data + b'\n{"key": "b", "answer": 2, "sum": "00000000"}\n\xff\xfe\n[1]\n"x"',
    ],
    ids=["cut", "changed", "more"],
)
def test_a_row_that_is_not_whole_is_not_answered(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "s.answers"
    kept = KeptAnswers(path, 1)
    kept.add({"a": "first"})
    kept.add({"z": "right"})
    path.write_bytes(damage(path.read_bytes()))
    again = KeptAnswers(path, 1)
    assert again.get("a") == "first"
    assert again.get("b") is None
    again.add({"y": "after"})
    assert KeptAnswers(path, 1).get("y") == "after"


def test_another_measurement_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "s.answers"
    KeptAnswers(path, 1).add({"a": 1})
    with pytest.raises(
        SnapshotError, match=r"s\.answers: holds the answers of another measurement"
    ):
        KeptAnswers(path, 2)


def test_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    kept = KeptAnswers(None, 1)
    kept.add({"a": 1})
    assert (kept.get("a"), list(tmp_path.iterdir())) == (1, [])
    kept.remove()


def test_a_folder_that_cannot_be_written_ends_no_measurement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    kept = KeptAnswers(tmp_path / "file" / "s.answers", 1)
    kept.add({"a": 1})
    kept.add({"b": 2})
    assert (kept.get("a"), kept.get("b")) == (1, 2)
    assert capsys.readouterr().err.count("if interrupted, it begins anew") == 1
