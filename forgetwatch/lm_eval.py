"""The scorer as a model class of lm-evaluation-harness: its multiple-choice tasks, faster and with exact sums.

    python -m forgetwatch.lm_eval --model forgetwatch --model_args pretrained=... --tasks arc_challenge,hellaswag

or, in Python, ``lm_eval.simple_evaluate(model=ForgetwatchLM(pretrained="..."), tasks=[...])``. Everything but
log-likelihoods is the harness's own ``hf`` model: loading, tokenization, chat templates, generation. What contexts
share is read once, and a log-likelihood is summed in fp64 from fp32, whatever the model's dtype. Contexts that are too
long are cut from the left, as the harness cuts them. ``batch_size`` concerns generation only.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import cast

import torch
from tqdm import tqdm

from forgetwatch.errors import ForgetwatchError
from forgetwatch.scoring.encoding import Encoded, Ids
from forgetwatch.scoring.engine import Engine
from forgetwatch.scoring.layout import Layout
from forgetwatch.scoring.model import is_sharded

try:
    from lm_eval.api.registry import register_model
    from lm_eval.models.huggingface import HFLM
except ImportError as error:
    raise ForgetwatchError("forgetwatch.lm_eval needs lm-evaluation-harness: pip install lm-eval") from error

eval_logger = logging.getLogger("lm_eval")

Request = tuple[tuple[str, str], list[int], list[int]]
"""Context and continuation as text, then the token ids of each."""


@register_model("forgetwatch")
class ForgetwatchLM(HFLM):  # type: ignore[misc]
    """The harness's ``hf`` model with forgetwatch's log-likelihoods; takes the same arguments."""

    _layout: Layout | None = None

    def _loglikelihood_tokens(
        self, requests: Sequence[Request], disable_tqdm: bool = False, override_bs: int | None = None
    ) -> list[tuple[float, bool]]:
        """Log-likelihood, nats, of each continuation, and whether greedy decoding would write it; in order."""
        if self.backend != "causal" or is_sharded(self.model):  # every rank must make as many calls as the harness does
            answers: list[tuple[float, bool]] = super()._loglikelihood_tokens(requests, disable_tqdm, override_bs)
            return answers
        places: dict[Ids, dict[Ids, int]] = {}  # context -> continuation -> its number among those of the context
        asked = []
        for _, context, continuation in requests:
            assert len(context) > 0, "an empty context"  # as the harness has it
            assert 0 < len(continuation) <= self.max_length, f"a continuation of {len(continuation)} tokens"
            own, choice = self._cut(context, continuation), tuple(continuation)
            of_context = places.setdefault(own, {})
            of_context.setdefault(choice, len(of_context))
            asked.append((own, choice))
        contexts = {own: number for number, own in enumerate(places)}
        encoded = [
            Encoded(context=context, texts=("",) * len(found), choices=tuple(found), spellings=((),) * len(found))
            for context, found in places.items()
        ]
        # Windows of a long text come in small batches and share nothing.
        layout, noise = ("rows", 0.0) if override_bs else (self._layout, None)
        engine = Engine(
            self.model,
            encoded,
            [str(own) for own in contexts],
            layout=cast(Layout | None, layout),
            noise=noise,
            greedy=True,
        )
        if cut := sum(len(context) + len(choice) > self.max_length + 1 for _, context, choice in requests):
            eval_logger.warning(
                "%d contexts are too long for %d tokens and are cut from the left", cut, self.max_length
            )
        precision = getattr(self, "mixed_precision_dtype", None)
        autocast = torch.autocast(self.device.type, dtype=precision, enabled=precision is not None)
        with autocast, tqdm(total=len(encoded), disable=disable_tqdm or self.rank != 0, desc="log-likelihoods") as bar:
            scores = engine.score(self.model, lambda done, total: bar.update(done - bar.n))
        if (
            engine.layout == "rows" and not override_bs
        ):  # what single rows are needed for once they are needed for always
            self._layout = "rows"
        answers = []
        for (text, _, _), (own, choice) in zip(requests, asked, strict=True):
            found, at = scores[contexts[own]], places[own][choice]
            answers.append((float(found.logprobs[at]), bool(found.greedy[at])))
            if text is not None:
                self.cache_hook.add_partial("loglikelihood", text, answers[-1])
        return answers

    def _cut(self, context: Sequence[int], continuation: Sequence[int]) -> Ids:
        """The end of the context that fits before the continuation."""
        return tuple((*context, *continuation)[-(self.max_length + 1) :][: -len(continuation)])


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
