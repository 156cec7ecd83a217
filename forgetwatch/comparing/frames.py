"""Numbers in long form, for people who draw themselves: a row for each group and quantity.

Each column of a row is text or a number:

    level     name   quantity      value
    all       all    forgotten     68
    category  Math   forgotten     12
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from forgetwatch.comparing.groups import Group, group_values
from forgetwatch.measures.quantities import QUANTITIES, value_at


def long_rows(groups: Iterable[Group], **first_columns: Any) -> Iterator[dict[str, Any]]:
    """Yield a row for each quantity defined in each group.

    `first` are columns of every row.
    """
    for group in groups:
        values = group_values(group)
        for quantity in QUANTITIES:
            if (value := value_at(values, quantity)) is not None:
                yield {
                    **first_columns,
                    "level": group.level,
                    "name": group.name,
                    "quantity": quantity,
                    "value": float(value),
                }


def frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Build a pandas.DataFrame, or a pyarrow.Table without pandas."""
    table = pa.Table.from_pylist([dict(row) for row in rows])
    if find_spec("pandas") is None:
        return table
    import_module("pandas")
    return table.to_pandas()
