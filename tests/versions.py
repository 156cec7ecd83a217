"""Installed versions against those of constraints.txt, with which every test passes."""

from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement

CONSTRAINTS = Path(__file__).parent.parent / "constraints.txt"
UPSTREAM = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")
"""Warnings with which other packages announce a change."""


def constraints(text: str) -> Iterator[Requirement]:
    """Yield the constraints for this version of Python."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate():
                yield requirement


def differing(text: str, installed: Callable[[str], str] = version) -> list[str]:
    """Return the packages whose installed version is another one, as ``name installed (needed)``."""
    found = []
    for requirement in constraints(text):
        try:
            have = installed(requirement.name)
        except PackageNotFoundError:
            continue
        if not requirement.specifier.contains(have, prereleases=True):
            found.append(
                f"{requirement.name} {have} ({str(requirement.specifier).removeprefix('==')})"
            )
    return found
