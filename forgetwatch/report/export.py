"""Documents of comparisons and runs: JSON and CSV in full precision, Markdown, a model card, a policy's comment.

    forgetwatch/comparison@2     one comparison
    forgetwatch/comparisons@2    several with one base, with their matrix and ranking
    forgetwatch/trajectory@2     a run

Rates are fractions, counts are integers (means if items have several samples), p-values are two-sided. An undefined
quantity is null, never 0 or nan. Later versions add keys and redefine none. The CSV table has one line for each group
and one column for each quantity of the JSON document, and where the drift was measured its numbers in the line of all.

Markdown is for a pull request, a chat, or the summary of a pipeline: plain tables, no HTML. `comparison_markdown` shows
the losses of the largest margin with their texts.

**Model card.** What a fine-tuning forgot, as a section, and as results that the hub reads (``model-index``).

    <!-- forgetwatch -->
    ## What it forgot
    ...
    <!-- end of forgetwatch -->

The section is replaced where a card has one, and appended where it has none; the other text of the card stays. The
metadata at its head are written anew by huggingface_hub, without their comments. The section holds numbers and names of
categories, and no text of a question.

**Policy comment.** The result of a policy as Markdown for a pull request, and as annotations of a workflow.

A comment begins and ends with a marker that names the policy, by which a later one takes its place: `put_comment`
replaces the part of a file between the markers, and a workflow finds its comment by the first.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import yaml

from forgetwatch.comparing import (
    TOLERANCE,
    Alarm,
    CategoryMeans,
    Causes,
    Comparison,
    Decision,
    Flip,
    KeptOf,
    Leg,
    LegName,
    Level,
    ModelComparison,
    Spread,
    Tolerance,
    Trajectory,
    decide,
    decide_run,
    group_values,
    kept,
    kept_of,
    ranked_categories,
    sort_flips,
    unmeasured,
)
from forgetwatch.errors import SnapshotError
from forgetwatch.extras import missing
from forgetwatch.files import write_text
from forgetwatch.measures import (
    DRIFT_KEY,
    MEASURES,
    NET_ESTIMATE,
    QUANTITIES,
    Again,
    Quantity,
    drift_json,
    drift_row,
    json_value,
    value_at,
)
from forgetwatch.metrics import DEFINITION, TAU
from forgetwatch.policy import PolicyResult, Ruling
from forgetwatch.policy.ruling import VERDICT_ERROR
from forgetwatch.report.document import (
    Aside,
    Bullets,
    Heading,
    Part,
    Table,
    document,
    stages_json,
)
from forgetwatch.report.eight_lines import FirstTable, first_table
from forgetwatch.report.sentences import Summary, summary
from forgetwatch.text import count, items, shorten
from forgetwatch.version import VERSION
from forgetwatch.visible_text import csv_cell, visible, without_folders

SCHEMA: Final = "forgetwatch/comparison@2"
SCHEMA_SEVERAL: Final = "forgetwatch/comparisons@2"
SCHEMA_RUN: Final = "forgetwatch/trajectory@2"

_ITEM_HISTORY: Final = ("newly_forgotten", "newly_regained", "ever_forgotten", "regained")


def comparison_json(
    comparison: Comparison, *, tolerance: Tolerance = TOLERANCE, of: KeptOf | None = None
) -> dict[str, Any]:
    """Return the JSON document of one comparison.

    Args:
        comparison: The comparison.
        tolerance: Losses that its verdict tolerates.
        of: What the kept share is a share of; by default what this comparison measures.
    """
    found = decide(comparison, tolerance)
    ranked, differ_p_value = ranked_categories(comparison)
    return {
        "schema": SCHEMA,
        "before": _metadata(comparison.before),
        "after": _metadata(comparison.after),
        "items": vars(comparison.items),
        "groups": [group_values(group) for group in comparison.groups],
        "macro": _macro(comparison.macro),
        "paper_compat": None if comparison.paper_compat is None else _macro(comparison.paper_compat),
        "samples": comparison.samples,
        "clusters": comparison.clusters,
        "definitions": {
            "known": DEFINITION,
            "tau": TAU,
            "margin": _margin_definition(comparison),
        },
        "verdict": _verdict(found),
        "kept": json_value(vars(kept(comparison.all, of))),
        "categories": {
            "differ_p_value": json_value(differ_p_value),
            "ranked": [
                {
                    "name": one.group.name,
                    "change": one.change,
                    "interval": json_value(one.interval),
                    "shrunk": one.shrunk,
                }
                for one in ranked
            ],
        },
        "notes": list(comparison.notes),
        "drift": drift_json(comparison.drift),
        "again": None if comparison.again is None else _again_json(comparison.again),
        "wordings": None if comparison.wordings is None else json_value(vars(comparison.wordings)),
    }


_NAMES: Final[tuple[LegName, ...]] = ("accuracy", "knowledge", "category")


def _verdict(found: Decision) -> dict[str, Any]:
    """Return the JSON values of a verdict; a leg that was left out or not measured has null for its answer."""
    return {
        # A comparison in a run is one look.
        "question": "in this comparison alone, is a loss beyond its limit?",
        "answer": found.answer,
        "word": found.word,
        **{name: json_value(getattr(found, name)) for name in ("sentence", "reasons", "next", "deciding")},
        "legs": {name: json_value(vars(found.leg(name) or Leg(name=name))) for name in _NAMES},
    }


def _margin_definition(comparison: Comparison) -> dict[str, float] | None:
    """Return the numbers of the estimate from margins; None where options have no scores."""
    found = comparison.all[NET_ESTIMATE]
    return None if found is None or found.rule is None else found.rule.definition


def _metadata(meta: Mapping[str, Any]) -> Any:
    """Return the JSON values of the metadata of a side, without the drift, which has a key of its own."""
    return json_value({name: value for name, value in meta.items() if name != DRIFT_KEY})


def _again_json(found: Again) -> dict[str, Any]:
    """Return what became of the lost in other wordings as JSON values."""
    counts = found.counts
    numbers = {
        "excess": counts.excess,
        "interval": counts.interval,
        "known_lost_in_every_wording": counts.in_every_wording,
        "known_lost_in_every_wording_interval": [counts.lost * end for end in counts.interval],
    }
    return {
        "wordings": list(found.wordings),
        "by_wording": dict(found.by_wording),
        **vars(counts),
        **{name: json_value(value) for name, value in numbers.items()},
        "left_out": found.left_out,
        "items": [{"task": task, "item_id": one, "status": status} for (task, one), status in found.status.items()],
    }


def comparisons_json(
    comparisons: Sequence[Comparison], several: ModelComparison | None = None, *, tolerance: Tolerance = TOLERANCE
) -> dict[str, Any]:
    """Return the JSON document of one comparison, or of several with their matrix and ranking."""
    documents = [comparison_json(comparison, tolerance=tolerance) for comparison in comparisons]
    if len(documents) == 1:
        return documents[0]
    together = {} if several is None else several_json(several)
    return {"schema": SCHEMA_SEVERAL, "comparisons": documents, **together}


def several_json(several: ModelComparison) -> dict[str, Any]:
    """Return the keys of the matrix and the ranking; `number` is a model's index in `comparisons`, from 1."""
    matrix, target = several.matrix, several.target
    found = {"labels": matrix.labels, "items": matrix.items, "left_out": matrix.left_out, "lost": matrix.lost}
    named = None if target is None else {"name": target.name, "less_is_better": target.less_is_better}
    return {
        "matrix": json_value(found),
        "ranking": {
            "target": named,
            "models": [json_value({**vars(one), "kept": vars(one.kept)}) for one in several.ranking],
        },
    }


def trajectory_json(trajectory: Trajectory, *, tolerance: Tolerance = TOLERANCE) -> dict[str, Any]:
    """Return the JSON document of a run: its looks in order, and the history of its items.

    Counts of the history are over the items that were scored at every look. `if_guessed` has the same keys with the
    counts expected of a model that only guesses.
    """
    item_history, guessed, n = trajectory.item_history, trajectory.guessed, trajectory.item_history.items
    verdicts, ending = trajectory.verdicts(), trajectory.own.ending
    made = decide_run(trajectory, tolerance)
    looks = [_look(trajectory, index, verdicts, tolerance) for index in range(len(trajectory) - 1)]
    events, rows = np.unique(item_history.events, return_counts=True)
    # With several samples an item has several rows, and counts are means over them.
    counts = (rows if n == len(item_history.events) else rows * n / len(item_history.events)).tolist()
    return {
        "schema": SCHEMA_RUN,
        "baseline": {"step": trajectory.steps[0], **_metadata(trajectory.comparisons[0].before)},
        "planned_looks": trajectory.planned,
        "ending": None if ending is None else ending.stored,
        "decision": {
            **{name: getattr(made, name) for name in ("word", "answer", "sentence")},
            "step": trajectory.final_step,
        },
        "stages": None if trajectory.matrix is None else stages_json(trajectory.matrix),
        "stage": trajectory.number,
        "since_stage": None if trajectory.stage is None else trajectory_json(trajectory.stage, tolerance=tolerance),
        "task": None if trajectory.task is None else trajectory.task.stored,
        "items": n,
        "forgetting_events": {str(number): count for number, count in zip(events, counts, strict=True)},
        "never_forgotten": item_history.never_forgotten,
        "temporal_forgetting": json_value(item_history.temporal_forgetting),
        "if_guessed": {
            "forgetting_events": json_value(n * guessed.events),
            "never_forgotten": json_value(n * guessed.never_forgotten),
            "temporal_forgetting": json_value(guessed.temporal_forgetting),
        },
        "alarms": [
            {
                "kind": one.kind,
                "by": one.by,
                "step": one.step,
                "group": one.group.name,
                "p": json_value(one.p_value),
                "level": one.alarm_level,
            }
            for one in trajectory.alarms()
        ],
        "guard": [vars(finding) for finding in trajectory.findings],
        "notes": list(trajectory.notes),
        "looks": looks,
    }


def _look(trajectory: Trajectory, index: int, verdicts: Sequence[Alarm], tolerance: Tolerance) -> dict[str, Any]:
    """Return the JSON values of one look; index 0 is the first after the baseline."""
    item_history, guessed, step = trajectory.item_history, trajectory.guessed, trajectory.steps[index + 1]
    return {
        "step": step,
        "drift": drift_json(trajectory.comparisons[index + 1].drift),
        **{name: getattr(item_history, name)[index].item() for name in _ITEM_HISTORY},
        "if_guessed": {
            name: json_value(item_history.items * float(getattr(guessed, name)[index])) for name in _ITEM_HISTORY
        },
        "alarms": [
            {
                "kind": alarm.kind,
                "by": alarm.by,
                "level": alarm.group.level,
                "name": alarm.group.name,
                "raised": alarm.raised,
                "p_value": json_value(alarm.p_value),
                "alarm_level": alarm.alarm_level,
                "smallest_loss": json_value(alarm.smallest_loss),
            }
            for alarm in verdicts
            if alarm.step == step
        ],
        "comparison": comparison_json(
            trajectory.comparisons[index + 1], tolerance=tolerance, of=kept_of([trajectory.comparisons[0].all])
        ),
    }


def _macro(macro: CategoryMeans) -> dict[str, Any]:
    def rates(lost: Spread, won: Spread) -> dict[str, Any]:
        return {"forgetting": json_value(vars(lost)), "backward_transfer": json_value(vars(won))}

    by_category = {name: rates(*both) for name, both in macro.by_category.items()}
    return {**rates(macro.forgetting, macro.backward_transfer), "by_category": by_category}


def comparisons_csv(comparisons: Sequence[Comparison]) -> str:
    """Return the CSV table of the groups of all comparisons; a cell is empty if its quantity is undefined.

    A name that a spreadsheet would run as a formula has an apostrophe before it.

    >>> comparisons_csv([]).split(",")[:4]
    ['before', 'after', 'level', 'name']
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    drifts = [json_value(drift_row(comparison.drift or {})) for comparison in comparisons]
    of_drift = list(dict.fromkeys(name for row in drifts for name in row))
    writer.writerow(["before", "after", "level", "name", *QUANTITIES, *of_drift])
    for comparison, drift in zip(comparisons, drifts, strict=True):
        for group in comparison.groups:
            document = group_values(group)
            values = [value_at(document, path) for path in QUANTITIES]
            values += [drift.get(name) if group.level == "all" else None for name in of_drift]
            names = (*comparison.labels, group.level, group.name)
            writer.writerow([*map(csv_cell, names), *values])
    return text.getvalue()


ITEMS = 20
"""Maximum number of lost items that are listed."""


def comparison_markdown(
    comparison: Comparison,
    *,
    changed: Sequence[Flip] = (),
    trajectory: Trajectory | None = None,
    by: Level = "category",
    tolerance: Tolerance = TOLERANCE,
    title: str = "",
) -> str:
    """Return the Markdown of a comparison: the first screen, its sections, the groups of one level, and lost questions.

    Args:
        comparison: The comparison; of a run, its last look against its baseline.
        changed: Items whose answer changed.
        trajectory: The run, if there is one.
        by: Level of the groups that are listed.
        tolerance: Losses that the verdict tolerates.
        title: Name of the run.
    """
    made = first_table(comparison, trajectory=trajectory, tolerance=tolerance, name=title)
    first = summary(comparison, made, changed=changed)
    levels: tuple[Level, ...] = tuple(dict.fromkeys(("all", "kind", "wording", by)))
    lines = _first_screen(first)
    for section in document(comparison, first, trajectory=trajectory, levels=levels):
        lines += [f"## {escaped(section.heading)}", ""]
        for part in section.parts:
            lines += [*_part(part), ""]
    forgotten = [flip for flip in sort_flips(changed) if flip.what == "forgotten"]
    if lost := forgotten[:ITEMS]:
        more = len(forgotten) > len(lost)
        listed = f"{len(lost)} of {len(forgotten):,} forgotten, those of the largest margin:"
        lines += ["## Which questions", "", listed if more else f"{len(lost):,} forgotten:", ""]
        lines += table(["item", "question", "before", "after"], [_item(flip) for flip in lost])
    for note in () if trajectory is None else trajectory.notes:
        lines += ["", f"* {escaped(without_folders(note))}"]
    return "\n".join(lines).rstrip() + "\n"


def _part(part: Part) -> list[str]:
    if isinstance(part, Table):
        rows = [[row.name, *row.cells.values()] for _, rows in part.bodies for row in rows]
        return table([part.of, *part.headings.values()], rows)
    if isinstance(part, Bullets):
        return [f"* {escaped(line)}" for line, _ in part.lines]
    if isinstance(part, Heading):
        return [f"### {escaped(part.text)}"]
    return [escaped(part.text if isinstance(part, Aside) else part)]


def _first_screen(first: Summary) -> list[str]:
    """Return the lines of the first table and of the lost questions."""
    lines = [*_first_table(first.first), ""]
    if first.lost:
        lines += [f"**{escaped(first.lost_title)}**", ""]
        lines += [f"* {escaped(f'{one.question} before {one.before}, now {one.after}')}" for one in first.lost]
        lines += [""]
    return lines


def _first_table(first: FirstTable, more: Sequence[tuple[str, str]] = ()) -> list[str]:
    """Return the lines of a first table; `more` are further rows."""
    made, rows = first.decision, [*first.rows, *more]
    lines = [f"**{made.word}** {escaped(f'{first.name}: {made.claim}')}", ""]
    lines += [escaped(made.basis), ""] if made.basis else []
    return [*lines, *table([*map(escaped, rows[0])], rows[1:])] if rows else lines


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; the text of its cells is escaped."""
    lines = [names, ["---"] * len(names), *([escaped(cell) for cell in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def escaped(text: str) -> str:
    """Return the text in one line, escaped so that Markdown shows it unchanged."""
    return re.sub(r"([\\`*_\[\]<>#|~&])", r"\\\1", visible(" ".join(text.split())))


def _item(flip: Flip) -> list[str]:
    said = [flip.answer(flip.before), flip.answer(flip.after)]
    return [f"{flip.task} / {flip.item_id}", shorten(flip.question or ""), *(shorten(one or "", 60) for one in said)]


def causes_json(found: Causes) -> dict[str, Any]:
    """Return why answers were lost as JSON values."""
    return {
        "schema": "forgetwatch/why@2",
        "items": found.items,
        "lost": found.lost,
        "answer": str(found),
        "columns": [
            {
                "column": one.column,
                "parts": [part._asdict() for part in one.parts],
                "auc": None if one.separation is None else one.separation.auc,
                "p_value": None if one.separation is None else one.p_value,
                "explained": None if one.explained is None else one.explained.share,
                "explained_by_chance": None if one.explained is None else one.explained.permuted,
                "explains": one.explains,
            }
            for one in found.causes
        ],
        "categories": [
            {"category": name, "items": items, "lost": lost, "words_per_1000": uses if uses == uses else None}
            for name, items, lost, uses in found.categories
        ],
        "answers": [one._asdict() for one in found.answers if one.lost],
        "between_categories": None
        if found.between is None
        else {"rank_correlation": found.between[0], "p_value": found.between[1]},
    }


CARD: Final = "README.md"
_BEGIN: Final = "<!-- forgetwatch -->"
_END: Final = "<!-- end of forgetwatch -->"
_SECTION: Final = re.compile(rf"^{re.escape(_BEGIN)}$.*?^{re.escape(_END)}$", re.MULTILINE | re.DOTALL)
_TYPE: Final = "forgetwatch"


def card_section(trajectory: Trajectory, run: Path | str, *, tolerance: Tolerance = TOLERANCE) -> str:
    """Return the section on a run's last look: verdict, facts, worst categories, and how it was measured."""
    comparison = trajectory.final
    probe = _probe(comparison)
    facts = (
        ("probe", f"{_name(comparison)}, {probe.get('rendering', '?')} prompt"),
        ("fingerprint", str(probe.get("fingerprint", "?"))[:16]),
        ("steps", f"{comparison.before.get('step', '?')} to {comparison.after.get('step', '?')}"),
        ("measured with", f"forgetwatch {VERSION}"),
    )
    first = first_table(comparison, trajectory=trajectory, run=run, tolerance=tolerance)
    lines = [_BEGIN, "## What it forgot", "", *_first_table(first, facts), ""]
    return "\n".join([*lines, "Brackets hold 95 % intervals; changes are in percentage points.", _END])


def write_card(path: Path, trajectory: Trajectory, *, tolerance: Tolerance = TOLERANCE) -> None:
    """Write the section of a run's last look, and its results, into a model card, which is made if there is none.

    Raises:
        SnapshotError: If the metadata of the card cannot be read, or the package huggingface_hub is not installed.
    """
    try:
        from huggingface_hub import EvalResult, ModelCard, ModelCardData
    except ModuleNotFoundError as error:
        raise SnapshotError(missing(error, what="a model card") or str(error)) from error
    comparison = trajectory.final
    try:
        text = path.read_bytes().decode("utf-8-sig") if path.is_file() else f"---\n{ModelCardData()}\n---\n"
        card = ModelCard(text)
        data: Any = card.data
        others = [one for one in data.eval_results or [] if one.dataset_type != _TYPE]
        if len({str(model.get("name")) for model in _models(text)}) > 1:
            raise ValueError("its model-index is of several models")
    except (ValueError, TypeError, KeyError, yaml.YAMLError) as error:
        raise SnapshotError(f"{path}: the metadata at its head cannot be read ({error}); mend or delete it") from error
    probe = _probe(comparison)
    quantities = [one for measure in MEASURES for one in measure.quantities if isinstance(one, Quantity)]
    numbers = [one for one in quantities if one.tracked in ("all", "category", "card")]
    data.eval_results = others + [
        EvalResult(
            task_type="text-generation",
            dataset_type=_TYPE,
            dataset_name=_name(comparison),
            dataset_revision=str(probe.get("fingerprint", ""))[:16],
            metric_type=one.name,
            metric_name=one.name.replace("_", " "),
            metric_value=round(value, 4),
        )
        for one in ([] if unmeasured(trajectory) else numbers)  # those that every tracker gets
        if (value := comparison.all[one.name]) is not None
    ]
    data.model_name = data.model_name or path.resolve().parent.name
    section = card_section(trajectory, path.parent, tolerance=tolerance)
    old = _SECTION.search(card.text)
    before, after = (card.text[: old.start()], card.text[old.end() :]) if old else (card.text, "")
    card.text = "\n\n".join(part for part in (before.strip("\n"), section, after.strip("\n")) if part) + "\n"
    write_text(path, str(card))


def _models(text: str) -> list[dict[str, Any]]:
    """Return the models of the ``model-index`` at the head of a card."""
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    head = REGEX_YAML_BLOCK.search(text)
    found = yaml.safe_load(head[2]) if head else None
    return list((found or {}).get("model-index") or [])


def _name(comparison: Comparison) -> str:
    return f"{_probe(comparison).get('name', '?')}, {items(comparison.items.compared)}"


def _probe(comparison: Comparison) -> dict[str, Any]:
    found = comparison.after.get("probe")
    return found if isinstance(found, dict) else {}


QUESTIONS: Final = 10
"""Lost questions in a comment."""

_ANSWER: Final = 60
"""Characters of an answer."""

_DECIDING: Final = 3
"""Limits that decide against a model, in a comment."""

_LEVELS: Final = {"FAIL": "error", "INCONCLUSIVE": "warning", "MISSING": "warning"}


def marker(policy: str) -> str:
    """Return the marker of the comments of a policy."""
    return f"<!-- forgetwatch policy: {quote(policy, safe=' ')} -->"


def policy_comment(result: PolicyResult, changed: Sequence[Flip] = (), *, names: tuple[str, str] | None = None) -> str:
    """Return the result as Markdown between its markers: verdict, answer, what decides, and lost questions, folded.

    Args:
        result: The result.
        changed: Items whose answer changed.
        names: Names of the two sides, where their labels are equal; None for the labels.
    """
    made, own = result.decision, marker(result.policy.name)
    labels = result.comparison.labels
    before, after = names if names and labels[0] == labels[1] else labels
    first = first_table(result.comparison, name=f"{after} against {before}")
    lines = [
        f"### forgetwatch: {made.word}; policy {escaped(result.policy.name)} {result.answer}",
        "",
        *(f"{escaped(text)}  " for text in (f"{first.name}: {made.claim}", made.basis) if text),
        *(f"{label}: {escaped(text)}  " for label, text in first.rows if label in ("answers", "where")),
        *(f"{one.answer}: {escaped(one.line)}  " for one in against(result)[:_DECIDING]),
        *(f"{escaped(text)}  " for text in (false_alarms(result),) if text),
    ]
    lost = [flip for flip in sort_flips(changed) if flip.what == "forgotten" and flip.question]
    if lost:
        rows = [
            [
                shorten(flip.question or ""),
                *(shorten(flip.answer(side) or "", _ANSWER) for side in (flip.before, flip.after)),
            ]
            for flip in lost[:QUESTIONS]
        ]
        summary_line = f"{len(rows)} of {count(len(lost))} lost questions, the surest first"
        lines += [f"<details><summary>{summary_line}</summary>", "", *table(["question", "before", "after"], rows)]
        lines += ["", "</details>"]
    text = "\n".join(lines).replace("@", "@\N{ZERO WIDTH SPACE}")  # nobody is called by the text of a question
    return "\n".join([own, text, own.replace("<!-- ", "<!-- end of ")]) + "\n"


def against(result: PolicyResult) -> Sequence[Ruling]:
    """Return the limits that decide against the model; none where the answer is PASS."""
    return () if result.answer == "PASS" else result.deciding


def false_alarms(result: PolicyResult) -> str:
    """Return how many unchanged models fail a policy; empty where it limits no loss."""
    on_verdict = any(rule.kind == "verdict" and rule.tier != "advisory" for rule in result.policy.rules)
    on_losses = result.limits and not all(one.of_gain for one in result.rulings if one.decides)
    failing = 100 * (VERDICT_ERROR * on_verdict + result.policy.error * bool(on_losses))
    return f"false alarms: at most {failing:g} of 100 unchanged models fail this policy" if failing else ""


def put_comment(text: str, comment: str) -> str:
    """Return a text with a comment in place of the earlier one of its policy, or at its end."""
    first, last = comment.splitlines()[0], comment.rstrip("\n").splitlines()[-1]
    start, end = text.find(first), text.find(last)
    if start == -1 or end < start:
        return f"{text.rstrip()}\n\n{comment}" if text.strip() else comment
    return text[:start] + comment.rstrip("\n") + text[end + len(last) :]


def step_annotations(result: PolicyResult) -> list[str]:
    """Return a line for each limit that decides against the model, in the form that GitHub's steps annotate."""

    def quoted(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    title = quoted(f"forgetwatch {result.policy.name}").replace(":", "%3A").replace(",", "%2C")
    return [f"::{_LEVELS[one.answer]} title={title}::{quoted(one.line)}" for one in against(result)]
