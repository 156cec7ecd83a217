"""Which questions a run evaluates.

    named            a probe of the user's, unchanged
    a ladder         the list of the run that resumes, of the first base, or that suits the model
    by default       `standard`, with `conduct` where generating is possible and cheap

The order is such that the first items are a fair sample, where looks may evaluate those alone.
`held_out` searches for the questions in the training examples.

A question that is trained on shows nothing about forgetting. Only exact matches are searched for
here; `forgetwatch probe check --train` also finds questions that share a run of words.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, Final

from torch import nn

from forgetwatch.probe import Probe, combine
from forgetwatch.probes.ladder import is_trial
from forgetwatch.probes.named import fitted, load_probe
from forgetwatch.probes.open_rendering import as_measured, rendered
from forgetwatch.probes.overlap import Overlap, exact_overlap, training_text
from forgetwatch.probes.shipped_probes import CONDUCT, stratified
from forgetwatch.progress import Done, Progress, shown
from forgetwatch.run.known_baseline import asked
from forgetwatch.run.schedule import FEWEST_ITEMS
from forgetwatch.scoring.adapters import adapter_start, adapters_off
from forgetwatch.scoring.generation import generation_obstacle
from forgetwatch.scoring.model import random_states
from forgetwatch.scoring.processes import on_main_process
from forgetwatch.snapshot import Snapshot

_CHARACTERS: Final = 3
_SHORT: Final = 1024
"""Characters of a token at the least, and tokens of a text that any training has memory for."""

SEARCH_SECONDS: Final = 60.0
"""Seconds after which the search stops; its result then names the share of the examples that it covered."""


_DELAY: Final = 5.0
"""Seconds of the search before its progress is shown."""


_REPORTED: Final = 1_000
"""Examples between two reports of the search."""


def held_out(
    probe: Probe, examples: Any, tokenizer: Any, *, seconds: float = SEARCH_SECONDS
) -> Overlap | None:
    """Find questions of the probe in the training examples.

    Returns:
        The questions, or None if the examples cannot be indexed. Tokenized examples are decoded
        again.
    """
    try:
        rows = len(examples)
        # Some data sets have a length and still cannot be indexed.
        examples[0]
    except (LookupError, TypeError, NotImplementedError):
        return None
    if not next(_texts(examples, 1, tokenizer, None)).strip():
        return None  # examples without text, such as pixel values
    label = f"searching the training examples for {probe.name}"
    # A dataset may draw random numbers.
    with random_states(), shown(label, delay=_DELAY) as progress:
        return exact_overlap(
            probe, _texts(examples, rows, tokenizer, progress), seconds=seconds, of_rows=rows
        )


def _texts(examples: Any, rows: int, tokenizer: Any, progress: Progress | None) -> Iterator[str]:
    for row in range(rows):
        if progress and row % _REPORTED == 0:
            progress(Done(count=row, total=rows, share=row / rows, unit="examples"))
        example = examples[row]
        text = training_text(example)
        if not text.strip() and isinstance(example, dict) and example.get("input_ids") is not None:
            text = tokenizer.decode(example["input_ids"], skip_special_tokens=True)
        yield text


def default_probe(
    tokenizer: Any, *, fast: bool, obstacle: str = "", fingerprint: str | None = None
) -> tuple[Probe, str]:
    """Default probe, and the reason for the choice.

    `standard`, with `conduct` if generating is possible and cheap.

    Args:
        tokenizer: The tokenizer; `conduct` needs its chat template.
        fast: True if generating is cheap: the model is on a GPU.
        obstacle: Reason why the model cannot generate; empty if it can.
        fingerprint: Fingerprint of the probe of a resumed run, which keeps it on any machine; None
            otherwise.
    """
    scored = load_probe("standard")
    combined = combine(scored, load_probe(CONDUCT))
    for probe in (scored, combined):
        if probe.fingerprint == fingerprint:
            return probe, "the run's own"
    if not getattr(tokenizer, "chat_template", None):
        return scored, "without conduct, which needs a chat template"
    if obstacle:
        return (
            scored,
            f"without conduct, whose answers this model cannot generate in training: {obstacle}",
        )
    if not fast:
        return scored, "without conduct, whose answers take too long to generate on this machine"
    return combined, "answers of conduct are generated if max_overhead allows it"


def choose(
    named: Probe | None,
    *,
    model: nn.Module,
    tokenizer: Any,
    is_fast: bool,
    fingerprint: str | None,
    earlier: Callable[[], str],
    token_budget: int | None,
    is_cut: bool,
) -> tuple[Probe, tuple[str, ...]]:
    """Choose the questions of a run, before the run exists.

    Args:
        named: The probe that the user names; None for the default.
        model: The model at the start.
        tokenizer: Its tokenizer.
        is_fast: True if generating is cheap: the model is on a GPU.
        fingerprint: Fingerprint of the probe of a run that resumes; None otherwise.
        earlier: Gives the name of the probe of an earlier run, whose list a ladder keeps.
        token_budget: Tokens of a batch of the questions that choose a list.
        is_cut: True if looks may evaluate the first items alone.

    Returns:
        The probe, and why it is this one, a line each.
    """
    lines = []
    if named is None:
        obstacle = generation_obstacle(model)
        named, why = default_probe(
            tokenizer, fast=is_fast, obstacle=obstacle, fingerprint=fingerprint
        )
        lines.append(f"evaluating {named.name}: {why}")
    probe, line = rendered(
        as_measured(named, fingerprint),
        lambda tried: answers_at_start(tried, model, tokenizer, token_budget=token_budget),
    )
    lines += [line] if line else []
    if is_trial(named):
        probe = fitted(
            named,
            lambda tried: answers_at_start(tried, model, tokenizer, token_budget=token_budget),
            earlier=on_main_process(earlier),
        )
        # One ladder in all processes, whatever their arithmetic.
        probe = load_probe(on_main_process(lambda: probe.name))
        lines.append(f"ladder: {probe.name}, by {len(named)} questions that are compared nowhere")
    if is_cut:
        ordered = tuple(stratified(probe.items, first=FEWEST_ITEMS))
        probe = probe if ordered == probe.items else probe.with_items(ordered)
    return probe, tuple(lines)


def answers_at_start(
    probe: Probe, model: nn.Module, tokenizer: Any, *, token_budget: int | None
) -> Snapshot:
    """Answers of the model that a run begins with, random states unchanged."""
    # Not more memory than a step: a row that is longer than its batch is left out.
    longest = _CHARACTERS * max(token_budget or 1e9, _SHORT)
    kept = [item for item in probe if len(str(item.prompt)) < longest]
    with random_states(), adapters_off(model) if adapter_start(model).is_off else nullcontext():
        return asked(model, tokenizer, probe.with_items(kept), token_budget=token_budget)
