"""Random damages to run folders: is what is read right, and is what is not used named?

    python tools/faults/damage.py --seed 7 --count 1000 --resumes 200 --out damage.json
    python tools/faults/damage.py --seed 7 --run out/_forgetwatch --count 1000     of a run of one's own
    python tools/faults/damage.py --seed 7 --only 4711                             one case again, its folder kept
    python tools/faults/damage.py --seed 7 --only-resume 11

A case is a number; with the seed it decides everything. Most cases have one damage of a class of `damages`, a tenth
have two. A damaged folder is read as reports read it, or resumed as a training resumes. The outcome is one of

    same         the whole JSON document is that of the undamaged folder, and there is no note
    noted        notes name every file that is not used, and what is shown is what the rest of the folder gives
    refused      one error of forgetwatch, in one line, that names a file of the folder
    silent       another result without a word; a finding
    unexpected   any other exception, or an error in several lines; a finding

Right results are computed without the damaged folder: from the undamaged snapshots of the looks that are shown.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import numpy as np
from damages import CLASSES, World, draw
from run_folders import write_run

from forgetwatch import Item, Probe, Snapshot, Trajectory
from forgetwatch.comparing import Flip
from forgetwatch.comparing.flips import flips
from forgetwatch.errors import ForgetwatchError
from forgetwatch.report import trajectory_json
from forgetwatch.run_folder import Description, GuardFinding, StoredRun, look_files, run_probe, write_description

OUTCOMES: Final = ("same", "noted", "refused", "silent", "unexpected")
FINDINGS: Final = ("silent", "unexpected")
LOOKS: Final = 12


@dataclass(frozen=True)
class Outcome:
    """Outcome of one case: one of `OUTCOMES`, and words on it."""

    name: str
    detail: str = ""


# Runs by code.


def make_probe(items: int, *, name: str, seed: int) -> Probe:
    """Probe of two categories; its first item is private."""
    rng = random.Random(seed)
    made = [
        Item(
            id=f"i{index}",
            task=f"t{index % 2}",
            category="ab"[index % 2],
            prompt=f"Q: {name} w{rng.randrange(10**6)} w{index}?\nA:",
            choices=[f" {name}{index}{letter}" for letter in "pqrs"],
            answer=index % 4,
            tags=("private",) if index == 0 else (),
        )
        for index in range(items)
    ]
    return Probe(made, name=name)


def make_look(probe: Probe, scores: np.ndarray[Any, Any], *, step: int) -> Snapshot:
    """Snapshot of given scores, float [items, 4]."""
    gold = np.array([item.answers[0] for item in probe], int)
    chosen = scores.argmax(axis=1)
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    ranked = np.sort(scores, axis=1)
    columns = {
        "item_id": [item.id for item in probe],
        "content_hash": [item.content_hash for item in probe],
        "task": [item.task for item in probe],
        "category": [item.category for item in probe],
        "k": [4] * len(probe),
        "gold": gold,
        "chosen": chosen,
        "correct": chosen == gold,
        "choice_logprobs": [list(row) for row in scores],
        "gold_share": shares[np.arange(len(probe)), gold],
        "margin": ranked[:, -1] - ranked[:, -2],
    }
    described = {"name": probe.name, "fingerprint": probe.fingerprint, **probe.settings}
    return Snapshot.from_columns(columns, {"model": "m", "step": step, "probe": described, "noise": 0.01})


def make_run(output_dir: Path, probe: Probe, *, seed: int) -> Path:
    """Write a run of twelve looks with a null, two second measurements and a finding, and return its folder."""
    rng = np.random.default_rng(seed)
    start = rng.normal(-12, 1, (len(probe), 4))
    start[np.arange(len(probe)), [item.answers[0] for item in probe]] += 1.5
    steps = range(15, 15 * LOOKS + 1, 15)
    at = {step: start + rng.normal(0, 0.1 * (1 + index), start.shape) for index, step in enumerate(steps)}

    def noisy(scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return scores + rng.normal(0, 0.2, scores.shape)

    return write_run(
        output_dir,
        probe,
        make_look(probe, start, step=0),
        {step: make_look(probe, scores, step=step) for step, scores in at.items()},
        null=make_look(probe, noisy(start), step=0),
        again={step: make_look(probe, noisy(at[step]), step=step) for step in (60, 120)},
        planned=LOOKS,
        findings=[GuardFinding("alarm", "all all", 90, "net loss of all items")],
    ).path


def make_older(run: Path, target: Path) -> Path:
    """The ``run.json`` of a run after half of its looks, as that run wrote it."""
    values = {key: value for key, value in Description.read(run).values.items() if key != "format"}
    half = values["looks"][: 1 + (len(values["looks"]) - 1) // 2]
    last = half[-1]["step"]
    resumed = [one for one in values["resumed"] if one["step"] <= last]
    write_description(target, {**values, "looks": half, "resumed": resumed, "guard": []})
    return target / "run.json"


def make_world(place: Path, *, seed: int, run: Path | None = None, items: int = 60) -> World:
    """The folders that damages need; the run itself may be given."""
    probe = make_probe(items, name="toy", seed=5)
    if run is None:
        own, same = make_run(place / "run", probe, seed=seed), make_run(place / "same", probe, seed=seed + 1)
    else:
        own = place / "run" / "_forgetwatch"
        shutil.copytree(run, own)
        same = another_run(own, place / "same")
    other = make_run(place / "other", make_probe(items, name="other", seed=6), seed=seed + 2)
    return World(own, same, other, make_older(own, place / "older"))


def another_run(run: Path, output_dir: Path) -> Path:
    """Write a run of the same probe with the looks of a run in reverse order, and return its folder."""
    stored, probe = StoredRun.read(run), run_probe(run)
    if probe is None:
        raise SystemExit(f"{run}: its probe cannot be read")

    def as_step(look: Snapshot, step: int) -> Snapshot:
        return replace(look, meta={**look.meta, "step": step})

    steps = [int(look.meta["step"]) for look in stored.looks]
    looks = {step: as_step(look, step) for step, look in zip(steps, reversed(stored.looks), strict=True)}
    again = {int(look.meta["step"]): look for look in stored.again}
    null, planned = stored.null, stored.planned
    return write_run(output_dir, probe, stored.baseline, looks, null=null, again=again, planned=planned).path


# What is right.


class Truth:
    """Documents that the undamaged snapshots of a run give, for any part of them.

    Args:
        run: The undamaged run folder.
    """

    def __init__(self, run: Path) -> None:
        self.stored = StoredRun.read(run)
        if self.stored.notes:
            raise SystemExit(f"{run}: the folder is damaged already: {self.stored.notes}")
        self.probe = run_probe(run)
        self.steps = tuple(int(look.meta["step"]) for look in self.stored.looks)
        self.again = tuple(int(look.meta["step"]) for look in self.stored.again)
        self._documents: dict[Any, Any] = {}

    @cached_property
    def questions(self) -> dict[tuple[str, str], Item]:
        """Items by task and id."""
        return {(item.task, item.id): item for item in self.probe or ()}

    def document(self, *, steps: Sequence[int], again: Sequence[int], null: bool, described: bool) -> Any:
        """Document of these looks, with or without the null and what ``run.json`` gives."""
        key = (tuple(steps), tuple(again), null, described)
        if key not in self._documents:
            stored = self.stored
            made = Trajectory.of(
                [stored.baseline, *(look for look in stored.looks if look.meta["step"] in steps)],
                planned=stored.planned if described else None,
                null=stored.null if null else None,
                again=[look for look in stored.again if look.meta["step"] in again],
            )
            self._documents[key] = comparable(replace(made, findings=stored.findings if described else ()))
        return self._documents[key]


def comparable(trajectory: Trajectory) -> Any:
    """The whole JSON document of a run without notes and without paths of files, as JSON text would hold it."""

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: clean(one) for key, one in value.items() if key != "source"}
        return [clean(one) for one in value] if isinstance(value, (list, tuple)) else value

    document = {key: value for key, value in trajectory_json(trajectory).items() if key != "notes"}
    return json.loads(json.dumps(clean(document)))


# Reading.


def read(folder: Path, truth: Truth, damaged: Sequence[str], *, is_forged: bool = False) -> Outcome:
    """Read a damaged folder as reports do, and return the outcome.

    Args:
        folder: The folder.
        truth: What is right.
        damaged: Names of the damaged files.
        is_forged: True if a file was changed together with its checksum: only ``run.json`` can show that.
    """
    stored = StoredRun.read(folder)
    with mock.patch.object(StoredRun, "read", return_value=stored):  # what is left out must be known, reading is slow
        made = Trajectory.from_run(folder)
    notes, steps = "\n".join(made.notes), made.steps[1:]
    if any("\n" in note for note in made.notes):
        return Outcome("unexpected", f"a note of several lines: {made.notes}")
    again = [int(look.meta["step"]) for look in stored.again]
    described = "run.json" not in {note.split()[0].rstrip(":") for note in made.notes}
    null = stored.null is not None
    if not set(steps) <= set(truth.steps) or not set(again) <= set(truth.again):
        return Outcome("silent", f"looks that the run never took: {steps}, {again}; {notes}")
    document = truth.document(steps=steps, again=again, null=null, described=described)
    if "run.json, which is older" in notes:  # so are the findings in it
        document = {**document, "guard": comparable(made)["guard"]}
    if is_forged and not described:
        return Outcome("noted", notes)
    if comparable(made) != document:
        return Outcome("silent", f"other numbers at steps {steps}; {notes}")
    # Without run.json nothing shows which files are missing.
    gone = [f"step-{step:06d}.parquet" for step in truth.steps if step not in steps]
    gone += [f"again-{step:06d}.parquet" for step in truth.again if step not in again]
    gone += [] if null or truth.stored.null is None else ["null.parquet"]
    unnamed = [name for name in gone if name not in notes]
    if unnamed and (described or any((folder / name).exists() for name in unnamed)):
        return Outcome("silent", f"not used and not named: {unnamed}; {notes}")
    if wrong := wrong_questions(flips(made.baseline, made.last, probe=run_probe(folder)), truth, notes):
        return Outcome("silent", wrong)
    if not made.notes:
        return Outcome("same")
    if not any(name in notes for name in damaged):
        return Outcome("silent", f"the notes name another file than {damaged}: {notes}")
    return Outcome("noted", notes)


def wrong_questions(found: Sequence[Flip], truth: Truth, notes: str) -> str:
    """Words on a question, an option or an answer whose text is not that of the run; empty if there is none."""
    for flip in found:
        item, own = flip.item, truth.questions.get((flip.task, flip.item_id))
        if item is None and own is not None and "private" not in own.tags and "probe.jsonl" not in notes:
            return f"the question of {flip.item_id} is not shown"
        if item is None:
            continue
        if own is None or "private" in own.tags:
            return f"the text of the private item {flip.item_id} is shown"
        if (item.prompt, item.choices, item.answers) != (own.prompt, own.choices, own.answers):
            return f"another question is shown for {flip.item_id}: {item.prompt!r} {item.choices} {item.answers}"
    return ""


# Resuming.


def make_watched(place: Path, *, seed: int) -> World:
    """Runs of a tiny model with six looks, the checkpoint of the last one but one, and a second measurement."""
    from support import model, probe, tokenizer

    from forgetwatch import Watch

    def watched(name: str, items: Probe, first: int) -> Path:
        tok = tokenizer()
        watch = Watch(items, place / name)
        for index, step in enumerate(range(0, 61, 10)):
            with contextlib.redirect_stderr(io.StringIO()):
                watch.look(model(tok, seed=first + index // 2), tok, step=step)
                if step == 30:
                    watch.look_again(model(tok, seed=first + index), tok, step=step)
        watch.plan(6)
        (place / name / "checkpoint-50").mkdir()
        watch.folder.carry(50)
        watch.release()
        return watch.folder.path

    own = watched("run", probe(40), seed)
    same = watched("same", probe(40), seed + 10)
    other = watched("other", probe(24, name="other"), seed + 20)
    return World(own, same, other, make_older(own, place / "older"))


def resume(
    output_dir: Path, truth: Truth, damaged: Sequence[str], rng: random.Random, *, is_forged: bool = False
) -> Outcome:
    """Resume the run in a damaged folder, as a loop of one's own or as a trainer does, and return the outcome."""
    from support import probe

    from forgetwatch import Watch

    folder, baseline = output_dir / "_forgetwatch", truth.stored.baseline
    carried = [output_dir / "checkpoint-50" / "forgetwatch"]
    step = rng.choice((None, 20, 50, 60))
    by_trainer = step is not None or rng.random() < 0.3
    log = io.StringIO()
    with contextlib.redirect_stderr(log):
        if by_trainer:
            watch = Watch(probe(40), output_dir)
            known = {"run": baseline.meta["run"], "checksum": baseline.checksum}
            try:
                watch.resume(step=step, carried=carried if step == 50 else (), **known)
            finally:
                watch.release()
        else:
            watch = Watch(probe(40), output_dir, resume=True)
            watch.release()
    said = "\n".join((*watch.notes, log.getvalue()))
    # A look later than the step is dropped: it is taken again.
    due = [one for one in truth.steps if step is None or one <= step]
    shown = {one: comparison for one, comparison in watch.comparisons.items() if one != 0}
    whole = Trajectory.of([baseline, *truth.stored.looks])
    right = {one: cells(comparison) for one, comparison in zip(whole.steps, whole.comparisons, strict=True)}
    if not set(shown) <= set(due):
        return Outcome("silent", f"looks that the run never took: {sorted(shown)}; {said}")
    if is_forged and "run.json" in said:
        return Outcome("noted", said)
    if wrong := [one for one, comparison in shown.items() if cells(comparison) != right[one]]:
        return Outcome("silent", f"other numbers at {wrong}; {said}")
    named = Description.read(folder)
    missing = [f"step-{one:06d}.parquet" for one in due if one not in shown]
    unnamed = [name for name in missing if name not in said]
    if unnamed and "run.json" not in said and "was gone" not in said:
        return Outcome("silent", f"missing and not named: {unnamed}; {said}")
    # What is known of the noise, too.
    unnamed = [f"again-{one:06d}.parquet" for one in truth.again if one in shown and one not in watch.resumed]
    unnamed += ["null.parquet"] if watch.null is None else []
    unnamed = [name for name in unnamed if name not in said]
    if unnamed and "was gone" not in said:
        return Outcome("silent", f"missing and not named: {unnamed}; {said}")
    if None not in (watch.null, truth.stored.null) and watch.null.checksum != truth.stored.null.checksum:
        return Outcome("silent", f"another null: {said}")
    # Afterwards the folder is whole.
    listed, files = sorted(named.listed("step")), sorted(look_files(folder, "step"))
    if not listed == files == sorted(shown):
        return Outcome("silent", f"run.json lists {listed}, the folder has {files}, the run {sorted(shown)}; {said}")
    after = Trajectory.from_run(folder)
    if {one: cells(each) for one, each in zip(after.steps[1:], after.comparisons[1:], strict=True)} != {
        one: right[one] for one in shown
    }:
        return Outcome("silent", f"read afterwards with other numbers; {after.notes}")
    kept, copies = "since the resume from step ", "does not have the name of a file that a run writes"
    if notes := [note for note in after.notes if not note.startswith(kept) and copies not in note]:
        return Outcome("silent", f"notes after the resume: {notes}; {said}")
    later = "\n".join(after.notes)
    if forgotten := [name for name in missing if name not in later and "run.json" not in later]:
        return Outcome("silent", f"missing and not named by a reader after the resume: {forgotten}; {later}")
    if not watch.notes and not log.getvalue():
        return Outcome("same")
    if not any(name in said for name in [*damaged, "_forgetwatch"]):
        return Outcome("silent", f"the notes name another file than {damaged}: {said}")
    return Outcome("noted", said)


def cells(comparison: Any) -> list[tuple[Any, ...]]:
    """Counts of all groups of a comparison."""
    return [
        (one.level, one.name, one.n, one.retained, one.forgotten, one.gained, one.missed) for one in comparison.groups
    ]


# Cases.


def attempt(work: Callable[[], Outcome]) -> Outcome:
    """Outcome of a case, errors included."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return work()
    except ForgetwatchError as error:
        text = str(error)
        is_named = any(name in text for name in (".parquet", "run.json", "_forgetwatch", "probe.jsonl", " at step "))
        return Outcome("refused" if "\n" not in text and is_named else "unexpected", text)
    except Exception:
        return Outcome("unexpected", traceback.format_exc())


def damage_folder(folder: Path, classes: Sequence[str], rng: random.Random, world: World) -> list[str]:
    """Make the damages of some classes in a folder, and return the names of the damaged files."""
    damaged: list[str] = []
    for name in classes:
        # The second damage may find nothing left to damage.
        with contextlib.suppress(OSError, ValueError, IndexError, KeyError, ForgetwatchError):
            damaged += CLASSES[name][0](folder, rng, world)
    return damaged


def reading_case(seed: int, number: int, world: World, truth: Truth, place: Path) -> tuple[list[str], Outcome]:
    """(Classes of the damages of a case, its outcome)."""
    rng, folder = random.Random(f"{seed}-{number}"), place / f"case-{number}"
    classes = draw(rng)
    shutil.copytree(world.run, folder)
    damaged = damage_folder(folder, classes, rng, world)
    return classes, attempt(lambda: read(folder, truth, damaged, is_forged=any("forged" in name for name in classes)))


def resume_case(seed: int, number: int, world: World, truth: Truth, place: Path) -> tuple[list[str], Outcome]:
    """The same for a resume; the damage may also be in the folder that the checkpoint carries."""
    rng, output_dir = random.Random(f"{seed}-resume-{number}"), place / f"resume-{number}"
    classes = draw(rng)
    shutil.copytree(world.run.parent, output_dir)
    damaged = damage_folder(output_dir / "_forgetwatch", classes, rng, world)
    if rng.random() < 0.1:
        shutil.rmtree(output_dir / "_forgetwatch")
        damaged = ["_forgetwatch"]
    return classes, attempt(
        lambda: resume(output_dir, truth, damaged, rng, is_forged=any("forged" in name for name in classes))
    )


def run_cases(
    numbers: Sequence[int],
    case: Callable[[int], tuple[list[str], Outcome]],
    *,
    prefix: str,
    place: Path,
    keep: bool = False,
) -> dict[str, Counter[str]]:
    """Run cases, print the findings, and return the number of outcomes by class."""
    counts: dict[str, Counter[str]] = {}
    for number in numbers:
        classes, outcome = case(number)
        counts.setdefault(classes[0] if len(classes) == 1 else "two at once", Counter())[outcome.name] += 1
        if outcome.name in FINDINGS or keep:
            print(f"{prefix}{number}: {' + '.join(classes)}: {outcome.name}: {outcome.detail}", flush=True)
        if not keep:
            for path in place.glob(f"*-{number}"):
                shutil.rmtree(path, ignore_errors=True)
    return counts


def table(title: str, counts: Mapping[str, Counter[str]]) -> str:
    """Number of outcomes by class."""
    names = [*(name for name in CLASSES if name in counts), *(name for name in counts if name not in CLASSES)]
    rows = [(name, [counts[name][outcome] for outcome in OUTCOMES]) for name in names]
    rows.append(("all", [sum(counts[name][outcome] for name in names) for outcome in OUTCOMES]))
    lines = [f"{title:46}{''.join(f'{outcome:>11}' for outcome in OUTCOMES)}{'n':>7}"]
    lines += [f"{name:46}{''.join(f'{one:11}' for one in row)}{sum(row):7}" for name, row in rows]
    return "\n".join(lines)


def main() -> int:
    """Run the cases; exit status 1 if there is a finding."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=7)
    options.add_argument("--count", type=int, default=1000, help="folders that are read")
    options.add_argument("--first", type=int, default=0, help="number of the first case")
    options.add_argument("--resumes", type=int, default=0, help="folders that are resumed")
    options.add_argument("--run", type=Path, help="a run folder of one's own in place of one by code")
    options.add_argument("--out", type=Path, help="write the tables as JSON")
    options.add_argument("--only", type=int, help="read this case alone and keep its folder")
    options.add_argument("--only-resume", type=int, help="the same for a resume")
    given = options.parse_args()
    is_one = given.only is not None or given.only_resume is not None
    started, place = time.monotonic(), Path(tempfile.mkdtemp(prefix="damage-"))
    reads = [given.only] if given.only is not None else [] if is_one else range(given.first, given.first + given.count)
    resumes = (
        [given.only_resume]
        if given.only_resume is not None
        else []
        if is_one
        else range(given.first, given.first + given.resumes)
    )
    tables: dict[str, dict[str, Counter[str]]] = {}
    try:
        if reads:
            world = make_world(place / "world", seed=given.seed, run=given.run)
            truth = Truth(world.run)
            tables["read"] = run_cases(
                reads,
                lambda number: reading_case(given.seed, number, world, truth, place),
                prefix="--only ",
                place=place,
                keep=is_one,
            )
        if resumes:
            watched = make_watched(place / "watched", seed=given.seed)
            known = Truth(watched.run)
            tables["resumed"] = run_cases(
                resumes,
                lambda number: resume_case(given.seed, number, watched, known, place),
                prefix="--only-resume ",
                place=place,
                keep=is_one,
            )
    finally:
        if is_one:
            print(f"kept in {place}")
        else:
            shutil.rmtree(place, ignore_errors=True)
    for title, counts in tables.items():
        print(table(title, counts))
    print(f"seed {given.seed}, {time.monotonic() - started:.0f} s")
    if given.out is not None:
        given.out.write_text(json.dumps({"seed": given.seed, **tables}, indent=1) + "\n")
    return int(any(counts[one] for found in tables.values() for counts in found.values() for one in FINDINGS))


if __name__ == "__main__":
    sys.exit(main())
