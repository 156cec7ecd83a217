"""The row of an item in a snapshot: from the log-likelihoods of its options, or from a generated text.

    question_columns   what is asked: ids, hashes, the right options
    passage_columns    a text's log-likelihood and lengths (`metrics.log_score`): no outcome
    choice_columns     log-likelihoods ─▶ the choice, right or wrong, its share and margin
    graded_columns     a generated text ─▶ right, wrong, or unscored and why

The rule by which log-likelihoods decide is `metrics.choices`. A model in this process and one that
is served give their rows by these functions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ProbeError
from forgetwatch.grading.grader import check_item, grade
from forgetwatch.item import Item
from forgetwatch.metrics import choices
from forgetwatch.probe import Norm, Probe
from forgetwatch.probes.harness import harness_judge, harness_stops
from forgetwatch.scoring.encoding import Encoded


def question_columns(item: Item) -> dict[str, Any]:
    """Columns of what an item asks, by name."""
    columns: dict[str, Any] = {
        "item_id": item.id,
        "content_hash": item.content_hash,
        "task": item.task,
        "category": item.category,
        "cluster": item.cluster,
        "wording": None if item.wording is None else item.wording.name,
        "sample": 0,
        "k": item.k,
        "outcome": "ok",
    }
    if item.choices and item.answers:
        columns |= {
            "gold": item.answers[0],
            "golds": list(item.answers) if len(item.answers) > 1 else None,
        }
    return columns


def unscored_columns(reason: str) -> dict[str, Any]:
    """Columns of an answer that has no outcome.

    Scored choices of the item must not stand for an answer that was not generated.
    """
    return {"outcome": f"unscored: {reason}", "correct": None, "chosen": None}


def passage_columns(logprob: float, text: str, tokens: int) -> dict[str, Any]:
    """Columns of a scored passage.

    Args:
        logprob: Its log-likelihood, nats.
        text: The text that was scored.
        tokens: Number of its tokens.
    """
    unit = lengths([text], [tokens], leading_space=True)
    return {
        "choice_logprobs": [logprob],
        **{f"choice_{name}": values.tolist() for name, values in unit.items()},
    }


def choice_columns(
    item: Item,
    logprobs: NDArray[np.float64],
    unit: dict[str, NDArray[np.int64]],
    *,
    norm: Norm,
    priors: NDArray[np.float64] | None = None,
) -> dict[str, Any]:
    """Columns of the choice of an item.

    Args:
        item: The question.
        logprobs: Log-likelihood of each option, nats [options].
        unit: Lengths of the options, as of `lengths`.
        norm: Norm of the score that decides.
        priors: Log-likelihood of each option without the prompt, nats [options]; None unless the
            norm needs them.
    """
    decision = decide(logprobs, lengths=unit, norm=norm, answers=item.answers, priors=priors)
    return {
        "chosen": decision.chosen,
        "correct": decision.correct,
        "choice_logprobs": logprobs.tolist(),
        "choice_priors": None if priors is None else priors.tolist(),
        **{f"choice_{name}": values.tolist() for name, values in unit.items()},
        "gold_share": decision.gold_share,
        "margin": decision.margin if math.isfinite(decision.margin) else None,
    }


def check_generated(probe: Probe) -> None:
    """Refuse a probe with an ungradable generated answer.

    The item is named.
    """
    for item in probe:
        if probe.is_generated(item) and item.judge is None and harness_judge(item) is None:
            try:
                check_item(item)
            except ProbeError as error:
                # The error may name the item itself; once is enough.
                raise ProbeError(
                    f"item {item.id!r}: {str(error).removeprefix(f'item {item.id!r}: ')}"
                ) from error


def stops_of(item: Item, probe: Probe) -> tuple[str, ...]:
    """Texts that end the answer to an item, beside the stops of the probe.

    After worked examples a model goes on with a question of its own.
    """
    is_plain = probe.rendering_of(item) == "plain"
    own = (item.next_question,) if item.shots and item.next_question and is_plain else ()
    return harness_stops(item) or own


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """Cut a text at the first stop text."""
    return text[
        : min(
            (index for stop_text in stop if (index := text.find(stop_text)) >= 0), default=len(text)
        )
    ]


def graded_columns(
    item: Item,
    output: str,
    *,
    decoding: Decoding,
    stop: Sequence[str] = (),
    truncated: bool = False,
    opening: str = "",
    calls: str | None = None,
) -> dict[str, Any]:
    """Columns of a generated answer.

    Args:
        item: The question.
        output: The text that the model generated.
        decoding: Its settings.
        stop: Texts of this item that end an answer, beside those of the settings.
        truncated: True if it was cut at its length.
        opening: Tag of a thinking block that the prompt opens at its end.
        calls: The text that is graded in place of the output, if the answer may call tools.
    """
    judge = item.judge or harness_judge(item)
    text = cut_at_stop(output, stop)
    graded = grade(
        item,
        # The output alone does not show that the prompt ends with the beginning of a thinking
        # block.
        opening + (text if calls is None else calls),
        truncated=truncated and text == output,
        no_answer=decoding.no_answer,
        judge=None if judge is None else lambda item, output: judge(output, item),
    )
    return {
        "output": text,
        "outcome": graded.outcome,
        "correct": graded.correct,
        "score": graded.score,
        "chosen": graded.chosen,
        "in_form": graded.form,
    }


@dataclass(frozen=True, kw_only=True)
class ChoiceReadout:
    """The outcome of one item; see the columns of a snapshot."""

    chosen: int
    correct: bool
    gold_share: float
    margin: float


def lengths(
    texts: Sequence[str], tokens: Sequence[int], *, leading_space: bool = False
) -> dict[str, NDArray[np.int64]]:
    """Length of each choice in characters, bytes and tokens.

    UTF-8 bytes; int64 [choices].

    A leading space counts among characters and bytes if requested, as in a passage, where it is
    text.
    """
    texts = [text if leading_space else text.removeprefix(" ") for text in texts]
    return {
        "chars": np.array([len(text) for text in texts]),
        "bytes": np.array([len(text.encode()) for text in texts]),
        "tokens": np.array(tokens),
    }


def decide(
    logprobs: NDArray[np.float64],
    *,
    lengths: dict[str, NDArray[np.int64]],
    norm: Norm,
    answers: Sequence[Any],
    priors: NDArray[np.float64] | None = None,
) -> ChoiceReadout:
    """Choose by the highest normalised log-likelihood.

    Log-likelihoods, and priors without the prompt for the norm ``unconditional``, are in nats
    [choices]; `answers` are the indices of the right choices.

    >>> decision = decide(np.log([0.8, 0.2]), lengths={}, norm="sum", answers=[0])
    >>> decision.chosen, decision.correct, round(decision.gold_share, 6), round(decision.margin, 6)
    (0, True, 0.8, 1.386294)
    """
    k = np.array([len(logprobs)])
    scores = choices.normalise(logprobs, k, norm=norm, lengths=lengths, priors=priors)
    golds = np.zeros(len(logprobs), bool)
    golds[list(answers)] = True
    decisions = choices.decide(scores, k, golds)
    chosen = int(decisions.chosen[0])
    return ChoiceReadout(
        chosen=chosen,
        correct=chosen in answers,
        gold_share=float(decisions.share[0]),
        margin=float(decisions.margin[0]),
    )


def option_mass(logprobs: NDArray[np.float64], encoded: Encoded, spelled: float) -> float:
    """Probability of the options at the answer position, 0 to 1.

    With other spellings (`spelled`).

    A choice that begins with another choice's tokens is already counted in it.
    """
    # By token ids: two choices with the same tokens are one continuation, and count once.
    counted = {
        ids: logprob
        for ids, logprob in zip(encoded.choices, logprobs, strict=True)
        if not any(choice != ids and ids[: len(choice)] == choice for choice in encoded.choices)
    }
    # Rounding may carry the sum above 1.
    return min(1.0, float(np.exp(logsumexp(list(counted.values())))) + spelled)


def is_free_correct(item: Item, encoded: Encoded, top: int) -> bool:
    """Does the likeliest next token begin a right answer?"""
    golds = map(int, item.answers)
    return any(top == encoded.choices[gold][0] or top in encoded.spellings[gold] for gold in golds)
