"""Answers generated, and letters scored, by vLLM on a checkpoint. Tested with stand-ins: vLLM itself has not been run.

    VllmGenerator      engines of its own on a checkpoint (`vllm_engines`)
    VllmLetters        the same engines, which score choices that are single tokens

Engines start when the first answers are needed, and reserve memory for texts as long as the longest prompt with its
answer, not for the longest text that the model can read.

The log-probabilities of letters are those of vLLM's own kernels, from logits in the model's dtype: its snapshots are
compared with each other only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ScoringError
from forgetwatch.progress import Done, Progress
from forgetwatch.scoring.encoding import Encoded, Ids
from forgetwatch.scoring.generation import Generated, engine_answer
from forgetwatch.scoring.readout import Scores
from forgetwatch.scoring.vllm_engines import MOST_LOGPROBS, Engines, NextToken, check_installed


class VllmGenerator:
    """Engines of its own on a checkpoint without adapters; they start when the first answers are generated.

    Args:
        model: A checkpoint folder or model id.
        tokenizer: Its tokenizer.
        tensor_parallel: GPUs that share one engine's weights.
        data_parallel: Engines that share the prompts.
        trust_remote_code: Run code that comes with the model.
        make_room: Called before the engines start: they take nearly all memory of their GPUs.

    Raises:
        ScoringError: If vLLM is not installed.
    """

    name = "vllm"

    def __init__(
        self,
        model: str,
        tokenizer: Any,
        *,
        tensor_parallel: int = 1,
        data_parallel: int = 1,
        trust_remote_code: bool = False,
        make_room: Callable[[], None] | None = None,
    ) -> None:
        check_installed()
        self._tokenizer, self._make_room, self._longest = tokenizer, make_room, 0
        self._start = partial(
            Engines,
            model,
            tensor_parallel=tensor_parallel,
            data_parallel=data_parallel,
            trust_remote_code=trust_remote_code,
        )
        self._engines: Engines | None = None

    def generate(
        self, prompts: Sequence[Ids], decoding: Decoding, *, seed: int, progress: Callable[[int], None] | None = None
    ) -> list[Generated]:
        """One answer to each prompt, in their order.

        Raises:
            ScoringError: If there are too few GPUs for several engines, or an engine has ended.
        """
        settings = {
            "n": 1,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "max_tokens": decoding.tokens,
            "stop": list(decoding.stop) or None,
            "seed": seed if decoding.temperature else None,
        }
        answers = self._started(prompts, tokens=decoding.tokens).generate(prompts, settings)
        if progress:
            progress(len(prompts))
        return [engine_answer(self._tokenizer, tokens, decoding, cut=cut) for tokens, cut in answers]

    def next_tokens(self, prompts: Sequence[Ids], wanted: Sequence[Ids]) -> list[NextToken]:
        """Log-probabilities of the wanted tokens after each prompt, and the most likely token.

        Args:
            prompts: Token ids.
            wanted: Distinct tokens for each prompt, at most `MOST_LOGPROBS`.

        Raises:
            ScoringError: If there are too few GPUs for several engines, or an engine has ended.
        """
        return self._started(prompts, tokens=1).next_tokens(prompts, wanted)

    def _started(self, prompts: Sequence[Ids], *, tokens: int) -> Engines:
        """The engines, with room for the longest prompt and its answer."""
        longest = max(map(len, prompts), default=0) + tokens
        if self._engines is None or longest > self._longest:
            self.close()
            if self._make_room:
                self._make_room()
            self._engines, self._longest = self._start(longest=longest), longest
        return self._engines

    def close(self) -> None:
        """End the engines."""
        if self._engines is not None:
            self._engines.close()
            self._engines = None


class VllmLetters:
    """Scores of choices that are single tokens, such as letters, by the engines of a `VllmGenerator`.

    Each item takes one step after its prompt, for all choices and spellings; prompts share their beginnings in vLLM's
    cache.

    Args:
        generator: The engines.
    """

    name = "vllm"
    scorer = "vllm letters/1"
    """Name and version, for the metadata: its outcomes are compared with each other only."""

    def __init__(self, generator: VllmGenerator) -> None:
        self._generator = generator

    def prepared(self, encoded: Sequence[Encoded], *, max_length: int) -> list[Encoded]:
        """The same items; those with a choice of several tokens, or without room for an answer, are unscored.

        Args:
            encoded: The items.
            max_length: Longest text that the model can read, in tokens.

        Raises:
            ScoringError: If none is left.
        """
        made = [one if one.unscored else replace(one, unscored=_letters_obstacle(one, max_length)) for one in encoded]
        if all(one.unscored for one in made):
            raise ScoringError(
                f"vLLM generates answers, and scores choices that are single tokens; of the {len(made):,} items here "
                f"none is either ({made[0].unscored}); score the probe without vLLM"
            )
        return made

    def score(self, encoded: Sequence[Encoded], progress: Progress | None = None) -> dict[int, Scores]:
        """Scores of all items that can be scored, by index.

        Args:
            encoded: The items, from `prepared`.
            progress: Called before and afterwards with what is done.

        Raises:
            ScoringError: If the engines cannot start, or end.
        """
        indices = [index for index, one in enumerate(encoded) if not one.unscored]

        def report(count: int) -> None:
            if progress:
                progress(Done(count=count, total=len(indices), share=count / len(indices)))

        report(0)
        prompts = [encoded[index].context for index in indices]
        tokens = self._generator.next_tokens(prompts, [_letters_of(encoded[index]) for index in indices])
        report(len(indices))
        return {index: _scores(encoded[index], *found) for index, found in zip(indices, tokens, strict=True)}


def _letters_of(encoded: Encoded) -> Ids:
    """The tokens of an item's choices and spellings, each once."""
    spelled = (token for tokens in encoded.spellings for token in tokens)
    return tuple(dict.fromkeys([*(ids[0] for ids in encoded.choices), *spelled]))


def _letters_obstacle(encoded: Encoded, max_length: int) -> str:
    """Reason why vLLM cannot score an item; empty if it can."""
    for index, ids in enumerate(encoded.choices):
        if len(ids) != 1:
            return f"choice {index} has {len(ids)} tokens, and vLLM scores single ones"
    if (tokens := len(_letters_of(encoded))) > MOST_LOGPROBS:
        return f"{tokens} tokens, and vLLM scores {MOST_LOGPROBS} at a position"
    # vLLM generates the token that it scores, and refuses to start with more tokens than the model reads.
    if (tokens := len(encoded.context)) >= max_length:
        return f"{tokens} tokens and 1 for the answer, and the model reads {max_length}"
    return ""


def _scores(encoded: Encoded, logprobs: Mapping[int, float], top: int) -> Scores:
    own = np.array([logprobs[ids[0]] for ids in encoded.choices])
    # A token that spells two choices counts once.
    spelled = {token for tokens in encoded.spellings for token in tokens}
    return Scores(
        logprobs=own,
        tokens=[own[index : index + 1] for index in range(len(own))],
        greedy=np.array([ids[0] == top for ids in encoded.choices]),
        spelled=sum(math.exp(logprobs[token]) for token in sorted(spelled)),
        top=top,
        order=0,
    )
