"""The wordings that are shipped, and probes whose items are asked in them; see `item`.

    one     each item in one of the probe's own wording, `short` and `right`: by the hash of its content alone, so that
            it has the same one in every selection of items. The total is over the wordings, and
            takes little longer
    each    each item in all of them, ``ID``, ``ID@short`` and ``ID@right``: three times as long

Prompts of text whose options are scored as continuations have wordings. Chat messages, listed
letters, generated answers, passages and items that must pass are asked as they are written, and so
is an item that lacks one of the wordings.
"""

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
    """Shipped wordings by name.

    Raises:
        ProbeError: If a name is unknown, given twice, or none is given.
    """
    by_name = {wording.name: wording for wording in WORDINGS}
    if unknown := [name for name in names if name not in by_name]:
        raise ProbeError(f"wording {unknown[0]!r}: needed some of {', '.join(by_name)}")
    if not names or len(set(names)) < len(names):
        raise ProbeError(
            f"needed one or more wordings, each once, got {', '.join(names) or 'none'}"
        )
    return [by_name[name] for name in names]


def reworded(item: Item, wording: Wording) -> Item | None:
    """Reword an item, in place of its wording in the probe.

    Returns:
        The item, or None if it has no such wording, or the wording changes nothing.
    """
    if item.wording == wording:
        return replace(item, wording=OWN)
    if (
        item.is_passage
        or not item.choices
        or not isinstance(item.prompt, str)
        or item.rendering == "chat"
    ):
        return None
    if wording.asks(item.prompt, item.shots) is None:
        return None
    return replace(item, wording=wording, must_pass=False)


def worded_probe(
    probe: Probe, items: Sequence[Item], wordings: Sequence[Wording]
) -> tuple[Probe | None, list[Item]]:
    """Reword items in each of some wordings.

    The id of an item in a wording is ``ID@WORDING``, also where that is its own and it is asked in
    the probe's instead. None if no item has all of them.

    Returns:
        The probe, or None if no item has all wordings; and the items that have all, in order.
    """
    worded_items, kept = [], []
    if _has_wordings(probe):
        for item in items:
            versions = [reworded(item, wording) for wording in wordings]
            if all(versions):
                kept.append(item)
                worded_items += [
                    replace(version, id=f"{item.id}@{wording.name}")
                    for version, wording in zip(versions, wordings, strict=True)
                    if version is not None
                ]
    name = f"{probe.name} in {len(wordings)} other wording{'' if len(wordings) == 1 else 's'}"
    return (
        replace(probe, items=tuple(worded_items), name=name, decoding=None)
        if worded_items
        else None
    ), kept


def worded(probe: Probe, asked: AskedIn, wordings: Sequence[Wording] | None = None) -> Probe:
    """Make a probe whose items are asked in several wordings.

    Args:
        probe: A probe of which some items are plain prompts of text with options that are scored as
            continuations.
        asked: ``one`` asks each item in one wording, ``each`` in all of them.
        wordings: The others; by default `OTHERS`.

    Raises:
        ProbeError: If no item has these wordings, an item has a wording already, or two ask alike.
    """
    further = wordings_of(OTHERS) if wordings is None else list(wordings)
    if asked not in get_args(AskedIn):
        raise ProbeError(f"wordings must be one of {', '.join(get_args(AskedIn))}, got {asked!r}")
    if any(item.wording for item in probe):
        raise ProbeError(
            f"probe {probe.name!r}: its items have wordings already; they are asked in these"
        )
    able = [
        item
        for item in probe
        if not item.must_pass and all(reworded(item, wording) for wording in further)
    ]
    if not _has_wordings(probe) or not able:
        raise ProbeError(
            f"probe {probe.name!r}: no item has other wordings; needed plain prompts of text "
            "with options that are scored as continuations, and no items that must pass"
        )
    able_keys = {(item.task, item.id) for item in able}
    wordings, versions = (OWN, *further), list[Item]()
    for item in probe:
        if (item.task, item.id) not in able_keys:
            versions.append(item)
        elif asked == "one":
            versions.append(
                replace(item, wording=wordings[int(item.content_hash, 16) % len(wordings)])
            )
        else:
            versions += [
                replace(item, wording=OWN),
                *(_named(replace(item, wording=wording)) for wording in further),
            ]
    return probe.with_items(versions)


def _has_wordings(probe: Probe) -> bool:
    return probe.scoring == "loglikelihood" and probe.rendering == "plain"


def _named(worded: Item) -> Item:
    # A reworded item needs an id of its own.
    return replace(
        worded, id=f"{worded.id}@{'' if worded.wording is None else worded.wording.name}"
    )
