"""Mutated files to every reader, and random command lines, from a seed.

    python tests/faults/fuzz.py --seed 7 --cpu-minutes 30 --state fuzz.json     goes on where the state ends
    python tests/faults/fuzz.py --seed 7 --only 4711                            one case again, with its files kept

A case is a number; with the seed it decides everything. It passes if its call returns, or is refused in one line that
names the file, within the limits of `cases`. What is read must also keep rules: a snapshot compared with itself flips
nothing and is the same after it was written, a probe can be written and read again. The cases run in a child process
with a limit on its memory; if the child dies, the case that killed it is a finding, and a new child goes on after it.
"""

import argparse
import contextlib
import io
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from faults import seeds
from faults.cases import Outcome, WrongResultError, attempt
from forgetwatch import Snapshot, cli, compare, load_snapshot, save_snapshot
from forgetwatch.comparing.ranking import read_target
from forgetwatch.errors import ForgetwatchError, MismatchError
from forgetwatch.probe import read_probe
from forgetwatch.probes.categories import Categories
from forgetwatch.probes.checking import check_probe
from forgetwatch.probes.named import load_probe
from forgetwatch.readers.mapping import ColumnMap, read_mapped
from forgetwatch.run.completions import read_completions

ADDRESS_SPACE = 6 * 2**30
"""Bytes of address space of the child."""

Case = tuple[Callable[[], object], str]
"""A call, and the text that its refusal must contain."""


def _check_snapshot(snapshot: Snapshot, folder: Path) -> None:
    """Raise WrongResultError if a snapshot that was read breaks a rule."""
    if not len(snapshot):
        raise WrongResultError("a snapshot without rows")
    try:
        same = compare(before=snapshot, after=snapshot).all
    except MismatchError:
        same = None
    if same is not None and (same.forgotten, same.gained) != (0, 0):
        raise WrongResultError(
            f"compared with itself it forgot {same.forgotten} and gained {same.gained}"
        )
    save_snapshot(snapshot, folder / "again.parquet")
    if load_snapshot(folder / "again.parquet").checksum != snapshot.checksum:
        raise WrongResultError("it is another one after it was written")


def _outcomes(kind: str) -> Callable[[Path, random.Random], Case]:
    def case(folder: Path, rng: random.Random) -> Case:
        path = seeds.OUTCOMES[kind](folder, rng)
        metric = rng.choice((*[None] * 12, "acc", "acc_norm", "match", "exact_match", "nope"))

        def read() -> None:
            snapshot = load_snapshot(path, metric=metric)
            with _naming(folder):
                _check_snapshot(snapshot, folder)

        return read, path.name.split(".")[0]

    return case


@contextlib.contextmanager
def _naming(folder: Path) -> Any:
    """Let an error of a comparison pass: it names a snapshot by its label, which may be the model."""
    try:
        yield
    except ForgetwatchError as error:
        if "\n" in str(error):
            raise WrongResultError(f"several lines: {error}") from error
        _ = folder


def _mapped(folder: Path, rng: random.Random) -> Case:
    kind = rng.choice(("CSV", "JSONL", "Parquet", "lm-eval samples"))
    path = seeds.OUTCOMES[kind](folder, rng)
    sources = (
        "item_id",
        "correct",
        "k",
        "gold",
        "output",
        "choice_logprobs",
        "choice_logprobs.0",
        "doc.question",
        "a",
        "",
    )
    fields = {
        name: name if rng.random() < 0.8 else rng.choice(sources) for name in ("item_id", "correct")
    }
    fields |= {name: rng.choice(sources) for name in seeds.some(rng, ("question", "k"), 2)}
    if kind == "lm-eval samples" and rng.random() < 0.7:
        fields = {"item_id": "doc_id", "correct": "acc", "question": "doc"}
    match = rng.choice((None, None, "number", "exact", "regex:(\\d+)"))
    fields |= {"output": "output", "gold": rng.choice(("k", "gold", "task"))} if match else {}
    where = {"task": "t"} if rng.random() < 0.1 else {}
    constants = {"task": rng.choice(("t", "\ud800"))} if rng.random() < 0.1 else {}

    def read() -> None:
        _check_snapshot(
            read_mapped(
                path, ColumnMap(fields=fields, where=where, constants=constants, match=match)
            ),
            folder,
        )

    return read, ""


def _probe(folder: Path, rng: random.Random) -> Case:
    path = seeds.probe(folder, rng)

    def read() -> None:
        probe = read_probe(path)
        check_probe(probe)
        probe.save(folder / "again.jsonl")
        if read_probe(folder / "again.jsonl").fingerprint != probe.fingerprint:
            raise WrongResultError("it has another fingerprint after it was written")

    return read, "probe"


def _questions(folder: Path, rng: random.Random) -> Case:
    path = seeds.questions(folder, rng)
    return lambda: load_probe(path).to_jsonl().encode(), "questions"


def _categories(folder: Path, rng: random.Random) -> Case:
    path = seeds.categories(folder, rng)
    snapshot = Snapshot.from_columns(
        {"item_id": ["1", "2"], "task": ["t", "mmlu:x"], "correct": [True, False]}, {}
    )
    return lambda: Categories.read(path).relabel(snapshot), "c."


def _completions(folder: Path, rng: random.Random) -> Case:
    path = seeds.completions(folder, rng)
    return lambda: read_completions(path), "completions"


def _target(folder: Path, rng: random.Random) -> Case:
    path = seeds.target(folder, rng)
    made = Snapshot.from_columns({"item_id": ["1"], "correct": [True]}, {})
    return lambda: read_target(str(path), [("before.csv", made), ("after.csv", made)]), "target.csv"


_OPTIONS = {
    "compare": {
        **dict.fromkeys(("--detail", "--allow-prompt-mismatch"), None),
        "--by": ("all", "category", "task", "x"),
        "--task": ("t", "arc", "\x1b[31m"),
        "--category": ("c", "nope"),
        "--metric": ("acc", "match", "nope"),
        "--samples": ("all", "first"),
        "--chance": ("own", "paper-compat"),
        "--on-mismatch": ("intersect", "error"),
        "--tolerance": ("2%", "0", "-1", "nan", "x", "1e400"),
        "--fail-if": (
            "forgetting>5%",
            "category:c.known_lost>1",
            "x>",
            "n>1e400",
            "forgotten>-1",
            "\ud800>1",
        ),
        "--no-worse-than": ("2%", "200%", "nan"),
        "--json": ("-", "out.json", "no/such/out.json", "/dev/null"),
        "-o": ("out.html", "out.md", "out.csv", "out.json", "out.xyz", "/dev/full"),
        "--repeat": ("FILE",),
        "--categories": ("CATEGORIES", "/dev/zero"),
        "--target": ("TARGET", "eval_loss"),
        "--probe": ("PROBE",),
    },
    "flips": {
        "--limit": ("0", "3", "-1"),
        "--task": ("t",),
        "--category": ("c",),
        "--what": ("forgotten", "gained", "x"),
        "--sort": ("x", "margin"),
        "--jsonl": ("-", "flips.jsonl"),
        "--probe": ("PROBE",),
        "--metric": ("acc", "nope"),
    },
    "convert": {
        "-o": ("out.parquet", "out.parquet", "out.parquet", "out.csv", "."),
        "--map": (
            "item_id=item_id",
            "correct=correct",
            "question=doc",
            "x=y",
            "=",
            "k=choice_logprobs.0",
        ),
        "--where": ("task=t", "a"),
        "--set": ("k=2", "task=x", "k=2147483647", "sample=-1"),
        "--match": ("number", "regex:(\\d+)", "regex:(", "nope"),
        "--metric": ("acc", "nope"),
        "--as-samples": None,
    },
    "gate": {
        "--policy": ("POLICY", "POLICY", "merge", "/dev/zero", "nope"),
        "--value": ("m=1,2", "m=", "x=1,2"),
        "--on-mismatch": ("intersect",),
        "--comment": ("c.md", "FILE"),
        "--json": ("-", "out.json"),
        "--probe": ("PROBE",),
        "--verify": ("POLICY", "out.json"),
    },
    "probe show": {"--examples": ("2", "-1"), "--limit": ("2", "0"), "--categories": None},
    "probe build": {
        "-o": ("built.jsonl",),
        "--limit": ("2", "-5"),
        "--scoring": ("letters", "generate", "x"),
        "--rendering": ("chat",),
        "--column": ("question=question", "x", "answer=A"),
        "--task": ("t", ""),
        "--shots": ("1",),
    },
    "probe check": {
        "--context": ("10", "-1"),
        "--train": ("QUESTIONS", "/dev/zero"),
        "--strict": None,
        "--limit": ("1",),
    },
}
"""Options of the commands with values of them; None for a flag, capitals for a file that the case makes."""

_FILES: dict[str, Callable[[Path, random.Random], Path]] = {
    "POLICY": seeds.policy,
    "CATEGORIES": seeds.categories,
    "TARGET": seeds.target,
    "PROBE": seeds.probe,
    "QUESTIONS": seeds.questions,
}


def _command(folder: Path, rng: random.Random) -> Case:
    command = rng.choice(
        (
            *["compare", "gate"] * 3,
            *["flips", "convert"] * 2,
            "probe show",
            "probe build",
            "probe check",
        )
    )
    words = command.split()

    def file(name: str) -> str:
        home = Path(tempfile.mkdtemp(prefix=name.lower(), dir=folder))
        if name in _FILES:
            return str(_FILES[name](home, rng))
        # Half of the files are whole: else nothing after the reading is tried.
        made = (
            seeds.OUTCOMES[rng.choice(list(seeds.OUTCOMES))](home, rng)
            if rng.random() < 0.5
            else _whole(home, rng)
        )
        return rng.choice((str(made),) * 20 + ("/dev/zero", str(folder / "none.csv"), str(folder)))

    if command in ("compare", "flips", "gate"):
        words += [
            file("FILE")
            for _ in range(rng.choice((2, 2, 2, 3, 1) if command == "compare" else (2,)))
        ]
    elif command == "convert":
        words += [file("FILE") for _ in range(rng.choice((1, 1, 2)))]
    else:
        words.append(file("QUESTIONS" if command == "probe build" else "PROBE"))
    chosen = seeds.some(rng, list(_OPTIONS[command]), 4)
    for option in dict.fromkeys(
        (*chosen, *(["-o"] if "-o" in _OPTIONS[command] and command != "compare" else []))
    ):
        values = _OPTIONS[command][option]
        words.append(option)
        if values is not None:
            given = rng.choice(values)
            words.append(file(given) if given == "FILE" or given in _FILES else given)
    (folder / "command.txt").write_text(json.dumps(words))
    return lambda: _run_command(words, folder), ""


def _whole(folder: Path, rng: random.Random) -> Path:
    """A table without damage, of the same items in each file of a case."""
    path = folder / "whole.csv"
    lines = [f"{n},t,c,4,{n % 4},{rng.randrange(4)},{rng.randrange(2)},0.3" for n in range(60)]
    path.write_text(
        "item_id,task,category,k,gold,chosen,correct,gold_share\n" + "\n".join(lines) + "\n"
    )
    return path


def _run_command(words: list[str], folder: Path) -> None:
    """Run the command line in this process; raise WrongResultError for anything but its promise."""
    here, arguments = Path.cwd(), sys.argv
    errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    status: Any = None
    try:
        os.chdir(folder)
        sys.argv = ["forgetwatch", *words]
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            try:
                cli.main()
            except SystemExit as error:
                status = error.code
    finally:
        os.chdir(here)
        sys.argv = arguments
    errors.flush()
    said = errors.buffer.getvalue().decode()  # type: ignore[attr-defined]
    if status not in (0, None, 1, 2, 3, 4):
        raise WrongResultError(f"exit status {status!r}")
    if "Traceback" in said or "forgetwatch: unexpected" in said:
        raise WrongResultError(said[-600:])
    lines = [line for line in said.splitlines() if line.startswith("forgetwatch: ")]
    if status in (1, 2) and len(lines) != 1 and words[:2] != ["probe", "check"]:
        raise WrongResultError(
            f"exit status {status} and {len(lines)} lines of error: {said[-300:]}"
        )


KINDS: dict[str, Callable[[Path, random.Random], Case]] = {
    **{kind: _outcomes(kind) for kind in seeds.OUTCOMES},
    "mapping": _mapped,
    "probe": _probe,
    "questions": _questions,
    "categories": _categories,
    "completions": _completions,
    "target": _target,
    "command line": _command,
}
"""Kinds of cases, each with the function that makes one."""


def run_case(seed: int, number: int, folder: Path) -> tuple[str, Outcome]:
    """Run one case in an empty folder, and return its kind and outcome."""
    rng = random.Random(f"{seed}/{number}")
    kind = list(KINDS)[number % len(KINDS)]
    call, names = KINDS[kind](folder, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        return kind, attempt(call, names=names)


class State:
    """Counts and findings of a trial, kept in a file so that it can go on.

    Args:
        path: The file; a new one begins with case 0.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        kept = json.loads(path.read_text()) if path.exists() else {}
        self.next: int = kept.get("next", 0)
        self.cpu: float = kept.get("cpu", 0.0)
        self.counts: dict[str, dict[str, int]] = kept.get("counts", {})
        self.slowest: dict[str, float] = kept.get("slowest", {})
        self.findings: list[dict[str, Any]] = kept.get("findings", [])
        self.vague: dict[str, list[Any]] = kept.get("vague", {})

    def add(self, kind: str, number: int, outcome: Outcome) -> None:
        counts = Counter(self.counts.get(kind, {}))
        counts[outcome.kind] += 1
        self.counts[kind] = dict(counts)
        self.slowest[kind] = max(self.slowest.get(kind, 0.0), round(outcome.seconds, 2))
        if outcome.is_finding:
            self.findings.append(
                {
                    "case": number,
                    "kind": kind,
                    "finding": outcome.kind,
                    "detail": outcome.detail[:600],
                }
            )
        elif outcome.is_vague:
            known = self.vague.setdefault(
                f"{kind}: {outcome.cause}", [0, number, outcome.detail[:300]]
            )
            known[0] += 1

    def save(self) -> None:
        partial = self.path.with_suffix(".partial")
        kept = {name: part for name, part in vars(self).items() if name != "path"}
        partial.write_text(json.dumps(kept, indent=1))
        partial.replace(self.path)

    def summary(self) -> str:
        total = sum(sum(counts.values()) for counts in self.counts.values())
        lines = [
            f"{total:,} cases in {self.cpu / 60:.1f} minutes of CPU, {len(self.findings)} findings"
        ]
        lines.append(
            f"{'kind':16} {'cases':>8} {'read':>8} {'refused':>8} {'findings':>8} {'slowest s':>9}"
        )
        for kind in KINDS:
            counts = self.counts.get(kind, {})
            cases, read, refused = (
                sum(counts.values()),
                counts.get("read", 0),
                counts.get("refused", 0),
            )
            slowest = self.slowest.get(kind, 0.0)
            lines.append(
                f"{kind:16} {cases:8,} {read:8,} {refused:8,} {cases - read - refused:8,} {slowest:9.2f}"
            )
        lines += [
            f"{one['finding']}: --only {one['case']} ({one['kind']}): {one['detail']}"
            for one in self.findings
        ]
        return "\n".join(lines)


def _child(seed: int, state: State, cpu_seconds: float, marker: Path) -> None:
    """Run cases until the time is spent; the marker holds the number of the case in progress."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    started, before = time.process_time(), state.cpu
    root = Path(tempfile.mkdtemp(prefix="fuzz"))
    try:
        while state.cpu < cpu_seconds:
            number, state.next = state.next, state.next + 1
            marker.write_text(str(number))
            folder = root / str(number)
            folder.mkdir()
            kind, outcome = run_case(seed, number, folder)
            state.add(kind, number, outcome)
            shutil.rmtree(folder, ignore_errors=True)
            state.cpu = before + time.process_time() - started
            if outcome.is_finding or number % 100 == 0:
                state.save()
    finally:
        state.save()
        shutil.rmtree(root, ignore_errors=True)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--cpu-minutes", type=float, default=1.0)
    options.add_argument(
        "--state", type=Path, default=Path(tempfile.gettempdir()) / "forgetwatch-fuzz.json"
    )
    options.add_argument("--only", type=int, help="run this case alone and keep its files")
    options.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.only is not None:
        folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{given.only}-"))
        kind, outcome = run_case(given.seed, given.only, folder)
        print(f"{folder}\n{kind}: {outcome}")
        return
    state = given.state.with_name(f"{given.state.stem}-{given.seed}.json")
    marker = state.with_suffix(".case")
    if given.child:
        _child(given.seed, State(state), given.cpu_minutes * 60, marker)
        return
    while State(state).cpu < given.cpu_minutes * 60:
        words = [
            sys.executable,
            __file__,
            "--child",
            "--seed",
            str(given.seed),
            "--cpu-minutes",
            str(given.cpu_minutes),
        ]
        done = subprocess.run([*words, "--state", str(given.state)], check=False)
        if done.returncode:  # killed, or an error of this script: named, and passed over
            reached = State(state)
            number = int(marker.read_text())
            killed = Outcome("unexpected", f"the process died with status {done.returncode}")
            reached.add(list(KINDS)[number % len(KINDS)], number, killed)
            reached.next, reached.cpu = (
                number + 1,
                reached.cpu + 1,
            )  # time since the last save is not known
            reached.save()
    print(State(state).summary())


if __name__ == "__main__":
    main()
