"""Checks that two snapshots agree: settings, questions, prompts and the norm of the score that decides.

    check_settings         refuses another scoring, rendering or metric, and other versions of the grading rules
    check_pairing          refuses other items, unless those of both sides are wanted, and other numbers of samples
    check_options          refuses other numbers of options of one question
    check_prompts          refuses other prompts on more than 1 % of the items
    repeated_prompts       names unlike questions of equal prompts, for a note
    setting_differences    names settings that differ, such as those of another tool's runs, for a note
    align_repeat           the same checks for the weights of one side measured again

Each would turn up as forgetting that never happened: one model scored plain and the other with a
chat template is the commonest false alarm.

The norm of the score that decides (`metrics.choices`) is a setting of the probe: between two norms
answers differ that no training has changed, so a comparison needs one. In another tool's log unlike
metrics are refused, and unlike norms noted. Without content hashes nothing shows that the options
of the two sides are the same.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.errors import MismatchError, some_of
from forgetwatch.measures.pairing import Pairing, item_codes, pair
from forgetwatch.snapshot import NONE, Snapshot, codes
from forgetwatch.wording import SHIPPED

_WHOLE: Final = re.compile(r"0*(\d+)(?:\.0+)?")


OnMismatch = Literal["error", "intersect"]


PROMPT_TOLERANCE: Final = 0.01
"""Share of the items whose prompts may differ before a comparison is refused."""


def check_settings(before: Snapshot, after: Snapshot, *, allow_prompt_mismatch: bool) -> None:
    """Refuse snapshots that were scored or graded differently.

    Raises:
        MismatchError: If a setting of the two differs; one that a side does not name is not
            compared.
    """
    _check_metrics(before, after)
    _check_rules(before, after)
    _check_norms(before, after)
    rule_before, rule_after = (side.meta.get("right_if") for side in (before, after))
    if rule_before != rule_after and rule_before and rule_after:
        raise MismatchError(
            f"{before.label} counts {rule_before} as right and {after.label} {rule_after}; give "
            "both one threshold (--right-if)"
        )
    probe_before, probe_after = before.meta.get("probe") or {}, after.meta.get("probe") or {}
    for name, remedy in (
        ("scoring", ""),
        ("rendering", ", or pass --allow-prompt-mismatch to compare"),
    ):
        if name == "rendering" and allow_prompt_mismatch:
            continue
        if name in probe_before and name in probe_after and probe_before[name] != probe_after[name]:
            is_served = any("server" in side.meta for side in (before, after))
            same = "serve both with one program" if is_served else "score both with the same probe"
            raise MismatchError(
                f"{before.label} was scored with {name} {probe_before[name]!r} and "
                f"{after.label} with {probe_after[name]!r}; {same}{remedy}"
            )


def _check_norms(before: Snapshot, after: Snapshot) -> None:
    if any("tool" in side.meta for side in (before, after)):
        return
    norms_before, norms_after = before.norms, after.norms
    if unlike := [
        task for task, norm in norms_before.items() if norms_after.get(task, norm) != norm
    ]:
        raise MismatchError(
            f"{before.label} was decided by the norm {norms_before[unlike[0]]!r} and "
            f"{after.label} by {norms_after[unlike[0]]!r}; score both with the same probe"
        )


def _check_rules(before: Snapshot, after: Snapshot) -> None:
    if not all("scorer" in side.meta and has_graded_answers(side) for side in (before, after)):
        return
    rules = [rules_of(side) for side in (before, after)]
    if rules[0] != rules[1]:  # the wider reason, if there is one
        raise MismatchError(
            f"the generated answers of {before.label} were graded by version {rules[0]} of the "
            f"grading rules and those of {after.label} by version {rules[1]}, which grade some "
            "answers otherwise; score both sides with the same version of forgetwatch"
        )


def has_graded_answers(snapshot: Snapshot) -> bool:
    """Was any generated answer of the snapshot graded?"""
    # Only generated answers have a form.
    graded = pc.and_(pc.is_valid(snapshot.table["in_form"]), pc.is_valid(snapshot.table["correct"]))
    return bool(pc.any(graded).as_py())


def rules_of(snapshot: Snapshot) -> int:
    """Version of the rules that graded generated answers.

    Returns:
        The version, 2 if the metadata name none.
    """
    return int(snapshot.meta.get("rules", 2))


def _check_metrics(before: Snapshot, after: Snapshot) -> None:
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
                f"task {task!r}: {before.label} is graded by {metrics[0]} and {after.label} by "
                f"{metrics[1]}; name a metric that both have with --metric"
            )


def setting_differences(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Describe the settings that differ between the two sides.

    The norm, autocast, and settings of another tool's runs.
    """
    notes = _by_task("norms of the score that decides", before.norms, after.norms)
    if all("autocast" in side.meta for side in (before, after)):
        setting_before, setting_after = (
            side.meta["autocast"] or "none" for side in (before, after)
        )
        notes += (
            [
                f"autocast differs, and rounding with it: {setting_before} before, "
                f"{setting_after} after"
            ]
            if setting_before != setting_after
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


def form_notes(notes: Sequence[str]) -> list[str]:
    """Notes that the sides were asked in unlike forms, which may explain any loss."""
    return [note for note in notes if " was used " in note]


def _by_task(words: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    unlike = [
        f"{task} {setting} and {after[task]}"
        for task, setting in before.items()
        if after.get(task, setting) != setting
    ]
    return [f"{words} differ: {some_of(unlike, 3)}"] if unlike else []


def _unlike_spelling(before: Snapshot, after: Snapshot) -> str:
    # Ids that differ by zeros (1, 1.0 and 001), spaces or Unicode form alone.
    ours, theirs = set(before.texts("item_id")), set(after.texts("item_id"))
    numbers = {_spelling(name): name for name in ours - theirs}
    pairs = [
        (numbers[number], name)
        for name in sorted(theirs - ours)
        if (number := _spelling(name)) in numbers
    ]
    if not pairs:
        return ""
    id_before, id_after = pairs[0]
    return f"{len(pairs):,} ids are spelled unlike, such as {id_before!r} and {id_after!r}; write them alike"


def _spelling(name: str) -> str:
    number = _WHOLE.fullmatch(name)
    return " ".join(unicodedata.normalize("NFC", name).split()) if number is None else number[1]


def check_pairing(
    before: Snapshot, after: Snapshot, pairing: Pairing, on_mismatch: OnMismatch
) -> None:
    """Refuse snapshots of different items or numbers of samples.

    Different items are allowed if the common ones are wanted.
    """
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
    # Equal numbers may still be other sample indices, which leaves fewer pairs than items times
    # samples.
    has_scores = not (before.missing("score") and after.missing("score"))
    paired = np.unique(np.unique(pairing.item, return_counts=True)[1])
    is_unlike = len(counts) > 1 or len(pairing.before) < counts[0] * len(np.unique(pairing.item))
    if is_unlike and not (has_scores and len(paired) == 1):  # the mean score takes all there are
        raise MismatchError(
            f"{names} have unlike samples: {' and '.join(map(str, counts))} per item; compare "
            "equal numbers, or the first of each with --samples first"
        )
    probes = {str((side.meta.get("probe") or {}).get("name")) for side in (before, after)}
    ladders = len(probes) > 1 and all(re.match(r"ladder-[123]\b", name) for name in probes)
    # All lists of the ladder have the same questions of `standard`.
    if pairing.complete or on_mismatch == "intersect" or ladders:
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
    shared = len(np.unique(pairing.item))
    alone = len(pairing.only_before), len(pairing.only_after)
    remedy = f"compare the {shared:,} that both have with --on-mismatch intersect"
    if 9 * max(alone) > shared:  # more than a tenth of a side
        remedy = f"both have only {shared:,}: evaluate both on the same items"
    raise MismatchError(
        f"{names} are not outcomes on the same items: {alone[0]:,} items before and {alone[1]:,} "
        f"after have no partner{differs}; {remedy}"
    )


def _unlike_wordings(before: Snapshot, after: Snapshot, pairing: Pairing) -> str:
    sides = ((before, pairing.only_before), (after, pairing.only_after))
    pairs_of_wordings = [
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
        (pairs_of_wordings[0][key], pairs_of_wordings[1][key])
        for key in pairs_of_wordings[0]
        if key[1]
        and pairs_of_wordings[1].get(key, pairs_of_wordings[0][key]) != pairs_of_wordings[0][key]
    ]
    if not unlike:
        return ""
    wording_before, wording_after = unlike[0]
    return (
        f"were asked {len(unlike):,} questions in other words, such as in the wordings "
        f"{wording_before!r} and {wording_after!r}; score both sides with the same probe"
    )


def check_options(before: Snapshot, after: Snapshot, pairing: Pairing) -> None:
    """Refuse paired items with different numbers of options."""
    k_before, k_after = before.ints("k")[pairing.before], after.ints("k")[pairing.after]
    unlike = np.flatnonzero((k_before != k_after) & (k_before != NONE) & (k_after != NONE))
    if unlike.size:
        pair_index = int(unlike[0])
        row = int(pairing.before[pair_index])
        raise MismatchError(
            f"item {before.texts('item_id')[row]!r} of task {before.texts('task')[row]!r} has "
            f"{k_before[pair_index]} options in {before.label} and {k_after[pair_index]} in "
            f"{after.label}, with equal content hashes ({len(np.unique(pairing.item[unlike])):,} "
            "such items); needed the same options on both sides: correct the column k, or score "
            "both in the same way"
        )


def check_prompts(
    before: Snapshot, after: Snapshot, pairing: Pairing, *, allow_prompt_mismatch: bool
) -> int:
    """Count the items whose prompts differ.

    More than `PROMPT_TOLERANCE` of them are refused unless that is allowed.
    """
    items = len(np.unique(pairing.item))
    if _are_plain_texts(before, after):
        return 0
    differs = prompt_differences(before, after, pairing, "prompt_hash")
    if differs > PROMPT_TOLERANCE * items and not allow_prompt_mismatch:
        rendered = [
            f"{side.label} ({side.meta.get('probe', {}).get('rendering', 'unknown')} prompt"
            f"{', sent to a server' * ('server' in side.meta)})"
            for side in (before, after)
        ]
        raise MismatchError(
            f"the prompts of {differs:,} of {items:,} items differ between {rendered[0]} and "
            f"{rendered[1]}: what looks like forgetting may be the format; score both in the same "
            "way, or pass --allow-prompt-mismatch to compare"
        )
    return differs


def _are_plain_texts(before: Snapshot, after: Snapshot) -> bool:
    # One hash is of a text that a server was sent, one of token ids; both are the probe's own text.
    sides = (before, after)
    probe, other = (side.meta.get("probe") or {} for side in sides)
    return (
        ("server" in before.meta) != ("server" in after.meta)
        and probe.get("fingerprint") == other.get("fingerprint") is not None
        and probe.get("rendering") == "plain"
        # Answers are generated in a rendering of their own.
        and all(side.missing("output") for side in sides)
    )


def prompt_differences(before: Snapshot, after: Snapshot, pairing: Pairing, column: str) -> int:
    """Count paired items whose prompt hashes in a column differ.

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
    """Describe scored items that share their token ids.

    The tokenizer or the chat template has left out what they differ in, or they are one question
    with unlike keys.
    """
    rows = np.flatnonzero(
        ~snapshot.is_unscored & np.asarray(snapshot.table["prompt_hash"].is_valid())
    )
    prompt, question = (
        codes(snapshot.table[name].take(rows)) for name in ("prompt_hash", "content_hash")
    )
    # One row for each pair of prompt and question: samples of an item, and equal questions, are no
    # repeat.
    first_rows = np.unique(np.stack([prompt, question]), axis=1, return_index=True)[1]
    repeated = (
        np.isin(prompt[first_rows], np.flatnonzero(np.bincount(prompt[first_rows]) > 1))
        if rows.size
        else first_rows
    )
    if not repeated.any():
        return ""
    names = [repr(name) for name in snapshot.texts("item_id")[np.sort(rows[first_rows[repeated]])]]
    return (
        f"{len(names):,} items have the token ids of another one, such as "
        f"{' and '.join(names[:2])}: the chat template or the tokenizer leaves out what they differ "
        "in, so the model cannot tell them apart; leave out these items, or mend the template"
    )


def align_repeat(
    before: Snapshot, null: Snapshot
) -> tuple[tuple[NDArray[np.float64], NDArray[np.int64]], list[str]]:
    """Align a second measurement of the same weights.

    Raises:
        MismatchError: If the measurement shares no item, or has other settings, steps or numbers of
        samples.
    """
    check_settings(before, null, allow_prompt_mismatch=False)
    pairing = pair(before, null)
    if not pairing.before.size:
        raise MismatchError(
            f"{null.label} has no item of {before.label}; a second measurement is of the same "
            "weights"
        )
    steps, models = ((before.meta.get(name), null.meta.get(name)) for name in ("step", "model"))
    if None not in steps and steps[0] != steps[1]:
        raise MismatchError(
            f"the second measurement is of step {steps[1]}, and the first of step {steps[0]}; needed "
            "the same weights, measured again"
        )
    differs = []
    if None not in models and models[0] != models[1]:
        # A log has the id of its model; a snapshot may have another path of the same weights.
        if "tool" in before.meta:
            raise MismatchError(
                f"the second measurement is of {models[1]}, and {before.label} of {models[0]}; "
                "needed the same weights, measured again"
            )
        differs = [f"the second measurement names another model, {models[1]}"]
    per_item = [len(side) / len(np.unique(item_codes(side))) for side in (before, null)]
    if per_item[0] != per_item[1]:
        raise MismatchError(
            f"the second measurement has {per_item[1]:g} samples per item and {before.label} has "
            f"{per_item[0]:g}; measure as many"
        )
    # The second measurement may cover a part of the items only.
    repeated, chosen = np.full(len(before), np.nan), np.full(len(before), NONE)
    repeated[pairing.before] = null.right_as_base[pairing.after]
    if not null.missing("chosen"):
        chosen[pairing.before] = null.ints("chosen")[pairing.after]
    if (
        not np.isfinite(repeated).any() and not null.is_passage.any()
    ):  # passages have no flips, and no noise of them
        differs.append("the null has no scored item, so the noise is not known")
    return (repeated, chosen), differs


def is_of_run(before: Snapshot, after: Snapshot) -> bool:
    """Is `before` the baseline of the run of `after`?"""
    run = after.meta.get("run")
    return (
        run is not None and before.meta.get("run") == run and before.meta.get("look") == "baseline"
    )
