"""A probe asked of a served model: a Snapshot with the rows that a model in this process would give.

    budget ─▶ trial ─▶ questions, some at once ─▶ rows in the order of the probe

Neither order nor answers depend on how many questions are asked at once. Each answered item is kept
in a file (`kept_answers`): a measurement that was interrupted goes on where it ended. A server
has no weights to identify a model by: its facts, and its answers to a few questions, are compared at
the start of what goes on, and at the end.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from forgetwatch.cache import CacheEntry
from forgetwatch.decoding import Decoding
from forgetwatch.endpoint.address import Address
from forgetwatch.endpoint.asking import UnreadableError, echoed, letters, rendered, written
from forgetwatch.endpoint.client import Client, RefusedError
from forgetwatch.endpoint.route import TRIED, Route, find_route
from forgetwatch.errors import ScoringError, some_of
from forgetwatch.grading.grader import RULES, ungradable_reason
from forgetwatch.item import Item
from forgetwatch.kept_answers import KeptAnswers
from forgetwatch.loading import Loading
from forgetwatch.probe import Probe
from forgetwatch.progress import Done, Progress, log
from forgetwatch.scoring.encoding import Rendered
from forgetwatch.scoring.item_rows import (
    check_generated,
    choice_columns,
    graded_columns,
    lengths,
    passage_columns,
    question_columns,
    stops_of,
    unscored_columns,
)
from forgetwatch.snapshot import Snapshot
from forgetwatch.version import VERSION

SCORER: Final = "endpoint/1"
"""Name and version of the way in which a served model is asked."""

_SECOND: Final = 10_000
"""Offset of the seeds of a second measurement."""

_ITEM: Final = frozenset({400, 413, 422})
"""Statuses with which a server refuses one question, such as one that is too long."""

_OTHER: Final = 0.5
"""Nats by which a number of the same model may differ between two requests: far above rounding."""

_BEGINNING: Final = 32
"""Characters of a text that the same model begins with again."""

_CHARACTERS: Final = 4
"""Characters of a token, about, for the budget."""


_NO_LETTER: Final = {
    **{"outcome": "no answer", "correct": False, "chosen": None},
    **{"margin": None, "gold_share": 0.0},
}
"""Columns of an item of which no letter is among the likeliest tokens."""


@dataclass(frozen=True, kw_only=True)
class _Questions:
    """Questions of a probe to one server, by item and sample."""

    client: Client
    route: Route
    is_second: bool

    @property
    def all(self) -> dict[str, tuple[int, int]]:
        """Number of the item and of the sample, by key."""
        probe = self.route.probe
        samples = Decoding.of(probe.decoding).samples
        return {
            f"{number}/{sample}": (number, sample)
            for number, item in enumerate(probe)
            for sample in range(samples if probe.is_generated(item) else 1)
        }

    def answer(self, number: int, sample: int) -> dict[str, Any]:
        """Ask a question.

        Returns:
            Columns of the row, as JSON values.
        """
        item: Item = self.route.probe[number]
        prompt = rendered(item, self.route.probe)
        sent = json.dumps([prompt.context, prompt.choices]).encode()
        columns = {"prompt_hash": hashlib.sha256(sent).hexdigest()[:16], "sample": sample}
        is_graded = self.route.probe.is_generated(item) and item.judge is None
        try:
            if why := prompt.unscored or (ungradable_reason(item) if is_graded else ""):
                return columns | unscored_columns(why)
            return columns | self._columns(item, prompt, sample)
        except UnreadableError as error:
            return columns | unscored_columns(f"of the server's answer: {error}")
        except RefusedError as error:
            if error.status not in _ITEM:
                raise
            return columns | unscored_columns(f"the server refuses it ({error.why})")

    def _columns(self, item: Item, prompt: Rendered, sample: int) -> dict[str, Any]:
        client, probe = self.client, self.route.probe
        if probe.is_generated(item):
            decoding = Decoding.of(probe.decoding)
            stop = (*decoding.stop, *stops_of(item, probe))
            seed = decoding.seed + sample + _SECOND * self.is_second
            answer = written(client, prompt, decoding, seed=seed, stop=stop)
            return graded_columns(item, decoding=decoding, stop=stop, **answer)
        if self.route.way == "letters" and item.choices:
            logprobs, is_seen = letters(client, prompt, len(item.choices), top=self.route.top)
            unit = lengths(prompt.choices, [1] * len(logprobs))
            columns = choice_columns(item, logprobs, unit, norm="sum")
            return columns if is_seen else columns | _NO_LETTER
        ends = [echoed(client, prompt, choice) for choice in prompt.choices]
        if item.is_passage:
            return passage_columns(ends[0].logprob, ends[0].ending, ends[0].tokens)
        logprobs = np.array([end.logprob for end in ends])
        if not item.choices:  # the answer was read, and nothing was chosen among options
            is_right = any(end.is_greedy for end in ends)
            return {"choice_logprobs": logprobs.tolist(), "correct": is_right}
        unit = lengths(prompt.choices, [end.tokens for end in ends])
        return choice_columns(item, logprobs, unit, norm=probe.norm)


def score_endpoint(
    name: str,
    probe: Probe,
    *,
    loading: Loading = Loading(),
    progress: Progress | None = None,
    answers: Path | None = None,
    is_second: bool = False,
) -> Snapshot:
    """Score a served model on a probe.

    Args:
        name: Its address, ``http://HOST:PORT#NAME``.
        probe: The items.
        loading: How many questions are asked at once, and whether a fee is agreed to.
        progress: Called with what is done after each item.
        answers: File in which the answers are kept, for a measurement that is interrupted; it stays.
            None for one in the cache, which goes when all are there.
        is_second: Sample with other seeds, to measure what the server alone changes.

    Raises:
        ScoringError: If there is no such server or model, a fee is not agreed to, the server does
            not answer any more, or another model takes the place of the first.
    """
    address = Address.of(name)
    check_generated(probe)
    budget = _budget(probe)
    if not (address.is_own or loading.may_spend):
        raise ScoringError(
            f"{address}: needs {budget}; agree to a fee with --yes (a server of your own is named "
            "by http://)"
        )
    log(f"{address}: {budget}")
    started = time.perf_counter()
    with Client(address, concurrency=loading.concurrency) as client:
        facts = _facts(client)
        route = find_route(client, probe)
        if route.line:
            log(f"{client.address}: {route.line}")
        questions = _Questions(client=client, route=route, is_second=is_second)
        of = [SCORER, RULES, client.address.url, facts, route.probe.fingerprint, route.way]
        of += [[item.task, item.id] for item in probe] + [is_second]
        kept = KeptAnswers(answers or CacheEntry.of(of).path.with_suffix(".answers"), of)
        if len(kept):
            log(f"{kept.path}: {len(kept):,} answers are there already")
        is_same = _is_same(questions, kept)
        if is_same:
            with kept.named_at_an_end():
                _ask_all(questions, kept, loading.concurrency, progress)
            is_same = _is_same(questions, kept) and _facts(client) == facts
    if not is_same:
        raise ScoringError(
            f"{client.address}: another model has taken the place of the one that was asked first; "
            f"needed one model for all questions: remove {kept.path} and start again"
        )
    if answers is None:
        kept.remove()
    of_probe = {"name": probe.name, "fingerprint": route.probe.fingerprint, "items": len(probe)}
    meta = {
        **{"model": client.address.model, "step": None, "scorer": SCORER, "rules": RULES},
        **{"engine": "endpoint", "way": route.way, "versions": {"forgetwatch": VERSION}},
        "probe": of_probe | route.probe.settings,
        "server": {"url": client.address.url, "asked_at_once": loading.concurrency, **facts},
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - started, 3),
    }
    rows = [
        question_columns(probe[number]) | kept.get(key)
        for key, (number, _) in questions.all.items()
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    return Snapshot.from_columns({name: [row.get(name) for row in rows] for name in names}, meta)


def _ask_all(
    questions: _Questions, kept: KeptAnswers, concurrency: int, progress: Progress | None
) -> None:
    # What is not kept yet.
    missing = {key: at for key, at in questions.all.items() if kept.get(key) is None}
    total = len(questions.all)
    pool = ThreadPoolExecutor(concurrency)
    futures = {pool.submit(questions.answer, *at): key for key, at in missing.items()}
    try:
        for count, future in enumerate(as_completed(futures), total - len(missing) + 1):
            kept.add({futures[future]: future.result()})
            if progress:
                progress(Done(count=count, total=total, share=count / total))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _is_same(questions: _Questions, kept: KeptAnswers) -> bool:
    """Does any of the first questions get the same answer now?"""
    if Decoding.of(questions.route.probe.decoding).temperature:  # a sample is another each time
        return True
    pairs = [pair for pair in questions.all.items() if kept.get(pair[0]) is not None][:TRIED]
    results = [_is_again(kept.get(key), questions.answer(*at)) for key, at in pairs]
    return any(results) or not results


def _is_again(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    if numbers := earlier.get("choice_logprobs"):
        change = np.abs(np.subtract(numbers, later.get("choice_logprobs") or np.nan))
        return bool(change.max() <= _OTHER)
    texts = [str(answer.get("output"))[:_BEGINNING] for answer in (earlier, later)]
    return texts[0] == texts[1]


def _facts(client: Client) -> dict[str, Any]:
    """Read facts of the model, which the client asks from now on."""
    models: dict[str, Any] = {}
    with suppress(RefusedError):  # some servers list none
        models = {str(model["id"]): model for model in client.ask("/models").get("data") or []}
    name = client.address.model or (next(iter(models)) if len(models) == 1 else "")
    if not name or (models and name not in models):
        there = f"the server has {some_of(list(models), 5)}" if models else "the server lists none"
        raise ScoringError(f"{client.address}: needed #NAME of a model, got {name!r}; {there}")
    client.address = replace(client.address, model=name)
    return {key: value for key, value in models.get(name, {}).items() if key in _FACTS}


_FACTS: Final = ("id", "root", "parent", "owned_by", "max_model_len", "revision", "meta")
"""Facts of servers that name a model; times of their own answers are left out."""


def _budget(probe: Probe) -> str:
    # The most that any way of asking takes.
    decoding = Decoding.of(probe.decoding)
    requests, read, wrote = 8 * TRIED, 0, 0
    for item in probe:
        is_written = probe.is_generated(item)
        number = decoding.samples if is_written else max(len(item.choices), 1)
        characters = len(str(item.full_prompt)) + sum(map(len, item.choices))
        requests, read = requests + number, read + number * characters // _CHARACTERS
        wrote += number * (decoding.tokens if is_written else 1)
    return (
        f"at most {requests:,} requests, about {read:,} tokens read and at most {wrote:,} written"
    )
