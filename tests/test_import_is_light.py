"""Comparing files must not load torch; and a test that shows that this one can fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAVY = "{'torch', 'transformers', 'trl', 'accelerate', 'peft', 'datasets', 'tokenizers', 'matplotlib', 'wandb'}"


def loaded(code: str) -> str:
    """The heavy packages that a fresh Python has loaded after running some code."""
    program = f"{code}\nimport sys\nprint(sorted({HEAVY} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_importing_comparing_and_reporting_stay_light(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item_id,correct\na,1\nb,0\n")
    code = f"""
import forgetwatch, json
from forgetwatch.cli import app
from forgetwatch.policy import Condition
from forgetwatch.report import export, plots, terminal, tracker_rows
from rich.console import Console
comparison = forgetwatch.compare(before={str(tmp_path / "a.csv")!r}, after={str(tmp_path / "a.csv")!r})
json.dumps(export.comparison_json(comparison))
tracker_rows.tracker_row(comparison, seconds=1.0)
Console().print(terminal.comparison_table(comparison))
Condition.parse("forgetting>0").measure(comparison)
forgetwatch.save_snapshot(forgetwatch.load_snapshot({str(tmp_path / "a.csv")!r}), {str(tmp_path / "s.parquet")!r})
forgetwatch.load_probe("demo")
"""
    assert loaded(code) == "[]"


def test_help_and_version_load_no_numpy() -> None:
    code = "from forgetwatch.cli import app\napp(['--help'], standalone_mode=False)"
    program = f"{code}\nimport sys\nprint(sorted({{'numpy', 'pyarrow', 'scipy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_names_that_need_torch_do_load_it() -> None:
    assert "torch" in loaded("import forgetwatch\nforgetwatch.score")


def test_reading_and_writing_a_run_folder_stays_light() -> None:
    assert loaded("import forgetwatch.run_folder") == "[]"
