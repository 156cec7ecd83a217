"""The scorer as a model class of lm-evaluation-harness: its multiple-choice tasks, faster and with exact sums.

    python -m forgetwatch.lm_eval --model forgetwatch --model_args pretrained=... --tasks
    arc_challenge,hellaswag

or, in Python, ``lm_eval.simple_evaluate(model=ForgetwatchLM(pretrained="..."), tasks=[...])``.
Everything except log-likelihoods is the harness's own ``hf`` model: loading, tokenization, chat
templates, generation. A beginning that contexts have in common is read once, and log-likelihoods
are summed in fp64 from fp32, whatever the model's dtype. Contexts that are too long are cut from
the left, as the harness does. ``batch_size`` concerns generation only.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

import torch
from tqdm import tqdm

from forgetwatch.errors import ForgetwatchError
from forgetwatch.extras import missing
from forgetwatch.scoring.encoding import Encoded, Ids
from forgetwatch.scoring.engine import Engine
from forgetwatch.scoring.layout import Layout
from forgetwatch.scoring.model import ModelInfo, is_sharded
from forgetwatch.scoring.readout import Scores, check_finite_scores

try:
    from lm_eval.api.registry import register_model
    from lm_eval.models.huggingface import HFLM
except ImportError as error:
    raise ForgetwatchError(missing(error, needed_by="forgetwatch.lm_eval") or str(error)) from error

eval_logger = logging.getLogger("lm_eval")

Request = tuple[tuple[str, str], list[int], list[int]]
"""Context and continuation as text, then the token ids of each."""


@register_model("forgetwatch")
class ForgetwatchLM(HFLM):  # type: ignore[misc]
    """The harness's ``hf`` model with forgetwatch's log-likelihoods; it takes the same arguments."""

    _layout: Layout | None = None

    def _loglikelihood_tokens(
        self,
        requests: Sequence[Request],
        disable_tqdm: bool = False,
        override_bs: int | None = None,
    ) -> list[tuple[float, bool]]:
        """Score continuations in the order of the requests.

        Returns:
            Log-likelihood in nats, and whether greedy decoding would generate the continuation.
        """
        if self.backend != "causal" or is_sharded(
            self.model
        ):  # every rank must make as many calls as the harness does
            answers: list[tuple[float, bool]] = super()._loglikelihood_tokens(
                requests, disable_tqdm, override_bs
            )
            return answers
        items: dict[
            Ids, dict[Ids, int]
        ] = {}  # context -> continuation -> its index among those of the context
        pairs = []
        for _, context, continuation in requests:
            assert len(context) > 0, "an empty context"  # as the harness does
            assert 0 < len(continuation) <= self.max_length, (
                f"a continuation of {len(continuation)} tokens"
            )
            # The end of the context that fits before the continuation, whose last token is never
            # read.
            cut = tuple((*context, *continuation)[-(self.max_length + 1) :][: -len(continuation)])
            ending = tuple(continuation)
            endings = items.setdefault(cut, {})
            endings.setdefault(ending, len(endings))
            pairs.append((cut, ending))
        too_long = sum(
            len(context) + len(choice) > self.max_length + 1 for _, context, choice in requests
        )
        if too_long:
            eval_logger.warning(
                "%d contexts are too long for %d tokens and are cut from the left",
                too_long,
                self.max_length,
            )
        scores = self._scores(items, disable_tqdm=disable_tqdm, windows=bool(override_bs))
        index = {context: number for number, context in enumerate(items)}
        answers = []
        for (text, _, _), (cut, ending) in zip(requests, pairs, strict=True):
            total, number = scores[index[cut]], items[cut][ending]
            answers.append((float(total.logprobs[number]), bool(total.greedy[number])))
            if text is not None:
                self.cache_hook.add_partial("loglikelihood", text, answers[-1])
        return answers

    def _scores(
        self, items: Mapping[Ids, Iterable[Ids]], *, disable_tqdm: bool, windows: bool
    ) -> dict[int, Scores]:
        encoded = [
            Encoded(
                context=context,
                texts=("",) * len(choices),
                choices=choices,
                spellings=((),) * len(choices),
            )
            for context, choices in (
                (context, tuple(choices)) for context, choices in items.items()
            )
        ]
        engine = Engine(
            ModelInfo.of(self.model),
            encoded,
            list(map(str, items)),
            layout="rows" if windows else self._layout,
            noise=0.0 if windows else None,
            greedy=True,
        )
        precision = getattr(self, "mixed_precision_dtype", None)
        autocast = torch.autocast(self.device.type, dtype=precision, enabled=precision is not None)
        with (
            autocast,
            tqdm(
                total=len(encoded), disable=disable_tqdm or self.rank != 0, desc="log-likelihoods"
            ) as bar,
        ):
            scores = engine.score(self.model, lambda done: bar.update(done.count - bar.n))
        check_finite_scores(scores.values())
        if (
            engine.layout == "rows" and not windows
        ):  # a model that needs single rows once is not tested again
            self._layout = "rows"
        return scores


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
