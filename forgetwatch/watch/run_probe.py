"""The probe of a run: the default one, and a search for its questions in the training examples.

A question that is trained on shows nothing about forgetting. Only exact matches are searched for here;
`forgetwatch probe check --train` also finds questions that share a run of words.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from forgetwatch.probe import Probe, combine, read_probe
from forgetwatch.probes import Overlap, exact_overlap, load_probe, training_text
from forgetwatch.probes.shipped import shipped_version
from forgetwatch.progress import Done, Progress, shown
from forgetwatch.run_folder import PROBE, RUN_FOLDER
from forgetwatch.scoring import random_states

SECONDS: Final = 60.0
"""Seconds after which the search stops; its result then names the share of the examples that it covered."""

_DELAY: Final = 5.0
"""Seconds of the search before its progress is shown."""

_REPORTED: Final = 1_000
"""Examples between two reports of the progress."""


def held_out(probe: Probe, examples: Any, tokenizer: Any, *, seconds: float = SECONDS) -> Overlap | None:
    """Questions of the probe in the training examples; None if the examples cannot be indexed.

    Examples that were tokenized are decoded again.
    """
    try:
        rows = len(examples)
        # Some data sets have a length and still cannot be indexed.
        examples[0]
    except (LookupError, TypeError, NotImplementedError):
        return None
    label = f"searching the training examples for {probe.name}"
    # A dataset may draw random numbers.
    with random_states(), shown(label, delay=_DELAY) as progress:
        return exact_overlap(probe, _texts(examples, rows, tokenizer, progress), seconds=seconds, of_rows=rows)


def _texts(examples: Any, rows: int, tokenizer: Any, progress: Progress | None) -> Iterator[str]:
    for row in range(rows):
        if progress and row % _REPORTED == 0:
            progress(Done(count=row, total=rows, share=row / rows, unit="examples"))
        example = examples[row]
        text = training_text(example)
        if not text.strip() and isinstance(example, dict) and example.get("input_ids") is not None:
            text = tokenizer.decode(example["input_ids"], skip_special_tokens=True)
        yield text


def overlap_line(found: Overlap) -> str:
    """Line on the result of the search, with advice if questions were found."""
    advice = "; a question that is trained on shows nothing about forgetting: remove it from one of the two"
    return f"is the probe held out? {found.sentence}" + (advice if found.exact else "")


def probe_of_run(probe: Probe, output_dir: str | Path, fingerprint: str | None, *, chosen: bool) -> Probe | None:
    """The probe of the resumed run in an output_dir, if it is another version of this one; None otherwise.

    The questions of a shipped probe change with its version, and a run keeps those with which it began.

    Args:
        probe: The probe as this version has it.
        output_dir: The folder of the run.
        fingerprint: Fingerprint of the run's probe; None if the run is not resumed.
        chosen: True if the user named no probe.
    """
    path = Path(output_dir) / RUN_FOLDER / PROBE
    if fingerprint is None or probe.with_fingerprint(fingerprint) is not None or not path.is_file():
        return None
    found = read_probe(path)
    # A probe that the user names must be the run's: any other than an earlier version of it is an error.
    is_earlier = shipped_version({"name": probe.name, "fingerprint": fingerprint}) is not None
    return found if (chosen or is_earlier) and found.with_fingerprint(fingerprint) is not None else None


def default_probe(
    tokenizer: Any, *, fast: bool, obstacle: str = "", fingerprint: str | None = None
) -> tuple[Probe, str]:
    """The default probe and the reason for it: `standard`, with `behaviour` if generating is possible and cheap.

    Args:
        tokenizer: The tokenizer; `behaviour` needs its chat template.
        fast: True if generating is cheap: the trainer has an engine for it, or the model is on a GPU.
        obstacle: Reason why the model cannot generate; empty if it, or the trainer's engine, can.
        fingerprint: Fingerprint of the probe of a resumed run, which keeps it on any machine, under any norm; None
            otherwise.
    """
    scored = load_probe("standard")
    both = combine(scored, load_probe("behaviour"))
    for probe in (scored, both):
        if probe.with_fingerprint(fingerprint) is not None:
            return probe, "the run's own"
    if not getattr(tokenizer, "chat_template", None):
        return scored, "without behaviour, which needs a chat template"
    if obstacle:
        return scored, f"without behaviour, whose answers this model cannot generate in training: {obstacle}"
    if not fast:
        return scored, "without behaviour, whose answers take too long to generate on this machine"
    return both, "answers of behaviour are generated if max_overhead allows it"
