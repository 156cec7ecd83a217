"""Is the probe held out? What of it stands word for word in the training examples, looked for at the start of a run.

A question that is trained on is remembered, and says nothing about forgetting. Only the exact match is looked for here;
`forgetwatch probe check --train` also finds questions that share a run of words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from forgetwatch.probe import Probe
from forgetwatch.probes.overlap import Overlap, exact_overlap
from forgetwatch.probes.word_runs import training_text
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
