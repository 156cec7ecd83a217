"""Checks that two snapshots agree: settings, questions, prompts and the norm of the score that decides.

    check_settings         refuses another scoring, rendering or metric, and other versions of the grading rules
    check_pairing          refuses other items, unless those of both sides are wanted, and other numbers of samples
    check_options          refuses other numbers of options of one question
    check_prompts          refuses other prompts on more than 1 % of the items
    repeated_prompts       names unlike questions of equal prompts, for a note
    setting_differences    names settings that differ, such as those of another tool's runs, for a note
    align_repeat           the same checks for the weights of one side measured again

Each would turn up as forgetting that never happened: one model scored plain and the other with a chat template is the
commonest false alarm.

The norm of the score that decides (`metrics.choices`) is a setting of the probe: between two norms answers differ that
no training has changed, so a comparison needs one. In another tool's log unlike metrics are refused, and unlike norms
noted. Without content hashes nothing shows that the options of the two sides are the same.

**Subset**: the items of a probe that every look of a run evaluates, and the one rule by which snapshots are cut
to them.

    probe             i1  i2  i3  g4  i5 ... i2000        g: the model generates its answer
    baseline          x   x   x   x   x  ... x
    look at step 200  x   x   x   -   x                   budget: the first 5 items, no generated answers
    compared          i1  i2  i3      i5                  at every step, also those before the decision

A run with a budget evaluates a prefix of its probe, and may leave out the items whose answers are generated. Every
point of a curve has to be over one set of items, so looks that contain more are cut. The metadata of a look store its
prefix (``probe.items`` of ``probe.of`` items); the outcome of an item says whether it was left out. Prefixes
are comparable only within one probe: if fingerprints differ nothing is cut, and the comparison refuses unlike items.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.errors import MismatchError, SnapshotError, did_you_mean, some_of
from forgetwatch.item import SHIPPED
from forgetwatch.measures.pairing import Pairing, item_codes, pair
from forgetwatch.probe import Probe
from forgetwatch.snapshot import LEFT_OUT, NONE, Snapshot, codes

_WHOLE: Final = re.compile(r"0*(\d+)(?:\.0+)?")
OnMismatch = Literal["error", "intersect"]

PROMPT_TOLERANCE: Final = 0.01
"""Share of the items whose prompts may differ before a comparison is refused."""


def check_settings(before: Snapshot, after: Snapshot, *, allow_prompt_mismatch: bool) -> None:
    """Refuse snapshots that were scored or graded in unlike ways.

    Raises:
        MismatchError: If a setting of the two differs; one that a side does not name is not compared.
    """
    _check_metrics(before, after)
    _check_rules(before, after)
    _check_norms(before, after)
    probe_before, probe_after = before.meta.get("probe") or {}, after.meta.get("probe") or {}
    for name, remedy in (
        ("scoring", ""),
        ("rendering", ", or pass --allow-prompt-mismatch to compare"),
    ):
        if name == "rendering" and allow_prompt_mismatch:
            continue
        if name in probe_before and name in probe_after and probe_before[name] != probe_after[name]:
            raise MismatchError(
                f"{before.label} was scored with {name} {probe_before[name]!r} and {after.label} with "
                f"{probe_after[name]!r}; score both with the same probe{remedy}"
            )


def _check_norms(before: Snapshot, after: Snapshot) -> None:
    if any("tool" in side.meta for side in (before, after)):
        return
    named, now = before.norms, after.norms
    if unlike := [task for task, norm in named.items() if now.get(task, norm) != norm]:
        raise MismatchError(
            f"{before.label} was decided by the norm {named[unlike[0]]!r} and {after.label} by {now[unlike[0]]!r}; "
            "score both with the same probe"
        )


def _check_rules(before: Snapshot, after: Snapshot) -> None:
    """Refuse generated answers that were graded by unlike versions of the rules."""
    if not all("scorer" in side.meta and has_graded_answers(side) for side in (before, after)):
        return
    rules = [rules_of(side) for side in (before, after)]
    if rules[0] != rules[1]:  # the wider reason, if there is one
        raise MismatchError(
            f"the generated answers of {before.label} were graded by version {rules[0]} of the grading rules and those "
            f"of {after.label} by version {rules[1]}, which grade some answers otherwise; score both sides with the "
            "same version of forgetwatch"
        )


def has_graded_answers(snapshot: Snapshot) -> bool:
    """Return True if any generated answer of the snapshot was graded."""
    # Only generated answers have a form.
    graded = pc.and_(pc.is_valid(snapshot.table["in_form"]), pc.is_valid(snapshot.table["correct"]))
    return bool(pc.any(graded).as_py())


def rules_of(snapshot: Snapshot) -> int:
    """Return the version of the rules that graded a snapshot's generated answers; 2 where the metadata name none."""
    return int(snapshot.meta.get("rules", 2))


def _check_metrics(before: Snapshot, after: Snapshot) -> None:
    """Refuse logs that were graded by unlike metrics, or by unlike filters of one."""
    if not all("metric" in side.meta for side in (before, after)):  # own snapshots have none
        return
    tasks_before, tasks_after = (
        side.table["task"].unique().to_pylist() for side in (before, after)
    )
    for task in (task for task in tasks_before if task in tasks_after):
        metrics = [
            str((side.meta.get("metrics") or {}).get(task, side.meta["metric"]))
            for side in (before, after)
        ]
        names = {metric.partition(",")[0] for metric in metrics}
        filters = {metric.partition(",")[2] for metric in metrics} - {
            ""
        }  # "acc,none": the filter may be left out
        if len(names) > 1 or len(filters) > 1:
            raise MismatchError(
                f"task {task!r}: {before.label} is graded by {metrics[0]} and {after.label} by {metrics[1]}; name a "
                "metric that both have with --metric"
            )


def setting_differences(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Return the settings of the two sides that differ, in words.

    The norm, autocast, and those of another tool's runs.
    """
    notes = _by_task("norms of the score that decides", before.norms, after.norms)
    if all("autocast" in side.meta for side in (before, after)):
        one, other = (side.meta["autocast"] or "none" for side in (before, after))
        notes += (
            [f"autocast differs, and rounding with it: {one} before, {other} after"]
            if one != other
            else []
        )
    if not all("date" in side.meta for side in (before, after)):  # only harness logs have a date
        return tuple(notes)
    for name, words in (
        ("task_versions", "versions of the task"),
        ("num_fewshot", "examples in the prompt"),
    ):
        notes += _by_task(words, before.meta.get(name) or {}, after.meta.get(name) or {})
    for name, words in (
        ("chat_template_sha", "a chat template"),
        ("system_instruction_sha", "a system instruction"),
    ):
        hash_before, hash_after = before.meta.get(name), after.meta.get(name)
        if hash_before != hash_after:
            when = (
                "with another text"
                if hash_before and hash_after
                else "before only"
                if hash_before
                else "after only"
            )
            notes.append(f"{words} was used {when}")
    return tuple(notes)


def _by_task(words: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return a note on the tasks of which a setting differs; empty if there are none."""
    unlike = [
        f"{task} {one} and {after[task]}"
        for task, one in before.items()
        if after.get(task, one) != one
    ]
    return [f"{words} differ: {some_of(unlike, 3)}"] if unlike else []


def _unlike_spelling(before: Snapshot, after: Snapshot) -> str:
    """Return a remark on ids that differ by zeros (1, 1.0 and 001), spaces or Unicode form alone; else empty."""
    ours, theirs = set(before.texts("item_id")), set(after.texts("item_id"))
    numbers = {_spelling(name): name for name in ours - theirs}
    pairs = [
        (numbers[number], name)
        for name in sorted(theirs - ours)
        if (number := _spelling(name)) in numbers
    ]
    if not pairs:
        return ""
    one, other = pairs[0]
    return f"{len(pairs):,} ids are spelled unlike, such as {one!r} and {other!r}; write them alike"


def _spelling(name: str) -> str:
    number = _WHOLE.fullmatch(name)
    return " ".join(unicodedata.normalize("NFC", name).split()) if number is None else number[1]


def check_pairing(
    before: Snapshot, after: Snapshot, pairing: Pairing, on_mismatch: OnMismatch
) -> None:
    """Refuse snapshots of unlike items, unless the items of both sides are wanted, and of unlike numbers of samples."""
    names = f"{before.label} ({len(before):,} rows) and {after.label} ({len(after):,} rows)"
    if not pairing.before.size:
        if unlike := _unlike_wordings(before, after, pairing):
            raise MismatchError(f"{names} {unlike}")
        why = "they are outcomes on different probes"
        if pairing.content_differs:
            hashed = not (before.missing("content_hash") or after.missing("content_hash"))
            column = "content_hash" if hashed else "gold or k"
            why = f"{pairing.content_differs:,} ids are on both sides, and all of them differ in {column}"
        why = _unlike_spelling(before, after) or why
        raise MismatchError(f"{names} have no item in common; {why}")
    counts = sorted(
        {int(n) for side in (before, after) for n in np.unique(np.bincount(item_codes(side)))}
    )
    # Equal numbers may still be other sample indices, which leaves fewer pairs than items times samples.
    if len(counts) > 1 or len(pairing.before) < counts[0] * len(np.unique(pairing.item)):
        raise MismatchError(
            f"{names} have unlike samples: {' and '.join(map(str, counts))} per item; compare equal numbers, or the "
            "first of each with --samples first"
        )
    probes = {str((side.meta.get("probe") or {}).get("name")) for side in (before, after)}
    ladders = len(probes) > 1 and all(re.match(r"ladder-[1-8]{10}\b", name) for name in probes)
    if (
        pairing.complete or on_mismatch == "intersect" or ladders
    ):  # ladders share what is near the levels of both
        return
    if unlike := _unlike_wordings(before, after, pairing):
        raise MismatchError(f"{names} {unlike}")
    differs = (
        f" ({pairing.content_differs:,} ids have unlike questions)"
        if pairing.content_differs
        else ""
    )
    if spelling := _unlike_spelling(before, after):
        differs = f" ({spelling})"
    raise MismatchError(
        f"{names} are not outcomes on the same items: {len(pairing.only_before):,} items before and "
        f"{len(pairing.only_after):,} after have no partner{differs}; compare the {len(np.unique(pairing.item)):,} "
        "that both have with --on-mismatch intersect"
    )


def _unlike_wordings(before: Snapshot, after: Snapshot, pairing: Pairing) -> str:
    """Return the reason that questions of both sides were asked in unlike wordings; empty if none was."""
    sides = ((before, pairing.only_before), (after, pairing.only_after))
    asked = [
        dict(
            zip(
                zip(
                    side.texts("task")[rows].tolist(),
                    side.texts("content_hash")[rows].tolist(),
                    strict=True,
                ),
                side.table["wording"].take(rows).fill_null(SHIPPED).to_pylist(),
                strict=True,
            )
        )
        for side, rows in sides
    ]
    unlike = [
        (asked[0][key], asked[1][key])
        for key in asked[0]
        if key[1] and asked[1].get(key, asked[0][key]) != asked[0][key]
    ]
    if not unlike:
        return ""
    one, other = unlike[0]
    return (
        f"were asked {len(unlike):,} questions in other words, such as in the wordings {one!r} and {other!r}; score "
        "both sides with the same probe"
    )


def check_options(before: Snapshot, after: Snapshot, pairing: Pairing) -> None:
    """Refuse paired items whose numbers of options differ; an item without one on a side is not checked."""
    k_before, k_after = before.ints("k")[pairing.before], after.ints("k")[pairing.after]
    unlike = np.flatnonzero((k_before != k_after) & (k_before != NONE) & (k_after != NONE))
    if unlike.size:
        pair_index = int(unlike[0])
        row = int(pairing.before[pair_index])
        raise MismatchError(
            f"item {before.texts('item_id')[row]!r} of task {before.texts('task')[row]!r} has {k_before[pair_index]} "
            f"options in {before.label} and {k_after[pair_index]} in {after.label}, with equal content hashes "
            f"({len(np.unique(pairing.item[unlike])):,} such items); needed the same options on both sides: correct "
            "the column k, or score both in the same way"
        )


def check_prompts(
    before: Snapshot, after: Snapshot, pairing: Pairing, *, allow_prompt_mismatch: bool
) -> int:
    """Return the number of items whose prompts differ.

    More than `PROMPT_TOLERANCE` of them are refused unless that is allowed.
    """
    differs, items = (
        prompt_differences(before, after, pairing, "prompt_hash"),
        len(np.unique(pairing.item)),
    )
    if differs > PROMPT_TOLERANCE * items and not allow_prompt_mismatch:
        rendered = [
            f"{side.label} ({side.meta.get('probe', {}).get('rendering', 'unknown')} prompt)"
            for side in (before, after)
        ]
        raise MismatchError(
            f"the prompts of {differs:,} of {items:,} items differ between {rendered[0]} and {rendered[1]}: what looks "
            "like forgetting may be the format; score both in the same way, or pass --allow-prompt-mismatch to compare"
        )
    return differs


def prompt_differences(before: Snapshot, after: Snapshot, pairing: Pairing, column: str) -> int:
    """Return the number of paired items whose prompts differ by the hashes in a column.

    A missing hash equals every other.
    """
    if before.missing(column) or after.missing(column):
        return 0
    of_before, of_after = (
        before.table[column].take(pairing.before),
        after.table[column].take(pairing.after),
    )
    differs = np.asarray(pc.fill_null(pc.not_equal(of_before, of_after), False))
    return len(np.unique(pairing.item[differs]))


def repeated_prompts(snapshot: Snapshot) -> str:
    """Return the sentence on scored items that have the token ids of another, unlike one; empty if none has.

    The tokenizer or the chat template has left out what they differ in, or they are one question with unlike keys.
    """
    rows = np.flatnonzero(
        ~snapshot.is_unscored & np.asarray(snapshot.table["prompt_hash"].is_valid())
    )
    prompt, question = (
        codes(snapshot.table[name].take(rows)) for name in ("prompt_hash", "content_hash")
    )
    # One row for each pair of prompt and question: samples of an item, and equal questions, are no repeat.
    first = np.unique(np.stack([prompt, question]), axis=1, return_index=True)[1]
    repeated = (
        np.isin(prompt[first], np.flatnonzero(np.bincount(prompt[first]) > 1))
        if rows.size
        else first
    )
    if not repeated.any():
        return ""
    names = [repr(name) for name in snapshot.texts("item_id")[np.sort(rows[first[repeated]])]]
    return (
        f"{len(names):,} items have the token ids of another one, such as {' and '.join(names[:2])}: the model "
        "cannot tell them apart"
    )


def align_repeat(
    before: Snapshot, null: Snapshot
) -> tuple[tuple[NDArray[np.float64], NDArray[np.int64]], list[str]]:
    """Return the answers of the same weights measured again, and notes.

    The answers are right (1, 0 or nan) and the option that was chosen (`NONE` for none), each [rows of `before`].

    Refuses a second measurement that shares no item, or is of unlike settings, steps or numbers of samples.
    """
    check_settings(before, null, allow_prompt_mismatch=False)
    pairing = pair(before, null)
    if not pairing.before.size:
        raise MismatchError(
            f"{null.label} has no item of {before.label}; the null is the same weights measured again"
        )
    steps, models = ((before.meta.get(name), null.meta.get(name)) for name in ("step", "model"))
    if None not in steps and steps[0] != steps[1]:
        raise MismatchError(
            f"the null was measured at step {steps[1]}, and {before.label} at step {steps[0]}; the null is the same "
            "weights measured again"
        )
    differs = (
        [f"the null names another model, {models[1]}"]
        if None not in models and models[0] != models[1]
        else []
    )
    per_item = [len(side) / len(np.unique(item_codes(side))) for side in (before, null)]
    if per_item[0] != per_item[1]:
        raise MismatchError(
            f"the null has {per_item[1]:g} samples per item and {before.label} has {per_item[0]:g}; measure as many"
        )
    # The second measurement may cover a part of the items only.
    again, chosen = np.full(len(before), np.nan), np.full(len(before), NONE)
    again[pairing.before] = null.right_as_base[pairing.after]
    if not null.missing("chosen"):
        chosen[pairing.before] = null.ints("chosen")[pairing.after]
    if (
        not np.isfinite(again).any() and not null.is_passage.any()
    ):  # passages have no flips, and no noise of them
        differs.append("the null has no scored item, so the noise is not known")
    return (again, chosen), differs


def is_of_run(before: Snapshot, after: Snapshot) -> bool:
    """Return True if `before` is the baseline of the run of which `after` is a look."""
    run = after.meta.get("run")
    return (
        run is not None and before.meta.get("run") == run and before.meta.get("look") == "baseline"
    )


@dataclass(frozen=True, kw_only=True)
class Subset:
    """Items of a probe that the looks of a run evaluate; all of them by default.

    Attributes:
        items: Number of probe items that the looks evaluate; None for all.
        total: Items of the whole probe; None if `items` is None.
        left_out: Task and id of the items whose answers are not generated.
        missing_categories: Categories of the probe of which no item is evaluated, by name.
    """

    items: int | None = None
    total: int | None = None
    left_out: frozenset[tuple[str, str]] = frozenset()
    missing_categories: tuple[str, ...] = ()

    @classmethod
    def from_probe(cls, probe: Probe, *, items: int | None, generates: bool) -> Self:
        """Return the subset of a probe as a run decided it.

        `items` is the length of the prefix, None for the whole probe.

        Without `generates`, answers of `must_pass` items alone are generated.
        """
        generated = [] if generates else filter(probe.is_generated, probe)
        left_out = frozenset((item.task, item.id) for item in generated if not item.must_pass)
        evaluated = {
            item.category for item in probe.items[:items] if (item.task, item.id) not in left_out
        }
        return cls(
            items=items,
            total=None if items is None else len(probe),
            left_out=left_out,
            missing_categories=tuple(sorted({item.category for item in probe} - evaluated - {""})),
        )

    @classmethod
    def from_metadata(cls, meta: Mapping[str, Any]) -> Self:
        """Return the prefix that a snapshot's metadata name; the whole probe if they name none.

        Raises:
            SnapshotError: If they name a part of a probe without the number of its items.
        """
        probe = meta.get("probe") or {}
        named = probe.get("missing_categories")
        missing = tuple(map(str, named)) if isinstance(named, list) else ()
        if "of" not in probe:
            return cls(missing_categories=missing)
        items, total = probe.get("items"), probe["of"]
        if type(items) is not int or type(total) is not int:
            raise SnapshotError(
                f"the metadata of a look must name its items and those of its probe as whole numbers, got "
                f"items {items!r} of {total!r}"
            )
        return cls(items=items, total=total, missing_categories=missing)

    @classmethod
    def from_look(cls, look: Snapshot) -> Self:
        """Return the subset that one look evaluated, by its metadata and outcomes; raises as `from_metadata`."""
        rows = np.flatnonzero(look.texts("outcome") == LEFT_OUT)
        tasks, ids = look.texts("task")[rows], look.texts("item_id")[rows]
        return replace(
            cls.from_metadata(look.meta), left_out=frozenset(zip(tasks, ids, strict=True))
        )

    @classmethod
    def common(cls, looks: Sequence[Snapshot]) -> Self:
        """Return the subset that all looks evaluated: the shortest prefix, without what any of them left out.

        The prefix is None if the looks are of probes with unlike fingerprints. Raises as `from_metadata`.
        """
        subsets = [cls.from_look(look) for look in looks]
        left_out = frozenset[tuple[str, str]]().union(*(subset.left_out for subset in subsets))
        prefixes = [subset for subset in subsets if subset.items is not None]
        if not prefixes or not _of_one_probe(
            looks
        ):  # a prefix of one probe is no prefix of another
            return cls(left_out=left_out)
        # Looks of the whole probe have no prefix, and limit none.
        return replace(min(prefixes, key=lambda subset: subset.items or 0), left_out=left_out)

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """Return the rows of a snapshot of the same probe that belong to the subset, with all their samples.

        A snapshot of nothing but items left out keeps them: they are unscored, and counted as such.
        """
        cut = snapshot if self.items is None else snapshot.head(self.items)
        if not self.left_out:
            return cut
        kept = np.array([key not in self.left_out for key in cut.item_keys])
        return (
            cut
            if kept.all() or not kept.any()
            else replace(cut, table=cut.table.filter(pa.array(kept)))
        )

    def apply_to_reference(self, reference: Snapshot, *, baseline: Snapshot) -> Snapshot:
        """Return the rows of a snapshot in any order of items that pair with the subset of a run's baseline."""
        if self.items is None and not self.left_out:
            return reference
        pairing = pair(self.apply(baseline), reference)
        # `pairing.after` follows the baseline; the reference keeps its own order of rows.
        return replace(reference, table=reference.table.take(np.sort(pairing.after)))

    def describe(self, look: Snapshot, *, fingerprint: str | None) -> Snapshot:
        """Return a look of the subset; its metadata name the prefix, the probe and the categories that are missing."""
        of: dict[str, Any] = (
            {"missing_categories": list(self.missing_categories)} if self.missing_categories else {}
        )
        if self.items is not None and self.total is not None and self.items < self.total:
            of |= {"fingerprint": fingerprint, "items": self.items, "of": self.total}
        if not of:
            return look
        return replace(look, meta={**look.meta, "probe": {**look.meta["probe"], **of}})


def _of_one_probe(looks: Sequence[Snapshot]) -> bool:
    # A look without a fingerprint is taken for one of the same probe, as on a resume.
    return len({(look.meta.get("probe") or {}).get("fingerprint") for look in looks} - {None}) < 2


def cut_to_common(before: Snapshot, after: Snapshot) -> tuple[Snapshot, Snapshot, tuple[str, ...]]:
    """Return both sides of a comparison over the prefix that both contain, and a note if that leaves rows out.

    Items whose answers were not generated stay: a comparison counts them as unscored.
    """
    prefix = replace(Subset.common((before, after)), left_out=frozenset())
    if prefix.items is None or len(before) == len(after):  # looks of one prefix need no note
        return before, after, ()
    # By the items of the shorter side: a run may have put its items into an order of its own.
    cut = before, after
    if len(before) < len(after):
        cut = before, prefix.apply_to_reference(after, baseline=before)
    else:
        cut = prefix.apply_to_reference(before, baseline=after), after
    if len(cut[0]) == len(before) and len(cut[1]) == len(after):
        return before, after, ()
    note = f"over the first {prefix.items:,} of {prefix.total:,} items, those that the looks of this run evaluate"
    return *cut, (note,)


def select(
    snapshot: Snapshot,
    *,
    tasks: Sequence[str] = (),
    categories: Sequence[str] = (),
    items: Sequence[str] = (),
) -> Snapshot:
    """Return the rows of the named tasks, categories and item ids.

    An empty list selects all, a name without rows is an error.
    """
    kept = np.ones(len(snapshot), bool)
    for name, wanted in (("task", tasks), ("category", categories), ("item_id", items)):
        if not wanted:
            continue
        values = snapshot.texts(name)
        known = set(values)
        if unknown := [one for one in wanted if one not in known]:
            listed = ", ".join(sorted(filter(None, known))[:20]) or "none"
            near = did_you_mean(unknown[0], filter(None, known))
            raise SnapshotError(
                f"{snapshot.label}: no {name} {unknown[0]!r}{near or ';'} there are {listed}"
            )
        kept &= np.isin(values, list(wanted))
    if not kept.any():
        raise SnapshotError(
            f"{snapshot.label}: no item meets all that was named (task, category, id)"
        )
    return (
        snapshot if kept.all() else replace(snapshot, table=snapshot.table.filter(pa.array(kept)))
    )
