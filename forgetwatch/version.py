"""The version of forgetwatch that runs, for records and reports."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final


def _installed() -> str:
    try:
        return version("forgetwatch")
    except PackageNotFoundError:
        return "of a folder that is not installed"


VERSION: Final = _installed()
"""Version of the installed package, or words that say that the package runs from a folder on the
path.
"""
