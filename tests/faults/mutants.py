"""Mutants of metrics, comparing and gates: do the tests notice if a line of them is wrong?

    python tests/faults/mutants.py --seed 16 --count 600 --out tests/faults/mutants.csv
    python tests/faults/mutants.py --out tests/faults/mutants.csv --retry-survivors    after tests were added
    python tests/faults/mutants.py --out tests/faults/mutants.csv --show 17            output of one mutant's tests
    python tests/faults/mutants.py --out tests/faults/mutants.csv --check              modules without a mutation

A mutant is one module with one small change: another operator, a bound moved by one, a condition negated. It is killed
if a test fails on it, or runs into its time limit. Tests run in two stages, each stopped by its first failure:

    near   the tests of the module, then those of its package, without those that take more than a second
    wide   all other tests of metrics, comparing, gates and report, for all mutants together that no near test kills,
           and for each half of them while a test fails

Only tests that execute the mutated function can notice, so only they run; a mutant at import time runs them all. The
table lists the whole draw from the start, and each result as soon as it is known: a run that was stopped resumes. Rows
are found again by function and text, so that the table survives changes elsewhere in the file.

One process imports the libraries once and forks for each mutant. The child compiles the mutated module in place of the
one on disk and calls pytest. Property tests draw 30 examples from a fixed seed and do not shrink; no result depends on
luck. Messages of exceptions, annotations, docstrings, decorators and ``strict=`` of zip are not mutated, nor are tests
in a browser run.
"""

from __future__ import annotations

import argparse
import ast
import csv
import hashlib
import importlib
import importlib.machinery
import importlib.util
import json
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

import pytest
from mutations import cut, shown, sites

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("metrics", "comparing", "gates")
WIDE: Final = (*PACKAGES, "report")
SKIPPED: Final = ("tests/report/test_in_browser.py",)
SLOW: Final = 1.0
"""Seconds from which a test runs in the wide stage only."""
MEMORY: Final = 8 * 2**30


# The table.


@dataclass(frozen=True, kw_only=True)
class Row:
    """One mutant and its result; `result` is empty until it is known.

    Attributes:
        seed: Seed of the draw.
        number: Number of the mutant.
        file: Its module.
        line: Line of the change when it was drawn.
        function: Function that it changes.
        operator: Kind of the change.
        original: Source before.
        mutated: Source after.
        nth: Number of equal changes before it in the same function.
        result: ``module``, ``package`` or ``wide`` by the first test that failed; ``timeout``, ``import``,
            ``near`` if the near stage killed it not and the wide one is to come; ``survived``; ``gone`` if the source
            does not have it any more.
        test: Test that failed.
        seconds: Time that it took.
        reason: Reason for which a survivor is left.
    """

    seed: int
    number: int
    file: str
    line: int
    function: str
    operator: str
    original: str
    mutated: str
    nth: int
    result: str = ""
    test: str = ""
    seconds: float = 0.0
    reason: str = ""

    @property
    def key(self) -> tuple[str, str, str, str, str, int]:
        """Identity of the mutant while the lines around it move."""
        return (
            self.file,
            self.function,
            self.operator,
            self.original,
            self.mutated,
            self.nth,
        )


def every_row(seed: int) -> list[tuple[Row, int]]:
    """Every mutant of the packages, and its position among those of its file."""
    found = []
    for path in sorted(path for package in PACKAGES for path in (ROOT / "forgetwatch" / package).glob("*.py")):
        file, seen = path.relative_to(ROOT).as_posix(), dict[tuple[str, ...], int]()
        for position, one in enumerate(sites(ast.parse(path.read_text("utf-8")))):
            before = shown(one.shown)
            undo = one.swap()
            original, mutated = cut(before, shown(one.shown))
            undo.swap()
            key = (one.function, one.operator, original, mutated)
            seen[key] = nth = seen.get(key, -1) + 1
            row = Row(
                seed=seed,
                number=0,
                file=file,
                line=one.line,
                function=one.function,
                operator=one.operator,
                original=original,
                mutated=mutated,
                nth=nth,
            )
            found.append((row, position))
    return found


def draw(seed: int, count: int) -> list[Row]:
    """Draw mutants, the same for the same seed and source."""
    rows = [row for row, _ in every_row(seed)]
    drawn = random.Random(seed).sample(range(len(rows)), min(count, len(rows)))
    return [replace(rows[index], number=number) for number, index in enumerate(drawn, start=1)]


def read_table(path: Path) -> list[Row]:
    """Rows of a table."""
    types = {"seed": int, "number": int, "line": int, "nth": int, "seconds": float}
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Row(**{name: types.get(name, str)(value) for name, value in one.items()}) for one in csv.DictReader(file)
        ]


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write the table, all or nothing."""
    part = path.with_suffix(".part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    part.replace(path)


# Children: pytest in a fork, with one module mutated.


@dataclass(frozen=True)
class Module:
    """A module to compile in place of the one on disk."""

    name: str
    file: Path
    code: CodeType


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, module: Module) -> None:
        super().__init__(module.name, str(module.file))
        self._code = module.code

    def get_code(self, fullname: str) -> CodeType | None:
        return self._code


class _Finder:
    """Import hook that gives some modules their mutated code."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self._modules = {one.name: one for one in modules}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if (one := self._modules.get(name)) is None:
            return None
        return importlib.util.spec_from_file_location(name, one.file, loader=_Loader(one))


class _Recorder:
    """pytest plugin: chooses and orders the tests, keeps their times, and stops a test at its time limit."""

    def __init__(self, chosen: Sequence[str] | None, limits: dict[str, float], report: Any) -> None:
        self._order = None if chosen is None else {name: place for place, name in enumerate(chosen)}
        self._limits, self._report = limits, report
        self._codes: set[CodeType] = set()
        self.tests: dict[str, dict[str, Any]] = {}
        self.failed = ""

    @pytest.hookimpl(tryfirst=True)  # pytest sorts by the scope of fixtures afterwards
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the chosen tests, in their order, and those of their files that are there since the mutation."""
        if self._order is not None:
            order = self._order
            # A mutant at import time may give the cases of a test other names.
            items[:] = [one for one in items if one.nodeid in order or one.nodeid not in self._limits]
            items.sort(key=lambda one: order.get(one.nodeid, -1))

    def pytest_collectreport(self, report: Any) -> None:
        """Note a test file that cannot be imported."""
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Begin a test: its time limit, its functions."""
        self._codes.clear()
        self._began = time.monotonic()
        if self._order is not None:

            def stop(*_: Any) -> None:
                self._report({"result": "timeout", "test": nodeid})
                os._exit(0)

            signal.signal(signal.SIGALRM, stop)
            signal.setitimer(signal.ITIMER_REAL, self._limit(nodeid))

    def _limit(self, nodeid: str) -> float:
        """Seconds after which a test is stopped."""
        # The first test of a file that needs a fixture makes it, and the order differs from that of the baseline.
        of_file = [one for name, one in self._limits.items() if name.split("::")[0] == nodeid.split("::")[0]]
        return 10 + 5 * (self._limits.get(nodeid, 10.0) + max(of_file, default=10.0))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note the first failure."""
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """End a test."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.tests[nodeid] = {
            "seconds": round(time.monotonic() - self._began, 3),
            "functions": sorted(set(_names(self._codes))),
        }

    def trace(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call of a function, for `sys.settrace`."""
        self._codes.add(frame.f_code)


def _names(codes: set[CodeType]) -> list[str]:
    """File and name of those functions that are ours; a nested one counts as the one around it."""
    ours = f"{ROOT / 'forgetwatch'}{os.sep}"
    return [
        f"{Path(code.co_filename).relative_to(ROOT).as_posix()}:{code.co_qualname.split('.<locals>')[0]}"
        for code in list(codes)
        if code.co_filename.startswith(ours)
    ]


def _pytest(arguments: Sequence[str], recorder: _Recorder, scratch: Path) -> int:
    """Run pytest in this process, with the settings of the repository but for plugins and processes."""
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutants",
        max_examples=30,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    options = [
        "-o",
        "addopts=",
        "--strict-markers",
        "--doctest-modules",
        "--import-mode=importlib",
        "-x",
        "-q",
    ]
    options += ["-p", "no:cacheprovider", "-p", "no:faulthandler"]
    options += [
        "--hypothesis-profile=mutants",
        "--basetemp",
        str(scratch / "t"),
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]
    return int(pytest.main([*options, *arguments], plugins=[recorder]))


def _run_here(modules: Sequence[Module], files: Sequence[str], recorder: _Recorder, scratch: Path) -> dict[str, Any]:
    """Run tests on mutated modules in this process, which should be a fork."""
    sys.meta_path.insert(0, _Finder(modules))  # type: ignore[arg-type]
    try:
        for one in modules:
            importlib.import_module(one.name)
    except BaseException as error:
        return {"result": "import", "test": repr(error)[:100]}
    status = _pytest(files, recorder, scratch)
    if status == 0 or (status == 5 and not recorder.failed):
        return {"result": "survived", "test": ""}
    return {"result": "failed", "test": recorder.failed}


@dataclass
class Child:
    """A running fork: where it reports to, and when it is stopped."""

    process: int
    pipe: int
    deadline: float
    began: float
    scratch: Path
    heard: bytes = b""


def start(
    modules: Sequence[Module],
    chosen: Sequence[str] | None,
    files: Sequence[str],
    limits: dict[str, float],
    *,
    loud: bool,
) -> Child:
    """Fork a child that runs tests on mutated modules."""
    reading, writing = os.pipe()
    scratch = Path(tempfile.mkdtemp(prefix="mutant-"))
    began = time.monotonic()
    total = sum(limits.get(name, 10.0) for name in chosen or ())
    process = os.fork()
    if process:
        os.close(writing)
        return Child(
            process,
            reading,
            began + (5 * total + 60 if chosen is not None else 3600),
            began,
            scratch,
        )
    status = 1
    try:
        os.setpgid(0, 0)
        os.close(reading)
        if not loud:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nowhere, descriptor)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

        def report(result: dict[str, Any]) -> None:
            os.write(writing, json.dumps(result).encode())

        recorder = _Recorder(chosen, limits, report)
        if chosen is None:
            sys.settrace(recorder.trace)  # type: ignore[arg-type]
        result = _run_here(modules, files, recorder, scratch)
        sys.settrace(None)
        if chosen is None:
            result |= {"tests": recorder.tests, "modules": _third_party()}
        view = memoryview(json.dumps(result).encode())
        while view:
            view = view[os.write(writing, view) :]
        status = 0
    finally:
        os._exit(status)


def _third_party() -> list[str]:
    """Names of the imported modules that are not ours."""
    own = {"forgetwatch", "tests", "conftest", "__main__", "__mp_main__"}
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if name.split(".")[0] not in own and not file.startswith(str(ROOT)):
            found.append(name)
    return found


def wait(children: dict[int, Child]) -> tuple[int, dict[str, Any], float]:
    """Wait until one of the children has finished; return its key, its result and its seconds."""
    while True:
        ready = select.select([child.pipe for child in children.values()], [], [], 0.5)[0]
        for key, child in children.items():
            late = time.monotonic() > child.deadline
            if child.pipe in ready:
                if part := os.read(child.pipe, 1 << 20):
                    child.heard += part
                    continue
            elif not late:
                continue
            if late:
                os.killpg(child.process, signal.SIGKILL)
            os.waitpid(child.process, 0)
            os.close(child.pipe)
            _remove(child.scratch)
            del children[key]
            # A child that died without a word, of a signal or of memory, has noticed too.
            result = json.loads(child.heard) if child.heard else {"result": "timeout" if late else "died", "test": ""}
            return key, result, time.monotonic() - child.began


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


# The run.


@dataclass(frozen=True)
class Baseline:
    """Tests of the unmutated tree: their seconds, and the functions that each executes."""

    seconds: dict[str, float]
    functions: dict[str, frozenset[str]]
    modules: list[str]


KEPT: Final = Path(tempfile.gettempdir()) / "forgetwatch-mutants.json"
"""Findings of earlier runs about each test file, by its digest."""


def baseline() -> Baseline:
    """Run the tests of every file that has changed since the last run, without a mutation."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"files": {}, "modules": []}
    digests = {}
    for package in WIDE:
        for folder in ("forgetwatch", "tests"):
            for path in sorted((ROOT / folder / package).glob("*.py")):
                if (name := path.relative_to(ROOT).as_posix()) not in SKIPPED:
                    digests[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    changed = [name for name, digest in digests.items() if kept["files"].get(name, {}).get("digest") != digest]
    if changed:
        print(f"running {len(changed)} files of tests without a mutation", flush=True)
        _, found, seconds = wait({0: start((), None, changed, {}, loud=True)})
        if found["result"] != "survived":
            raise SystemExit(f"needed tests that pass without a mutation, got a failure: {found['test']}")
        print(f"{len(found['tests'])} tests pass in {seconds:.0f} s", flush=True)
        for name in changed:
            tests = {test: one for test, one in found["tests"].items() if test.split("::")[0] == name}
            kept["files"][name] = {"digest": digests[name], "tests": tests}
        kept["modules"] = sorted({*kept["modules"], *found["modules"]})
        KEPT.write_text(json.dumps(kept))
    tests = {test: one for name in digests for test, one in kept["files"][name]["tests"].items()}
    return Baseline(
        {name: one["seconds"] for name, one in tests.items()},
        {name: frozenset(one["functions"]) for name, one in tests.items()},
        kept["modules"],
    )


def preload(modules: Sequence[str]) -> None:
    """Import the libraries that the tests need, so that a fork has them."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "examples")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in modules:
            try:
                importlib.import_module(name)
            except Exception as error:  # an optional part of a library that is not there
                print(
                    f"not imported before the forks: {name}: {error!r}"[:120],
                    flush=True,
                )


class Run:
    """The mutants of a table, run one after another or several at a time."""

    def __init__(self, table: Path, rows: Sequence[Row], *, processes: int) -> None:
        self._table, self._rows, self._processes = (
            table,
            {row.number: row for row in rows},
            processes,
        )
        self._where = {row.key: position for row, position in every_row(0)}
        self._baseline = baseline()
        self._passes: set[str] = set()
        self._known = frozenset().union(*self._baseline.functions.values())
        preload(self._baseline.modules)

    def modules(self, rows: Sequence[Row]) -> list[Module]:
        """Compile the modules of some mutants with all their mutations."""
        made = []
        for file in dict.fromkeys(row.file for row in rows):
            path = ROOT / file
            tree = ast.parse(path.read_text("utf-8"))
            found = sites(tree)
            for position in [self._where[row.key] for row in rows if row.file == file]:
                found[position].swap()
            code = compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)
            made.append(Module(_module(file), path, code))
        return made

    def start(self, modules: Sequence[Module], chosen: Sequence[str], *, loud: bool = False) -> Child:
        """Fork a child that runs some tests on mutated modules."""
        files = list(dict.fromkeys(name.split("::")[0] for name in chosen))
        return start(modules, chosen, files, self._baseline.seconds, loud=loud)

    def stages(self, row: Row) -> tuple[list[str], list[str]]:
        """Tests of the near stage and of the wide one, those most likely to fail first."""
        # A function that no test is known to execute may be new since they were run: then all of them are.
        function = name if (name := f"{row.file}:{row.function}") in self._known else ""
        package, module = row.file.split("/")[1], Path(row.file).stem
        own = (f"tests/{package}/test_{module}.py", row.file)
        near_files = (f"tests/{package}/", f"forgetwatch/{package}/")
        kills: dict[str, int] = {}
        for other in self._rows.values():
            if other.test and other.file == row.file:
                kills[other.test] = kills.get(other.test, 0) + (100 if other.function == row.function else 1)
        tests = [name for name, called in self._baseline.functions.items() if not function or function in called]

        def order(name: str) -> tuple[bool, int, float]:
            return (
                name.split("::")[0] not in own,
                -kills.get(name, 0),
                self._baseline.seconds[name],
            )

        near = [name for name in tests if name.startswith(near_files) and self._baseline.seconds[name] < SLOW]
        chosen = set(near)
        return sorted(near, key=order), sorted((name for name in tests if name not in chosen), key=order)

    def near(self, numbers: Sequence[int]) -> None:
        """Run the near stage of some mutants, several at a time."""
        todo, children = list(numbers), dict[int, Child]()
        while todo or children:
            while todo and len(children) < self._processes:
                row = self._rows[number := todo.pop(0)]
                if row.key not in self._where:
                    self.save(row, "gone", "", 0.0)
                elif chosen := self.stages(row)[0]:
                    children[number] = self.start(self.modules([row]), chosen)
                else:
                    self.save(row, "near", "", 0.0)
            if children:
                number, found, seconds = wait(children)
                self.finish(self._rows[number], found, seconds, passed="near")

    def wide(self, numbers: Sequence[int]) -> None:
        """Run the wide stage of survivors together, and of each half of them if a test fails.

        Most of them change nothing that a test could see, so that one run settles them. A mutant that only hides
        another one's failure would survive with it.
        """
        rows = [self._rows[number] for number in numbers]
        if not rows:
            return
        chosen = list(dict.fromkeys(name for row in rows for name in self.stages(row)[1]))
        chosen.sort(key=self._baseline.seconds.__getitem__)
        found: dict[str, Any] = {"result": "survived", "test": ""}
        seconds = 0.0
        if chosen:
            _, found, seconds = wait({0: self.start(self.modules(rows), chosen)})
        if found["result"] == "survived" or len(rows) == 1:
            for row in rows:
                self.finish(row, found, seconds / len(rows), passed="survived")
            return
        print(f"{found['result']} with {len(rows)} mutants: {found['test']}", flush=True)
        self.wide(numbers[: len(numbers) // 2])
        self.wide(numbers[len(numbers) // 2 :])

    def finish(self, row: Row, found: dict[str, Any], seconds: float, *, passed: str) -> None:
        """Note the outcome of a stage; `passed` is the result if no test failed."""
        result, test = found["result"], found["test"]
        if test and result in ("failed", "timeout"):
            self.check_passes(test)
        if result == "survived":
            result = passed
        elif result in ("failed", "died"):
            package, module = row.file.split("/")[1], Path(row.file).stem
            own = test.startswith((f"tests/{package}/test_{module}.py", row.file))
            result = "wide" if passed == "survived" else "module" if own else "package"
        self.save(row, result, test, seconds)

    def check_passes(self, test: str) -> None:
        """Make sure that a test that killed a mutant passes without one."""
        if test in self._passes or test not in self._baseline.seconds:
            return
        result = wait({0: self.start((), [test])})[1]
        if result["result"] != "survived":
            raise SystemExit(f"{test} fails without a mutation: {result}")
        self._passes.add(test)

    def save(self, row: Row, result: str, test: str, seconds: float) -> None:
        """Put a result into the table."""
        reason = row.reason if result in ("near", "survived") else ""
        row = replace(row, result=result, test=test, seconds=round(row.seconds + seconds, 1), reason=reason)
        self._rows[row.number] = row
        write_table(self._table, list(self._rows.values()))
        print(
            f"{row.number:4} {row.result:9} {row.seconds:6.1f} s  {row.file}:{row.line} {row.operator}: "
            f"{row.original} -> {row.mutated}   {row.test}",
            flush=True,
        )

    def all(self, *, retry: bool) -> None:
        """Run what has no result; with `retry` the survivors again, from the first stage."""
        rows = list(self._rows.values())
        if retry:
            rows = [replace(row, result="", seconds=0.0) if row.result in ("survived", "near") else row for row in rows]
            self._rows = {row.number: row for row in rows}
        self.near([row.number for row in rows if not row.result])
        self.wide([row.number for row in self._rows.values() if row.result == "near"])

    def check(self) -> None:
        """Run the near stage of every module, compiled as a mutant is and unchanged; all have to survive."""
        for file in sorted({row.file for row in self._rows.values()}):
            path = ROOT / file
            code = compile(ast.parse(path.read_text("utf-8")), str(path), "exec", dont_inherit=True)
            chosen = self.stages(next(row for row in self._rows.values() if row.file == file))[0]
            _, result, seconds = wait({0: self.start([Module(_module(file), path, code)], chosen)})
            print(f"{file}: {len(chosen)} tests, {result} in {seconds:.1f} s", flush=True)

    def show(self, number: int) -> None:
        """Run both stages of one mutant with the output of pytest."""
        row = self._rows[number]
        print(row, flush=True)
        for chosen in self.stages(row):
            if chosen:
                print(wait({0: self.start(self.modules([row]), chosen, loud=True)}), flush=True)


def _module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def main() -> None:
    """Draw mutants, or go on with a table, and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--retry-survivors", action="store_true")
    parser.add_argument("--check", action="store_true", help="run unmutated modules in the same way")
    parser.add_argument(
        "--show",
        type=int,
        metavar="NUMBER",
        help="run one mutant with the output of its tests",
    )
    asked = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", PYTHONHASHSEED="0")
    table = asked.out.resolve()
    os.chdir(ROOT)
    if not table.exists():
        write_table(table, draw(asked.seed, asked.count))
    run = Run(table, read_table(table), processes=asked.processes)
    if asked.check:
        run.check()
    elif asked.show:
        run.show(asked.show)
    else:
        run.all(retry=asked.retry_survivors)
        results = [row.result for row in read_table(table)]
        print({name: results.count(name) for name in sorted(set(results))})


if __name__ == "__main__":
    main()
