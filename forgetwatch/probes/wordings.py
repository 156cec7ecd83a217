"""The wordings that are shipped, and probes whose items are asked in them; see `wording`.

    one     each item in one of the probe's own wording, `short` and `right`: by the hash of its content alone, so that
            it has the same one in every selection of items. The total is over the wordings, and takes little longer
    each    each item in all of them, ``ID``, ``ID@short`` and ``ID@right``: three times as long

Prompts of text whose options are scored as continuations have wordings. Chat messages, listed letters, generated
answers, passages and items that must pass are asked as they are written, and so is an item that lacks one of the
wordings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, get_args

from forgetwatch.errors import ProbeError
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.wording import PLACE, SHIPPED, Wording

AskedIn = Literal["one", "each"]
"""Number of wordings in which each item of a probe is asked."""

WORDINGS: Final = (
    Wording(name="short", frame=f"Q: {PLACE}\nA:", beginning="Complete:"),
    Wording(name="right", frame=f"{PLACE}\nThe right answer is:", beginning="Here is a sentence."),
    Wording(name="bare", shots=False, beginning="It says:"),
    Wording(name="chat", frame=PLACE, shots=False, rendering="chat"),
)
"""The wordings that are shipped, beside that of the probe."""

OWN: Final = Wording(name=SHIPPED)
"""The wording of the probe itself, of an item that may be asked in others too."""

OTHERS: Final = ("short", "right")
"""Names of the wordings that a probe gets, and in which lost answers are asked again by default."""


def wordings_of(names: Sequence[str]) -> list[Wording]:
    """Return shipped wordings by their names.

    Raises:
        ProbeError: If a name is unknown, given twice, or none is given.
    """
    known = {one.name: one for one in WORDINGS}
    if unknown := [name for name in names if name not in known]:
        raise ProbeError(f"wording {unknown[0]!r}: needed some of {', '.join(known)}")
    if not names or len(set(names)) < len(names):
        raise ProbeError(f"needed one or more wordings, each once, got {', '.join(names) or 'none'}")
    return [known[name] for name in names]


def reworded(item: Item, wording: Wording) -> Item | None:
    """Return an item in another wording, in place of its own in that of the probe.

    None if it has none, or the wording would ask it as before.
    """
    if item.wording == wording:
        return replace(item, wording=OWN)
    if item.is_passage or not item.choices or not isinstance(item.prompt, str) or item.rendering == "chat":
        return None
    if wording.asks(item.prompt, item.shots) is None:
        return None
    return replace(item, wording=wording, must_pass=False)


def worded_probe(probe: Probe, items: Sequence[Item], wordings: Sequence[Wording]) -> tuple[Probe | None, list[Item]]:
    """Return the probe of items in each of some wordings, and the items that have all of them, in their order.

    The id of an item in a wording is ``ID@WORDING``, also where that is its own and it is asked in the probe's instead.
    None if no item has all of them.
    """
    asked, kept = [], []
    if _has_wordings(probe):
        for item in items:
            made = [reworded(item, wording) for wording in wordings]
            if all(made):
                kept.append(item)
                asked += [
                    replace(one, id=f"{item.id}@{wording.name}")
                    for one, wording in zip(made, wordings, strict=True)
                    if one is not None
                ]
    name = f"{probe.name} in {len(wordings)} other wording{'' if len(wordings) == 1 else 's'}"
    return (replace(probe, items=tuple(asked), name=name, decoding=None) if asked else None), kept


def worded(probe: Probe, asked: AskedIn, wordings: Sequence[Wording] | None = None) -> Probe:
    """Return a probe whose items are asked in several wordings: its own, and some others.

    Args:
        probe: A probe of which some items are plain prompts of text with options that are scored as continuations.
        asked: ``one`` asks each item in one wording, ``each`` in all of them.
        wordings: The others; by default `OTHERS`.

    Raises:
        ProbeError: If no item has these wordings, an item has a wording already, or two ask alike.
    """
    others = wordings_of(OTHERS) if wordings is None else list(wordings)
    if asked not in get_args(AskedIn):
        raise ProbeError(f"wordings must be one of {', '.join(get_args(AskedIn))}, got {asked!r}")
    if any(item.wording for item in probe):
        raise ProbeError(f"probe {probe.name!r}: its items have wordings already; they are asked in these")
    able = [item for item in probe if not item.must_pass and all(reworded(item, one) for one in others)]
    if not _has_wordings(probe) or not able:
        raise ProbeError(
            f"probe {probe.name!r}: no item has other wordings; needed plain prompts of text with options that are "
            "scored as continuations, and no items that must pass"
        )
    able_keys = {(item.task, item.id) for item in able}
    wordings, made = (OWN, *others), list[Item]()
    for item in probe:
        if (item.task, item.id) not in able_keys:
            made.append(item)
        elif asked == "one":
            made.append(replace(item, wording=wordings[int(item.content_hash, 16) % len(wordings)]))
        else:
            made += [replace(item, wording=OWN), *(_named(replace(item, wording=one)) for one in others)]
    return probe.with_items(made)


def questions_once(items: Sequence[Item]) -> list[Item]:
    """Return some items without those that ask the question of an earlier one in other words."""
    seen, found = set[tuple[str, str]](), list[Item]()
    for item in items:
        key = (item.task, item.content_hash) if item.wording else (item.task, f"id {item.id}")
        if key not in seen:
            found.append(item)
        seen.add(key)
    return found


def _has_wordings(probe: Probe) -> bool:
    return probe.scoring == "loglikelihood" and probe.rendering == "plain"


def _named(worded: Item) -> Item:
    """Return an item in a wording under an id of its own."""
    return replace(worded, id=f"{worded.id}@{'' if worded.wording is None else worded.wording.name}")
