"""Names of the two models of a comparison, for people."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.text import fit_ends, run_name

_CLASS: Final = re.compile(r"model|[A-Z]\w*(For[A-Z]\w+|Model)")
"""What metadata have for the name of a model that was made in memory: ``model``, or its class."""


def model_names(comparison: Comparison) -> tuple[str, str]:
    """Names of the two models for people: folder or id, and step.

    Never a class of a library.
    """
    sides = (comparison.before, comparison.after)
    before, after = (
        _name(meta, label) for meta, label in zip(sides, comparison.labels, strict=True)
    )
    return before, after


def shortened(name: str) -> str:
    """Name without the middle of a long one.

    A title then keeps the step.
    """
    return fit_ends(name, _LONGEST).rstrip()


_UNNAMED: Final = "the model"


_LONGEST: Final = 24


def _name(meta: Mapping[str, Any], label: str) -> str:
    if _CLASS.fullmatch(str(meta.get("model", ""))) is None:
        return label
    source = meta.get("source")
    name = run_name(Path(str(source)).parent) if source else _UNNAMED
    return name if meta.get("step") is None else f"{name} at step {meta['step']}"
