"""Gate files: a gate as YAML. Every key is optional, but there must be a limit; an unknown key is an error.

tolerance: 2%                              accuracy over all items: no worse than that
fail_if: ["known_lost_net>20"]             conditions as in --fail-if
groups:
  category:Math:                           category:NAME, task:NAME or all
    tolerance: 3%
    fail_if: ["known_lost_net>5"]          of this group
must_pass: [refund-1, refund-2]            these items must be right; {TASK: [ID, ...]} where ids repeat
must_pass: true                            or: those that the probe marks so
subset:                                    the comparison is about these items alone
  tasks: [gsm8k]
  categories: [Math]
  items: ids.txt                           an id a line; in the folder of the gate file

Every scalar stays the text in the file (`plain_yaml`), so ids and 2% need no quotes. A gate may come from elsewhere:
the file of `subset.items` must be a regular file in the folder of the gate file or below it, links included.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from forgetwatch.errors import GateError, did_you_mean
from forgetwatch.files import Plain, file_errors, read_plain_yaml, read_text
from forgetwatch.gates.condition import Condition, parse_fraction
from forgetwatch.gates.gate import ALL, FailIf, Gate, Limit, MustPass, NoWorseThan, Selection
from forgetwatch.measures import QUANTITIES
from forgetwatch.probe import Probe

_LIMITS: Final = ("tolerance", "fail_if")
_KEYS: Final = (*_LIMITS, "groups", "must_pass", "subset")
_SUBSET: Final = ("tasks", "categories", "items")
_MAX_ITEMS_SIZE: Final = 2**26
"""Bytes of a file of ids."""


def read_gate(path: Path, probe: Probe | None = None) -> Gate:
    """Read a gate file.

    Args:
        path: A YAML file.
        probe: The probe whose marked items ``must_pass: true`` means.

    Raises:
        GateError: If the file cannot be read, or is not a gate.
    """
    source = str(path)
    given = _mapping(read_plain_yaml(path, "a gate in YAML", GateError), source, _KEYS)
    limits = _limits(given, source, None)
    groups = given.get("groups", {})
    for name, limited in _mapping(groups, f"{source}: groups").items():
        level, _, own = name.partition(":")  # names of groups may contain further colons
        if name != ALL and not (level in ("category", "task") and own):
            raise GateError(f"{source}: groups: needed all, category:NAME or task:NAME, got {_short(name)}")
        where = f"{source}: groups: {name}"
        limits += _limits(_mapping(limited, where, _LIMITS), where, name)
    gate = Gate(
        limits=tuple(limits),
        must_pass=_must_pass(given["must_pass"], source, probe) if "must_pass" in given else None,
        subset=_subset(given["subset"], path) if "subset" in given else Selection(),
    )
    if gate.is_empty:
        raise GateError(f"{source}: has no limit; needed at least one of tolerance, fail_if, groups, must_pass")
    return gate


def _limits(given: dict[str, Plain], where: str, group: str | None) -> list[Limit]:
    """Limits of one group, or of the top level of the file for None."""
    found: list[Limit] = []
    if "tolerance" in given:
        found.append(NoWorseThan(tolerance=_tolerance(given["tolerance"], where), group=group or ALL))
    for text in _texts(given["fail_if"], f"{where}: fail_if") if "fail_if" in given else ():
        condition = Condition.parse(text)
        if group is not None and condition.left not in QUANTITIES:
            raise GateError(f"{where}: fail_if: {_short(text)} needs a quantity alone, the group is named above it")
        found.append(FailIf(condition=condition, group=group))
    return found


def _tolerance(given: Plain, where: str) -> float:
    try:
        value = parse_fraction(given) if isinstance(given, str) else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise GateError(
            f"{where}: tolerance: needed a share above 0 and below 1, such as 2% or 0.02, got {_short(given)}"
        )
    return value


def _must_pass(given: Plain, source: str, probe: Probe | None) -> MustPass:
    where = f"{source}: must_pass"
    if isinstance(given, str):
        if given.lower() != "true":  # scalars stay texts, and YAML also spells it True and TRUE
            raise GateError(f"{where}: needed true, a list of ids, or a mapping of tasks to ids, got {_short(given)}")
        if probe is None:
            raise GateError(f"{where}: true means the items marked in the probe; name it with --probe, or list the ids")
        return MustPass.tagged(probe)
    if isinstance(given, dict):
        named = [(task, item) for task, items in given.items() for item in _texts(items, f"{where}: {task}")]
        if not named:
            raise GateError(f"{where}: names no item")
        return MustPass(items=tuple(named))
    return MustPass(items=tuple((None, item) for item in _texts(given, where)))


def _subset(given: Plain, path: Path) -> Selection:
    where = f"{path}: subset"
    keys = _mapping(given, where, _SUBSET)
    if not keys:
        raise GateError(f"{where}: needed at least one of {', '.join(_SUBSET)}")
    named = {name: _texts(keys[name], f"{where}: {name}") for name in ("tasks", "categories") if name in keys}
    items = _ids(keys["items"], path.parent, f"{where}: items") if "items" in keys else ()
    return Selection(tasks=named.get("tasks", ()), categories=named.get("categories", ()), items=items)


def _ids(name: Plain, folder: Path, where: str) -> tuple[str, ...]:
    """Ids in a file in the gate file's folder, one a line."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise GateError(f"{where}: needed the name of a file with an id a line, got {_short(name)}")
    file = folder / name
    with file_errors(file, "a file with an id a line", GateError):
        # Resolved, so that a link out of the folder counts as what it leads to.
        if not file.resolve().is_relative_to(folder.resolve()):
            raise GateError(f"{where}: needed a file in the folder of the gate file, got {_short(name)}; copy it there")
    text = read_text(file, "a file with an id a line", GateError, limit=_MAX_ITEMS_SIZE)
    found = tuple(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    if not found:
        raise GateError(f"{file}: needed an id a line, got none")
    return found


def _mapping(given: Plain, where: str, known: tuple[str, ...] | None = None) -> dict[str, Plain]:
    if not isinstance(given, dict):
        raise GateError(f"{where}: needed a mapping (key: value), got {_short(given)}")
    if known is not None and (unknown := [key for key in given if key not in known]):
        meant = did_you_mean(unknown[0], known)
        raise GateError(f"{where}: unknown key {_short(unknown[0])}{meant}; the keys are {', '.join(known)}")
    return given


def _texts(given: Plain, where: str) -> tuple[str, ...]:
    """Texts of a non-empty list, each once, in the order of the list."""
    # A text is a sequence of characters too: fail_if: n>1 would read as three conditions.
    if isinstance(given, (str, dict)) or not given or not all(isinstance(one, str) and one for one in given):
        raise GateError(f"{where}: needed a list of texts, at least one, got {_short(given)}")
    return tuple(dict.fromkeys(str(one) for one in given))


def _short(given: Plain) -> str:
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:79]}…"
