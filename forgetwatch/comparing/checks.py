"""Refusals of snapshots that cannot be compared: unlike settings, unlike questions, unlike prompts.

    check_settings         refuses another scoring, rendering or metric, and other versions of the grading rules
    check_pairing          refuses other items, unless those of both sides are wanted, and other numbers of samples;
                           outcomes on two versions of a shipped probe are named as such
    check_options          refuses other numbers of options of one question
    check_prompts          refuses other prompts on more than 1 % of the items
    repeated_prompts       names unlike questions of equal prompts, for a note
    setting_differences    names settings that differ, such as those of another tool's runs, for a note
    align_repeat           the same checks for the weights of one side measured again

Each would turn up as forgetting that never happened: one model scored plain and the other with a chat template is the
commonest false alarm.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.comparing.common_norm import decided_by
from forgetwatch.errors import MismatchError
from forgetwatch.pairing import Pairing, item_codes, pair
from forgetwatch.probes.shipped import shipped_version
from forgetwatch.snapshot import NONE, Snapshot, codes

OnMismatch = Literal["error", "intersect"]

PROMPT_TOLERANCE: Final = 0.01
"""Share of the items whose prompts may differ before a comparison is refused."""

_BY_TASK: Final = {"task_versions": "versions of the task", "num_fewshot": "examples in the prompt"}
_FOR_ALL: Final = {"chat_template_sha": "a chat template", "system_instruction_sha": "a system instruction"}
"""Settings of another tool's run that change its prompts, by their names in a snapshot's metadata."""


def check_settings(before: Snapshot, after: Snapshot, *, allow_prompt_mismatch: bool) -> None:
    """Refuse snapshots that were scored or graded in unlike ways; unlike norms are `comparing.common_norm`'s.

    Raises:
        MismatchError: If a setting of the two differs; one that a side does not name is not compared.
    """
    _check_metrics(before, after)
    _check_scorers(before, after)
    _check_rules(before, after)
    probe_before, probe_after = before.meta.get("probe", {}), after.meta.get("probe", {})
    for name in ("scoring", "rendering"):
        if name in probe_before and name in probe_after and probe_before[name] != probe_after[name]:
            if name == "rendering" and allow_prompt_mismatch:
                continue
            remedy = "score both with the same probe" + (
                ", or pass --allow-prompt-mismatch to compare" if name == "rendering" else ""
            )
            raise MismatchError(
                f"{before.label} was scored with {name} {probe_before[name]!r} and {after.label} with "
                f"{probe_after[name]!r}; {remedy}"
            )


def _check_scorers(before: Snapshot, after: Snapshot) -> None:
    """Refuse log-likelihoods of vLLM beside those of transformers: their rounding would be counted as forgetting."""
    if not all("scorer" in side.meta for side in (before, after)):  # other tools' logs name none
        return
    sides = {str(side.meta["scorer"]).startswith("vllm"): side.label for side in (before, after)}
    if len(sides) == 2:
        raise MismatchError(
            f"the choices of {sides[True]} were scored by vLLM and those of {sides[False]} by transformers, which "
            "round differently: that looks like forgetting; score both with --engine vllm, or both without"
        )


def _check_rules(before: Snapshot, after: Snapshot) -> None:
    """Refuse generated answers that were graded by unlike versions of the rules."""
    if not all("scorer" in side.meta and has_graded_answers(side) for side in (before, after)):
        return
    rules = [rules_of(side) for side in (before, after)]
    if rules[0] != rules[1]:
        _check_versions(before, after)  # the wider reason, if there is one
        raise MismatchError(
            f"the generated answers of {before.label} were graded by version {rules[0]} of the grading rules and those "
            f"of {after.label} by version {rules[1]}, which grade some answers otherwise; score both sides with the "
            "same version of forgetwatch"
        )


def has_graded_answers(snapshot: Snapshot) -> bool:
    """True if a generated answer of the snapshot was graded."""
    # Only generated answers have a form.
    graded = pc.and_(pc.is_valid(snapshot.table["in_form"]), pc.is_valid(snapshot.table["correct"]))
    return bool(pc.any(graded).as_py())


def rules_of(snapshot: Snapshot) -> int:
    """Version of the rules that graded a snapshot's generated answers; 2 where the metadata name none."""
    return int(snapshot.meta.get("rules", 2))


def _check_metrics(before: Snapshot, after: Snapshot) -> None:
    """Refuse logs that were graded by unlike metrics, or by unlike filters of one."""
    if not all("metric" in side.meta for side in (before, after)):  # own snapshots have none
        return
    tasks_before, tasks_after = (side.table["task"].unique().to_pylist() for side in (before, after))
    for task in (task for task in tasks_before if task in tasks_after):
        metrics = [str((side.meta.get("metrics") or {}).get(task, side.meta["metric"])) for side in (before, after)]
        names = {metric.partition(",")[0] for metric in metrics}
        filters = {metric.partition(",")[2] for metric in metrics} - {""}  # "acc,none": the filter may be left out
        if len(names) > 1 or len(filters) > 1:
            raise MismatchError(
                f"task {task!r}: {before.label} is graded by {metrics[0]} and {after.label} by {metrics[1]}; name a "
                "metric that both have with --metric"
            )


def setting_differences(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Settings of the two sides that differ, in words: the norm, autocast, and those of another tool's runs."""
    notes = _unlike_norms(before, after) + _unlike_autocast(before, after)
    if not all("date" in side.meta for side in (before, after)):  # only harness logs have a date
        return tuple(notes)
    for name, words in _BY_TASK.items():
        of_before, of_after = (side.meta.get(name) or {} for side in (before, after))
        if changed := [
            f"{task} {value} and {of_after[task]}"
            for task, value in of_before.items()
            if of_after.get(task, value) != value
        ]:
            notes.append(f"{words} differ: {', '.join(changed[:3])}{', ...' if len(changed) > 3 else ''}")
    for name, words in _FOR_ALL.items():
        hash_before, hash_after = (side.meta.get(name) for side in (before, after))
        if hash_before != hash_after:
            side = "before" if hash_before else "after"
            when = "with another text" if hash_before and hash_after else f"{side} only"
            notes.append(f"{words} was used {when}")
    return tuple(notes)


def _unlike_norms(before: Snapshot, after: Snapshot) -> list[str]:
    """A note on the tasks whose options were compared by unlike norms; empty if there are none."""
    one, other = before.norms, after.norms
    if not (
        changed := [f"{task} {one[task]} and {other[task]}" for task in one if other.get(task, one[task]) != one[task]]
    ):
        return []
    return [f"norms of the score that decides differ: {', '.join(changed[:3])}{', ...' if len(changed) > 3 else ''}"]


def _unlike_autocast(before: Snapshot, after: Snapshot) -> list[str]:
    """A note on autocast that was on for one side, or of another dtype; empty where a side does not name it."""
    if not all("autocast" in side.meta for side in (before, after)):
        return []
    one, other = (side.meta["autocast"] or "none" for side in (before, after))
    return [f"autocast differs, and rounding with it: {one} before, {other} after"] if one != other else []


def check_pairing(before: Snapshot, after: Snapshot, pairing: Pairing, on_mismatch: OnMismatch) -> None:
    """Refuse snapshots of unlike items, unless the items of both sides are wanted, and of unlike numbers of samples.

    Raises:
        MismatchError: If they do not contain the same items with the same number of samples.
    """
    if not pairing.before.size or not (pairing.complete or on_mismatch == "intersect"):
        _check_versions(before, after)
    names = f"{before.label} ({len(before):,} rows) and {after.label} ({len(after):,} rows)"
    if not pairing.before.size:
        why = "they are outcomes on different probes"
        if pairing.content_differs:
            hashed = not (before.missing("content_hash") or after.missing("content_hash"))
            column = "content_hash" if hashed else "gold or k"
            why = f"{pairing.content_differs:,} ids are on both sides, and all of them differ in {column}"
        raise MismatchError(f"{names} have no item in common; {why}")
    counts = sorted({int(n) for side in (before, after) for n in np.unique(np.bincount(item_codes(side)))})
    # Equal numbers may still be other sample indices, which leaves fewer pairs than items times samples.
    if len(counts) > 1 or len(pairing.before) < counts[0] * len(np.unique(pairing.item)):
        raise MismatchError(
            f"{names} have unlike samples: {' and '.join(map(str, counts))} per item; compare equal numbers, or the "
            "first of each with --samples first"
        )
    if pairing.complete or on_mismatch == "intersect":
        return
    differs = f" ({pairing.content_differs:,} ids have unlike questions)" if pairing.content_differs else ""
    raise MismatchError(
        f"{names} are not outcomes on the same items: {len(pairing.only_before):,} items before and "
        f"{len(pairing.only_after):,} after have no partner{differs}; compare the {len(np.unique(pairing.item)):,} "
        "that both have with --on-mismatch intersect"
    )


def _check_versions(before: Snapshot, after: Snapshot) -> None:
    """Refuse outcomes on unlike versions of a shipped probe, whose items differ."""
    probes = [side.meta.get("probe") or {} for side in (before, after)]
    versions = [shipped_version(probe) for probe in probes]
    if None in versions or versions[0] == versions[1] or probes[0].get("name") != probes[1].get("name"):
        return
    raise MismatchError(
        f"{before.label} was scored on version {versions[0]} of the probe {probes[0]['name']!r} and {after.label} on "
        f"version {versions[1]}, whose questions differ; score both sides with the same version (a run folder keeps "
        "the version of its run as probe.jsonl)"
    )


def check_options(before: Snapshot, after: Snapshot, pairing: Pairing) -> None:
    """Refuse paired items whose numbers of options differ; an item without one on a side is not checked.

    Raises:
        MismatchError: If they differ; names the first such item.
    """
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


def check_prompts(before: Snapshot, after: Snapshot, pairing: Pairing, *, allow_prompt_mismatch: bool) -> int:
    """Raise if prompts differ on more than `PROMPT_TOLERANCE` of the items, and return the number that differ.

    Raises:
        MismatchError: If too many differ and a mismatch is not allowed.
    """
    differs, items = prompt_differences(before, after, pairing, "prompt_hash"), len(np.unique(pairing.item))
    if differs > PROMPT_TOLERANCE * items and not allow_prompt_mismatch:
        raise MismatchError(
            f"the prompts of {differs:,} of {items:,} items differ between {before.label} "
            f"({_rendering(before)}) and {after.label} ({_rendering(after)}): what looks like forgetting may be the "
            "format; score both in the same way, or pass --allow-prompt-mismatch to compare"
        )
    return differs


def prompt_differences(before: Snapshot, after: Snapshot, pairing: Pairing, column: str) -> int:
    """Number of paired items whose prompts differ by the hashes in a column; a missing hash equals every other."""
    if before.missing(column) or after.missing(column):
        return 0
    of_before, of_after = before.table[column].take(pairing.before), after.table[column].take(pairing.after)
    differs = np.asarray(pc.fill_null(pc.not_equal(of_before, of_after), False))
    return len(np.unique(pairing.item[differs]))


def repeated_prompts(snapshot: Snapshot) -> str:
    """Sentence on scored items that have the token ids of another, unlike one; empty if none has.

    The tokenizer or the chat template has left out what they differ in, or they are one question with unlike keys.
    """
    rows = np.flatnonzero(~snapshot.is_unscored & np.asarray(snapshot.table["prompt_hash"].is_valid()))
    prompt, question = (codes(snapshot.table[name].take(rows)) for name in ("prompt_hash", "content_hash"))
    # One row for each pair of prompt and question: samples of an item, and equal questions, are no repeat.
    first = np.unique(np.stack([prompt, question]), axis=1, return_index=True)[1]
    repeated = np.isin(prompt[first], np.flatnonzero(np.bincount(prompt[first]) > 1)) if rows.size else first
    if not repeated.any():
        return ""
    names = [repr(name) for name in snapshot.texts("item_id")[np.sort(rows[first[repeated]])]]
    return (
        f"{len(names):,} items have the token ids of another one, such as {' and '.join(names[:2])}: the model reads "
        "nothing of what they differ in"
    )


def align_repeat(before: Snapshot, null: Snapshot) -> tuple[NDArray[np.float64], list[str]]:
    """Right answers of a second measurement in the order of the rows of the first, and notes for the reader.

    Args:
        before: The first measurement.
        null: The same weights measured again.

    Returns:
        1, 0, or nan where the second has no scored answer, float64 [rows of `before`]; and sentences.

    Raises:
        MismatchError: If the two share no item, or are of unlike settings, steps or numbers of samples.
    """
    check_settings(before, null, allow_prompt_mismatch=False)
    # The rows before are those of a comparison, so only the null may be decided again.
    recorded, null = null, decided_by(null, before.norms)
    pairing = pair(before, null)
    if not pairing.before.size:
        raise MismatchError(f"{null.label} has no item of {before.label}; the null is the same weights measured again")
    steps, models = ((before.meta.get(name), null.meta.get(name)) for name in ("step", "model"))
    if None not in steps and steps[0] != steps[1]:
        raise MismatchError(
            f"the null was measured at step {steps[1]}, and {before.label} at step {steps[0]}; the null is the same "
            "weights measured again"
        )
    differs = [f"the null was {null.notes[-1]}"] if null.table is not recorded.table else []
    differs += [f"the null names another model, {models[1]}"] if None not in models and models[0] != models[1] else []
    per_item = [len(side) / len(np.unique(item_codes(side))) for side in (before, null)]
    if per_item[0] != per_item[1]:
        raise MismatchError(
            f"the null has {per_item[1]:g} samples per item and {before.label} has {per_item[0]:g}; measure as many"
        )
    again = np.full(len(before), np.nan)  # the second measurement may cover a part of the items only
    again[pairing.before] = null.floats("correct")[pairing.after]
    if not np.isfinite(again).any() and not null.is_passage.any():  # passages have no flips, and no noise of them
        differs.append("the null has no scored item, so the noise is not known")
    return again, differs


def _rendering(snapshot: Snapshot) -> str:
    return f"{snapshot.meta.get('probe', {}).get('rendering', 'unknown')} prompt"
