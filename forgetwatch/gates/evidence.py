"""Evidence: everything from which a policy's answer follows, as JSON, and what it says when it is computed again.

The file holds the policy's text, both snapshots by their checksums, every figure, versions, command and time. `verify`
reads the snapshots again, applies the policy's text to them on the day of the evidence, and names each difference.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa
import scipy

from forgetwatch.comparing import OnMismatch, compare
from forgetwatch.errors import GateError
from forgetwatch.files import MAX_SIZE, read_text, write_text
from forgetwatch.gates.policy import parse_policy
from forgetwatch.gates.ruling import PolicyResult, Ruling, Sides, apply_policy
from forgetwatch.probe import Probe
from forgetwatch.snapshot import Snapshot
from forgetwatch.version import VERSION

SCHEMA: Final = "forgetwatch/evidence@1"
_NOT_COMPARED: Final = ("versions", "command", "time", "day")
_CLOSE: Final = 1e-9
"""Relative difference of two figures that other versions of numpy may make."""


def evidence(
    result: PolicyResult, sides: Sides, *, policy_path: str, paths: tuple[str, str], on_mismatch: OnMismatch = "error"
) -> dict[str, Any]:
    """Return the evidence of a result as JSON values.

    Args:
        result: The result.
        sides: What it is about.
        policy_path: Name or path of the policy, as it was given.
        paths: Paths of the files of outcomes before and after; of models that were scored, their names.
        on_mismatch: As the two were compared.
    """
    now = datetime.now(UTC)
    return {
        "schema": SCHEMA,
        "answer": result.answer,
        "policy": {
            "name": result.policy.name,
            "path": policy_path,
            "sha256": result.policy.checksum,
            "text": result.policy.text,
        },
        "error": result.policy.error,
        "limits": result.limits,
        "level": result.level,
        "day": now.date().isoformat(),
        "sides": {
            name: _side(snapshot, path)
            for name, snapshot, path in zip(("before", "after"), (sides.before, sides.after), paths, strict=True)
        },
        "probe": None if sides.probe is None else {"name": sides.probe.name, "fingerprint": sides.probe.fingerprint},
        "on_mismatch": on_mismatch,
        "metrics": {name: list(values) for name, values in sides.metrics.items()},
        "rulings": [ruling_json(one) for one in result.rulings],
        "comparison": result.comparison.to_dict(),
        "versions": {
            "forgetwatch": VERSION,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "pyarrow": pa.__version__,
        },
        "command": sys.argv[1:],
        "time": now.isoformat(timespec="seconds"),
    }


def ruling_json(ruling: Ruling) -> dict[str, Any]:
    """Return the answer to one limit as JSON values; a number that is not finite is null."""

    def number(value: Any) -> Any:
        if isinstance(value, tuple):
            return [number(part) for part in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {name: number(value) for name, value in vars(ruling).items()}


def _side(snapshot: Snapshot, path: str) -> dict[str, Any]:
    file = Path(path)
    read = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
    kept = {name: snapshot.meta.get(name) for name in ("model", "step", "time", "scorer")}
    return {
        "path": path,
        "sha256": read,
        "checksum": snapshot.checksum,
        "rows": len(snapshot),
        "probe": (snapshot.meta.get("probe") or {}).get("fingerprint"),
        **kept,
    }


def write_evidence(document: Mapping[str, Any], path: Path) -> None:
    """Write evidence; its own checksum is the last key."""
    whole = {**document, "checksum": _checksum(document)}
    write_text(path, json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n")


def read_evidence(path: Path) -> dict[str, Any]:
    """Read evidence.

    Raises:
        GateError: If it cannot be read, or is none.
    """
    needed = "evidence that forgetwatch gate wrote"
    text = read_text(path, needed, GateError, limit=16 * MAX_SIZE)
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            raise GateError(f"{path}: needed {needed}, of schema {SCHEMA}; got {document['schema']!r:.80}")
        policy, sides = document["policy"], [document["sides"][name] for name in ("before", "after")]
        texts = [document["answer"], *(policy[name] for name in ("name", "path", "text", "sha256"))]
        texts += [side[name] for side in sides for name in ("path", "checksum")]
        texts += [one[name] for one in document["rulings"] for name in ("tier", "what", "limit")]
        if wrong := [text for text in texts if not isinstance(text, str)]:
            raise TypeError(f"needed text, got {wrong[0]!r:.80}")
        _ = [text.encode() for text in texts], date.fromisoformat(document["day"]), _metrics(document)
        if document["on_mismatch"] not in get_args(OnMismatch) or not all(type(side["rows"]) is int for side in sides):
            raise ValueError("on_mismatch or rows")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise GateError(f"{path}: needed {needed}, and it is damaged: {type(error).__name__} {error!s:.80}") from error
    return dict(document)


def differences(
    document: Mapping[str, Any], before: Snapshot, after: Snapshot, *, policy_file: str | None, probe: Probe | None
) -> list[str]:
    """Return what differs between evidence and what follows from two snapshots now; nothing if it holds.

    Args:
        document: The evidence.
        before: Outcomes before, read again.
        after: Outcomes after, read again.
        policy_file: Text of the policy's file as it is now; None if it is not at hand.
        probe: The probe, if the policy needs one.

    Raises:
        GateError: If the policy in the evidence cannot be read or applied.
    """
    found, policy = [], document["policy"]
    kept = {name: value for name, value in document.items() if name != "checksum"}
    if document.get("checksum") != _checksum(kept):
        found.append("the evidence was edited: it does not match its own checksum")
    if hashlib.sha256(policy["text"].encode()).hexdigest() != policy["sha256"]:
        found.append("the policy's text in the evidence was edited: it does not match its checksum")
    if policy_file is not None and policy_file != policy["text"]:
        found.append(f"the policy {policy['path']} was edited after its evidence: its text is another one")
    for name, snapshot in (("before", before), ("after", after)):
        stored = document["sides"][name]
        if snapshot.checksum != stored["checksum"]:
            found.append(
                f"the snapshot {name} is another one: {len(snapshot):,} rows with checksum {snapshot.checksum[:8]}, in "
                f"the evidence {stored['rows']:,} with {str(stored['checksum'])[:8]}"
            )
    sides = Sides(before=before, after=after, probe=probe, metrics=_metrics(document))
    comparison = compare(before=before, after=after, on_mismatch=document["on_mismatch"])
    result = apply_policy(
        parse_policy(policy["text"], "the policy in the evidence", probe),
        sides,
        comparison=comparison,
        today=date.fromisoformat(document["day"]),
    )
    again = evidence(
        result,
        sides,
        policy_path=policy["path"],
        paths=(document["sides"]["before"]["path"], document["sides"]["after"]["path"]),
        on_mismatch=document["on_mismatch"],
    )
    again = json.loads(json.dumps(again, default=str))
    if probe is None:
        again["probe"] = document.get("probe")
    for path in _unlike({**again, **{name: kept.get(name) for name in _NOT_COMPARED}}, kept):
        now, was = (_at(one, path) for one in (again, kept))
        found.append(f"{'.'.join(path)} is {now!r:.60}, in the evidence {was!r:.60}")
    return found


def _unlike(one: Any, other: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the places at which two documents differ, without those of files that may have moved."""
    if path and path[-1] in ("path", "source", "sha256") and path[0] in ("sides", "comparison"):
        return []
    if isinstance(one, dict) and isinstance(other, dict):
        names = dict.fromkeys((*one, *other))
        return [at for name in names for at in _unlike(one.get(name), other.get(name), (*path, str(name)))]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [at for number, pair in pairs for at in _unlike(*pair, (*path, str(number)))]
    if isinstance(one, float) and isinstance(other, (int, float)) and not isinstance(other, bool):
        return [] if math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE) else [path]
    return [] if one == other else [path]


def _at(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        document = document[int(name)] if isinstance(document, list) else (document or {}).get(name)
    return document


def _metrics(document: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    given = document.get("metrics") or {}
    return {str(name): (float(before), float(after)) for name, (before, after) in given.items()}


def _checksum(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
