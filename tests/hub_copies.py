"""Folders of data sets in the hub's layout: a README.md with the configs, and Parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

Table = Sequence[Mapping[str, Any]]


def write_copy(root: Path, dataset: str, splits: Mapping[tuple[str | None, str], Table]) -> Path:
    """A data set of some (config, split) tables under its id."""
    folder = root / dataset
    configs: dict[str, list[dict[str, str]]] = {}
    for (config, split), rows in splits.items():
        name = config or "default"
        path = folder / name / split / "0000.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
        configs.setdefault(name, []).append({"split": split, "path": str(path.relative_to(folder))})
    listed = [{"config_name": name, "data_files": files} for name, files in configs.items()]
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': listed})}---\n")
    return root
