"""RetentionLoss: a term of the loss that penalises answers which turn from right to wrong.

    class Trainer(RetentionLoss, SFTTrainer): ...
    trainer = Trainer(..., retention=Retention("kept.jsonl", weight=0.5))

Before the first step the base answers the questions of `kept.jsonl`, and those count that it
clearly knows: right, with at least 80 % of the probability of all options. At each step a few of
them are read, and one of two terms is added to the loss of the trainer, times the weight:

    kl       KL(base || model) over the options of a question, in nats; 0 for an unchanged model without dropout
    hinge    max(0, m - margin): by how many nats the right option fails to lead by m, the lead that it had, at most 2

The questions may not be those of the probe: `forgetwatch probe split` makes two halves, one to
train on and one to watch. With a weight of 0 nothing is read, and the training is bitwise that of
the trainer alone. The term is divided for gradient accumulation as the trainer divides its own
loss, so that each optimizer step has it once. The base is the model of the trainer at its first
`train`; one that is made from a checkpoint keeps what that checkpoint knows. With dropout the term
draws masks of its own, so that those of the training are others than without it.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn

from forgetwatch.errors import WatchError
from forgetwatch.metrics.known import TAU
from forgetwatch.probe import Probe
from forgetwatch.probes.named import load_probe
from forgetwatch.progress import log
from forgetwatch.scoring.encoding import encode
from forgetwatch.scoring.model import ModelInfo
from forgetwatch.scoring.processes import rank, world_size
from forgetwatch.scoring.scorer import Scorer

Kind = Literal["kl", "hinge"]
Schedule = Literal["constant", "rising", "falling"]

LEAD: Final = 2.0
"""Nats of the largest lead that the hinge asks for: a lead of 2 nats is 88 % against one other option."""

FEWEST_OPTIONS: Final = 3
"""Options from which on an answer can be clearly known."""


@dataclass(frozen=True, kw_only=True)
class Retention:
    """Settings of the term.

    Attributes:
        probe: The questions to keep: a probe, its name, or the path of one, with scored options.
        weight: Weight of the term, 0 or more; 0 for none.
        kind: ``kl`` or ``hinge``.
        schedule: ``constant``; ``rising`` from 0 to the weight, or ``falling`` from it to 0, over
            the steps.
        batch: Number of questions of each batch of the training; a step of accumulated batches has
            as many times more.
        seed: Seed of their choice, which draws from no generator of the training.

    Raises:
        WatchError: If a value is out of range.
    """

    probe: Probe | str | Path = field(kw_only=False)
    weight: float = 0.5
    kind: Kind = "kl"
    schedule: Schedule = "constant"
    batch: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise WatchError(f"weight={self.weight!r}: needed a number of 0 or more")
        if self.kind not in get_args(Kind):
            raise WatchError(f"kind={self.kind!r}: needed one of {', '.join(get_args(Kind))}")
        if self.schedule not in get_args(Schedule):
            raise WatchError(
                f"schedule={self.schedule!r}: needed one of {', '.join(get_args(Schedule))}"
            )
        if type(self.batch) is not int or self.batch < 1:
            raise WatchError(f"batch={self.batch!r}: needed a whole number of questions, 1 or more")

    def weight_at(self, share: float) -> float:
        """Weight after a share of the steps, 0 to 1."""
        factor = {"constant": 1.0, "rising": share, "falling": 1 - share}[self.schedule]
        return self.weight * min(max(factor, 0.0), 1.0)


class _Question(NamedTuple):
    """A question that the base clearly knows: token ids, the base's log-probabilities of the options, the right one."""

    content_hash: str
    context: tuple[int, ...]
    choices: tuple[tuple[int, ...], ...]
    base: tuple[float, ...]
    gold: int


class Kept:
    """The questions that the base clearly knows, and the term over some of them.

    Args:
        retention: The settings.
        model: The base, before the first step.
        tokenizer: Its tokenizer.

    Raises:
        WatchError: If the probe has no question with options that the base clearly knows.
        ScoringError: If the model cannot be scored.
    """

    def __init__(self, retention: Retention, model: nn.Module, tokenizer: Any) -> None:
        self.retention = retention
        given = retention.probe
        probe = given if isinstance(given, Probe) else load_probe(given)
        fit = [
            item
            for item in probe
            if len(item.choices or ()) >= FEWEST_OPTIONS and not probe.is_generated(item)
        ]
        if probe.norm != "sum":
            raise WatchError(
                f"{probe.name}: needed a probe that is decided by the sum (norm), got "
                f"{probe.norm!r}"
            )
        fit = [item for item in fit if len(item.answers) == 1]
        if not fit:
            raise WatchError(
                f"{probe.name}: needed questions with three or more scored options, found none"
            )
        probe = probe.with_items(fit)
        snapshot = Scorer(probe, tokenizer, model).score(model)
        longest = ModelInfo.of(model).context_length(tokenizer)
        encoded = encode(probe, tokenizer, max_length=longest)
        scores, right = snapshot.table["choice_logprobs"].to_pylist(), snapshot.floats("correct")
        self.questions = []
        for index, tokens in enumerate(encoded):
            if right[index] != 1.0 or tokens.unscored or scores[index] is None:
                continue
            base = np.asarray(scores[index], float)
            base = base - np.logaddexp.reduce(base)
            item = probe.items[index]
            gold = int(item.answers[0])
            if math.exp(base[gold]) >= TAU:
                self.questions.append(
                    _Question(
                        item.content_hash,
                        tokens.context,
                        tokens.choices,
                        tuple(base.tolist()),
                        gold,
                    )
                )
        if not self.questions:
            raise WatchError(
                f"{probe.name}: the model clearly knows none of its {len(probe):,} questions"
            )
        if rank() == 0:
            log(
                f"retention: the loss keeps {len(self.questions):,} of {len(probe):,} questions "
                f"of {probe.name}"
            )
        self._drawn: tuple[int, int] = (
            -1,
            0,
        )  # the step of the last draw, and the draws of that step
        self._pad = int(getattr(tokenizer, "pad_token_id", None) or 0)

    def warn_of(self, watched: list[Probe]) -> None:
        """Log how many of the questions are watched too.

        Their answers show the training, and not what is kept.
        """
        hashes = {item.content_hash for probe in watched for item in probe}
        shared = sum(question.content_hash in hashes for question in self.questions)
        if shared and rank() == 0:
            log(
                f"retention: {shared:,} of the {len(self.questions):,} questions are watched "
                "too, and do not show what is forgotten; `forgetwatch probe split` makes two halves"
            )

    def term(self, model: nn.Module, *, step: int) -> Tensor:
        """Mean of the term over some questions, in nats, with gradient.

        The questions of a step are always the same: a training that resumes draws those that it
        would have drawn.
        """
        last_step, number = self._drawn
        self._drawn = step, number + 1 if step == last_step else 0
        rng = np.random.default_rng([self.retention.seed, rank(), world_size(), *self._drawn])
        count = min(self.retention.batch, len(self.questions))
        drawn = [
            self.questions[at] for at in rng.choice(len(self.questions), size=count, replace=False)
        ]
        log_shares = self._log_shares(model, drawn)
        terms = []
        for question, now in zip(drawn, log_shares, strict=True):
            base = torch.tensor(question.base, device=now.device, dtype=now.dtype)
            if self.retention.kind == "kl":
                terms.append((base.exp() * (base - now)).sum())
            else:
                wrong = [at for at in range(len(base)) if at != question.gold]
                lead = min(float(base[question.gold] - base[wrong].max()), LEAD)
                terms.append(torch.relu(lead - (now[question.gold] - now[wrong].max())))
        return torch.stack(terms).mean()

    def _log_shares(self, model: nn.Module, questions: list[_Question]) -> list[Tensor]:
        """float32 [options] for each question."""
        rows = [(question.context, choice) for question in questions for choice in question.choices]
        longest = max(len(context) + len(choice) for context, choice in rows)
        device = next(model.parameters()).device
        ids = torch.full((len(rows), longest), self._pad, dtype=torch.long, device=device)
        mask = torch.zeros_like(ids)
        for row, (context, choice) in enumerate(rows):
            text = torch.tensor(context + choice, device=device)
            ids[row, : len(text)], mask[row, : len(text)] = text, 1
        # Prompt learning puts virtual tokens before the text.
        logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, -longest:]
        scores = []
        for row, (context, choice) in enumerate(rows):
            # The token at a position is predicted at the one before it.
            places = slice(len(context) - 1, len(context) + len(choice) - 1)
            tokens = torch.tensor(choice, device=device)
            target_scores = logits[row, places].float().log_softmax(-1)
            scores.append(target_scores.gather(-1, tokens[:, None]).sum())
        groups, start = [], 0
        for question in questions:
            groups.append(
                torch.stack(scores[start : start + len(question.choices)]).log_softmax(-1)
            )
            start += len(question.choices)
        return groups


class RetentionLoss:
    """Mixin for `Trainer`, `SFTTrainer`, `DPOTrainer` or `GRPOTrainer`: adds a term that penalises forgetting.

    Args:
        retention: Settings of the term; None for none. All other arguments are those of the
            trainer.
    """

    def __init__(self, *args: Any, retention: Retention | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.retention = retention
        self._kept: Kept | None = None
        self._terms: list[Tensor] = []

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Measure what the base clearly knows, and train."""
        if self.retention is not None and self.retention.weight > 0 and self._kept is None:
            trainer: Any = self
            tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
            self._kept = Kept(self.retention, trainer.model, tokenizer)
            watched = [
                getattr(callback, "probe", None) for callback in trainer.callback_handler.callbacks
            ]
            self._kept.warn_of([probe for probe in watched if isinstance(probe, Probe)])
        parent: Any = super()
        return parent.train(*args, **kwargs)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Any,
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Loss of the trainer, plus the term in training."""
        parent: Any = super()
        found = parent.compute_loss(
            model, inputs, return_outputs=return_outputs, num_items_in_batch=num_items_in_batch
        )
        trainer: Any = self
        if self._kept is None or not model.training:
            return found
        state = trainer.state
        weight = self._kept.retention.weight_at(state.global_step / max(1, state.max_steps))
        if weight == 0:
            return found
        term = self._kept.term(model, step=state.global_step)
        self._terms.append(term.detach())
        added = weight * term / self._divisor(num_items_in_batch)
        loss = found[0] if return_outputs else found
        total = loss + added.to(loss.device, loss.dtype)
        return (total, *found[1:]) if return_outputs else total

    def _divisor(self, num_items_in_batch: Any) -> float:
        """1 where the trainer divides by the batches of a step afterwards."""
        trainer: Any = self
        is_scaled = getattr(trainer, "loss_is_scaled_for_ga", None)
        if is_scaled is None:
            is_scaled = (trainer.model_accepts_loss_kwargs and num_items_in_batch is not None) or (
                trainer.compute_loss_func is not None
            )
        batches = getattr(
            trainer, "current_gradient_accumulation_steps", trainer.args.gradient_accumulation_steps
        )
        return float(batches) if is_scaled else 1.0

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log the mean of the term since the last row, as ``retention_loss``."""
        if self._terms and "loss" in logs:
            trainer: Any = self
            # Of all processes, as the trainer's own loss in the same row; each of them calls this.
            mean = trainer.accelerator.gather(torch.stack(self._terms).mean().reshape(1)).mean()
            logs = {**logs, "retention_loss": float(mean)}
            self._terms = []
        parent: Any = super()
        parent.log(logs, *args, **kwargs)
