"""The size of the package and of its tests: each number may fall freely, and rises only by an edit of this table.

To raise a number, write the new one here in the same commit that needs it, and give the reason in the commit's message:
what the added lines do for a user, and why nothing else could go. After a merge conflict, write what the test counts.
"""

from __future__ import annotations

from pathlib import Path

import forgetwatch

ROOT = Path(__file__).parent.parent
GATE_MINUTES = 12
"""Minutes that the README's test command may take on two idle cores; `.ci/run` prints what it took."""

AT_MOST = {
    "modules of the package": 168,
    "lines of the package": 41_880,
    "lines of tests": 43_980,
    "public names": 13,
    "files that name bits_per_byte": 13,
    "files that name known_lost_net": 15,
    "files that name log_score_change_calibrated": 9,
    "files that name log_mass_change": 7,
    "files that name kl_sampled": 6,
    "files that name format_lost": 6,
    "files that name noise_floor": 7,
}
"""The last seven are measures: each belongs into its module in `measures/`, and few others need to name it."""


def sources(folder: str) -> list[str]:
    """Texts of the Python files below a folder of the repository."""
    return [path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*.py"))]


def lines(texts: list[str]) -> int:
    return sum(text.count("\n") for text in texts)


def test_nothing_grew() -> None:
    package = sources("forgetwatch")
    found = {
        "modules of the package": len(package),
        "lines of the package": lines(package),
        "lines of tests": lines(sources("tests")),
        "public names": len(forgetwatch.__all__),
    }
    of_measure = "files that name "
    for name in AT_MOST:
        if name.startswith(of_measure):
            found[name] = sum(name.removeprefix(of_measure) in text for text in package)
    assert found.keys() == AT_MOST.keys()
    grown = {name: f"{number}, at most {AT_MOST[name]}" for name, number in found.items() if number > AT_MOST[name]}
    assert not grown


def test_the_gate_reads_the_promised_minutes() -> None:
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert r"s/^GATE_MINUTES = \([0-9]*\)$/\1/p' tests/test_size.py" in gate
    assert f"\nGATE_MINUTES = {GATE_MINUTES}\n" in Path(__file__).read_text(encoding="utf-8")
