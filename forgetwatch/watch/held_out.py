"""Is the probe held out? What of it stands word for word in the training examples, looked for at the start of a run.

A question that is trained on is remembered, and says nothing about forgetting. Only the exact match is looked for here;
`forgetwatch probe check --train` also finds questions that share a run of words.

What a run is asked where nothing else is named: `standard`, and `behaviour` where writing answers is cheap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from forgetwatch.probe import Probe, combine
from forgetwatch.probes import load_probe
from forgetwatch.probes.overlap import Overlap, exact_overlap, training_text
from forgetwatch.scoring.isolation import random_states

SECONDS: Final = 60.0
"""Time after which the search stops; it then says how far it came."""


def held_out(probe: Probe, examples: Any, tokenizer: Any, *, seconds: float = SECONDS) -> Overlap | None:
    """What of the probe stands in the training examples; None where they cannot be looked at without going through.

    Examples that are token ids by now are turned into text again.

    Args:
        probe: The questions.
        examples: The trainer's training set.
        tokenizer: The one that made the token ids.
        seconds: Most seconds.
    """
    try:
        rows = len(examples)
        examples[0]
    except (LookupError, TypeError, NotImplementedError):
        return None
    with random_states():  # a dataset may draw random numbers
        return exact_overlap(probe, _texts(examples, rows, tokenizer), seconds=seconds, of_rows=rows)


def _texts(examples: Any, rows: int, tokenizer: Any) -> Iterator[str]:
    for row in range(rows):
        example = examples[row]
        text = training_text(example)
        if not text.strip() and isinstance(example, dict) and example.get("input_ids") is not None:
            text = tokenizer.decode(example["input_ids"], skip_special_tokens=True)
        yield text


def overlap_line(found: Overlap) -> str:
    """What was found, for the person who watches the run; what to do where it is more than nothing."""
    advice = "; a question that is trained on says nothing about forgetting: leave it out of one of the two"
    return f"is the probe held out? {found.sentence}" + (advice if found.exact else "")


def default_probe(tokenizer: Any, *, fast: bool, saved: str | None = None) -> tuple[Probe, str]:
    """The probe, and why it is that one.

    Args:
        tokenizer: Answers are written behind its chat template.
        fast: Whether writing is cheap: the trainer has an engine for it, or the model is on a GPU.
        saved: Fingerprint of the probe of a run that goes on; it keeps its probe, whatever this machine has.
    """
    scored = load_probe("standard")
    both = combine(scored, load_probe("behaviour"))
    if saved in (scored.fingerprint, both.fingerprint):
        return (both if saved == both.fingerprint else scored), "the run's own"
    if not getattr(tokenizer, "chat_template", None):
        return scored, "without behaviour, which needs a chat template"
    if not fast:
        return scored, "without behaviour, whose answers take too long to write on this machine"
    return both, "behaviour is written where max_overhead allows it"
