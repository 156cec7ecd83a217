"""Regular expressions from files: what they match is what `re` matches, and no pattern takes more than its limits."""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import PATIENCE, calls_limited, children_cpu, wait_until

from forgetwatch import Item
from forgetwatch.errors import ProbeError
from forgetwatch.grading import FLAGS, BoundedSearch, LastMatch, bounded_search, check_item, grade, patterns

SLOW = ("(a+)+$", "a" * 40 + "b")
HOSTILE = [
    ("(?x)(a#)\n+)+b", "a" * 60),
    ("a?" * 30 + "a" * 30 + "$", "a" * 29 + "c"),
    ("(?:" + "a?" * 32 + "){1}" + "a" * 32 + "b", "a" * 31),
    ("(a|aa)" * 30 + "b", "a" * 60),
    ("(ix|ıx)*b", "ix" * 40),
    ("(?=(a+)+b)", "a" * 4000),
    ("((a{1,1000}){1,1000}){1,1000}b", "a" * 4000),
    ("(?:" * 30 + "a" + "{1,1000})" * 30 + "b", "a" * 4000),
    ("(?:(?:(?:(?:x?){1000}){1000}){1000}){1000}b", "a" * 4000),
]
"""(Pattern, text on which it takes for ever, or more memory than there is)."""
NOT_SEEN = [
    ("a?b?" * 20 + "(?:ab){20}$", "ab" * 20 + "c"),
    ("(?:a|aa)(?:aa|a)" * 20 + "$", "a" * 50 + "c"),
    ("(?:(?:(?:(?:){1000}){1000}){1000}){1000}b", "a" * 4000),
    ("[\x00-\uffff]" * 1900 + "b", "a" * 4000),
]
"""The same, and nothing in their form tells it."""


@pytest.fixture
def search() -> Iterator[BoundedSearch]:
    made = BoundedSearch(seconds=0.2)
    yield made
    made.close()


@pytest.mark.parametrize(("pattern", "text"), HOSTILE, ids=[pattern[:20] for pattern, _ in HOSTILE])
def test_a_hostile_pattern_of_a_common_form_is_refused_before_any_search(
    pattern: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[object] = []
    monkeypatch.setattr(BoundedSearch, "last_match", lambda *pair: searched.append(pair))
    with pytest.raises(ProbeError, match="for ever"), calls_limited(100_000):
        check_item(Item(id="1", task="t", prompt="p", answer=pattern, match="regex"))
    assert searched == []


@pytest.mark.parametrize(("pattern", "text"), HOSTILE + NOT_SEEN, ids=[one[:20] for one, _ in HOSTILE + NOT_SEEN])
def test_no_search_takes_more_than_its_time_or_memory(search: BoundedSearch, pattern: str, text: str) -> None:
    used = children_cpu()
    found = search.last_match(pattern, text)
    search.close()
    assert children_cpu() - used < 10 * 0.2
    assert found.text is None
    assert found.problem in ("", "its pattern took longer than 0.2 s", "its pattern needs more than 256 MiB of memory")


def test_patterns_that_no_rule_knows_reach_the_limit(search: BoundedSearch) -> None:
    for pattern, text in NOT_SEEN:
        assert patterns.unsafe_reason(pattern) is None
        assert search.last_match(pattern, text).problem


def test_an_item_whose_pattern_reaches_the_limit_is_unscored(
    search: BoundedSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "_SEARCH", search)
    pattern, text = NOT_SEEN[0]
    for item in (
        Item(id="1", task="t", prompt="p", answer=pattern, match="regex"),
        Item(id="2", task="t", prompt="p", answer="a", match=f"regex:{pattern}"),
    ):
        check_item(item)
        graded = grade(item, text)
        assert (graded.correct, graded.outcome) == (None, "unscored: its pattern took longer than 0.2 s")
        assert grade(item, text, truncated=True).correct is None


def test_a_text_on_which_a_pattern_reached_the_limit_is_not_searched_again(
    search: BoundedSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = search.last_match(*SLOW)
    assert first.problem
    with monkeypatch.context() as patched:
        patched.setattr(search, "_request", lambda *_: pytest.fail("searched again"))
        assert [search.last_match(*SLOW) for _ in range(1000)] == [first] * 1000
    assert search.last_match("a", "a") == LastMatch("a", at_end=True)


def test_an_output_that_reaches_the_limit_changes_no_result_of_another(search: BoundedSearch) -> None:
    texts = ["a", SLOW[1], "aaa", "\ud800 aa"]
    found = [search.last_match(SLOW[0], text) for text in texts]
    assert [one.problem for one in found] == ["", "its pattern took longer than 0.2 s", "", ""]
    other = BoundedSearch(seconds=0.2)
    assert [other.last_match(SLOW[0], text) for text in reversed(texts)] == found[::-1]
    other.close()


@pytest.mark.parametrize("of_one_pattern", [False, True])
def test_slow_searches_share_one_allowance(of_one_pattern: bool) -> None:
    search = BoundedSearch(seconds=0.4, allowance=0.5)
    pairs = [(SLOW[0], f"{n}{SLOW[1]}") if of_one_pattern else (f"{n}|{SLOW[0]}", SLOW[1]) for n in range(4)]
    problems = [search.last_match(*pair).problem for pair in pairs]
    assert problems == ["its pattern took longer than 0.4 s"] * 2 + ["its pattern took longer than 0.1 s"] * 2
    assert search.last_match("a", "a") == LastMatch("a", at_end=True)
    search.close()


def test_a_slow_compilation_reaches_the_limit() -> None:
    search = BoundedSearch(seconds=0.02)
    assert search.compile_problem("[\x00-\uffff]" * 1900) == "its pattern took longer than 0.02 s"
    search.close()


@pytest.mark.parametrize(("pattern", "says"), [("(", "missing \\)"), ("(" * 3000 + ")" * 3000, "recursion")])
def test_a_text_that_is_no_pattern_is_refused_in_the_words_of_re(pattern: str, says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        patterns.check_pattern(pattern)


def test_a_pattern_that_is_too_long_is_refused_and_the_message_is_short() -> None:
    with pytest.raises(ProbeError, match="at most 10,000 characters, got 10,001") as caught:
        patterns.check_pattern("a" * 10_001)
    assert len(str(caught.value)) < 400


ATOMS = [
    *(r"\w", r"\d", r"\s", r"\W", r"\b", r"\B", "a", "b", "i", "ı", "İ", "ß", "é", "ि", "1", "²", " ", "\n", "."),
    *("^", "$"),
    *(r"\A", r"\Z", "[a-c]", "[^a]", r"[\w-]", "(a)", "(b|a)", "(?:ab)", "(?=a)", "(?<!b)", "{e}", "(?>a+)", "[i-k]"),
]
REPEATS = ["", "", "", "*", "+", "?", "*?", "{2}", "{1,2}", "*+"]
PATTERNS = st.lists(st.tuples(st.sampled_from(ATOMS), st.sampled_from(REPEATS)).map("".join), max_size=5).map("".join)
SEARCH = BoundedSearch()


@given(pattern=PATTERNS, text=st.text(st.sampled_from("aAbBiIıİßſéÉि1² _\n.-\x1c\u0301\ud800{}e"), max_size=12))
def test_what_matches_is_what_re_matches(pattern: str, text: str) -> None:
    try:
        made = re.compile(pattern, FLAGS)
    except re.error as error:
        problem = str(error)
    else:
        problem = ""
    assert SEARCH.compile_problem(pattern) == problem
    if problem:
        return
    *_, last = (None, *made.finditer(text))
    group = None if last is None else last[1] if made.groups and last[1] is not None else last[0]
    at_end = last is not None and last.end() == len(text)
    assert SEARCH.last_match(pattern, text) == LastMatch(group, at_end)


def test_a_process_that_was_ended_from_outside_is_started_again(search: BoundedSearch) -> None:
    assert search.last_match("a", "ba").text == "a"
    first = search._process
    assert first is not None
    first._process.kill()
    first._process.wait()
    assert search.last_match("b", "ba").text == "b"
    assert search._process is not first


def test_a_process_that_gets_no_time_is_given_up(search: BoundedSearch) -> None:
    assert search.last_match("a", "a").text == "a"
    assert search._process is not None
    os.kill(search._process._process.pid, signal.SIGSTOP)
    search._patience = 0.5
    assert search.last_match("b", "a").problem
    search._patience = PATIENCE
    assert search.last_match("c", "c").text == "c"


def test_without_a_process_the_item_is_refused_or_unscored_until_one_can_be_started(
    search: BoundedSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_search.sys, "executable", "/nowhere/python")
    assert "no process can be started" in search.last_match("a", "a").problem
    monkeypatch.setattr(patterns, "_SEARCH", search)
    with pytest.raises(ProbeError, match="no process can be started"):
        patterns.check_pattern("never seen before")
    monkeypatch.undo()
    assert search.last_match("a", "a") == LastMatch("a", at_end=True)


class _AlarmError(TimeoutError):
    """Raised by a signal handler, and an OSError as the TimeoutError of many alarm handlers is."""


def _interrupt(number: int, frame: object) -> None:
    raise _AlarmError("too late")


def _search_with_alarm(search: BoundedSearch, pattern: str, text: str) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    search.last_match(pattern, text)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timer")
def test_an_exception_while_a_reply_is_awaited_shifts_no_later_answer() -> None:
    search = BoundedSearch(seconds=60, allowance=60)
    assert search.last_match(r"x(\d)", "x9").text == "9"
    old = signal.signal(signal.SIGALRM, _interrupt)
    try:
        for turn in range(3):
            with pytest.raises(_AlarmError):
                _search_with_alarm(search, r"(?:a|a)*b|(z)", "a" * (40 + turn))
            assert [search.last_match(r"x(\d)", f"x{n}").text for n in range(5)] == list("01234")
    finally:
        signal.signal(signal.SIGALRM, old)
    # The interrupted searches are neither remembered as slow nor taken from the allowance.
    assert (search._given_up, search._allowance) == ({}, 60)
    search.close()


def test_a_reply_to_another_request_is_never_taken(search: BoundedSearch) -> None:
    assert search.last_match("a", "a").text == "a"
    first = search._process
    assert first is not None
    first._lines.put(b'[1, "stale", true, "", false, 0.0]\n')
    assert [search.last_match(r"x(\d)", f"x{n}").text for n in range(5)] == list("01234")
    assert search._process is not first


def test_threads_that_search_first_at_the_same_time_share_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow_getpid(getpid: Callable[[], int] = os.getpid) -> int:
        time.sleep(random.uniform(0, 0.02))  # a thread that finds out whose process it is may be interrupted there
        return getpid()

    monkeypatch.setattr(os, "getpid", slow_getpid)

    class Counted(bounded_search._SearchProcess):
        def __init__(self) -> None:
            started.append(self)
            super().__init__()

    started: list[Counted] = []
    monkeypatch.setattr(bounded_search, "_SearchProcess", Counted)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    wrong: list[object] = []

    def work(search: BoundedSearch, ready: threading.Barrier, number: int) -> None:
        ready.wait()
        for turn in range(3):
            try:
                found: object = search.last_match(r"x(\d+)", f"x{number}{turn}").text
            except Exception as error:
                found = error
            if found != f"{number}{turn}":
                wrong.append(found)

    try:
        for _ in range(5):
            search, ready = BoundedSearch(), threading.Barrier(6)
            threads = [threading.Thread(target=work, args=(search, ready, number)) for number in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            search.close()
    finally:
        sys.setswitchinterval(interval)
    assert (wrong, len(started)) == ([], 5)


def test_threads_share_one_process_and_get_their_own_answers(search: BoundedSearch) -> None:
    wrong = []

    def work(number: int) -> None:
        for turn in range(50):
            text = f"{number}-{turn}"
            if search.last_match(r"\d+-\d+", text).text != text:
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _search_in_a_fork(search: BoundedSearch, answers: multiprocessing.Queue[str | None]) -> None:
    for turn in range(50):
        answers.put(search.last_match(r"\d+", f"fork {turn}").text)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_a_search_process_of_its_own(search: BoundedSearch) -> None:
    assert search.last_match("a", "a").text == "a"
    first = search._process
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    forked = context.Process(target=_search_in_a_fork, args=(search, answers))
    forked.start()
    mine = [search.last_match(r"\d+", f"mine {turn}").text for turn in range(1000, 1050)]
    theirs = [answers.get(timeout=PATIENCE) for _ in range(50)]
    forked.join()
    assert search._process is first  # the end of the forked process did not end it
    assert (mine, theirs) == ([str(n) for n in range(1000, 1050)], [str(n) for n in range(50)])


@pytest.mark.parametrize("end", ["pass", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_the_search_process_ends_with_its_parent(tmp_path: Path, end: str) -> None:
    script = textwrap.dedent(f"""
        import os
        from forgetwatch.grading.bounded_search import BoundedSearch
        search = BoundedSearch()
        search.last_match("a", "a")
        print(search._process._process.pid, flush=True)
        {end}
    """)
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    pid = int(done.stdout)
    wait_until(lambda: not _is_running(pid), f"the end of the search process {pid}")


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", maxsplit=1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_the_search_process_imports_nothing_from_the_users_folders(tmp_path: Path) -> None:
    (tmp_path / "resource.py").write_text("raise SystemExit")  # a module that only the search process imports
    code = "from forgetwatch.grading.bounded_search import BoundedSearch as B; print(B().last_match('a', 'a'))"
    root = Path(bounded_search.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{root}"},
    )
    assert done.stdout.strip() == "LastMatch(text='a', at_end=True, problem='', at_limit=False)", done.stderr
