"""Questions to a served model, each with the reading of its answer.

    echoed     the end of a text, with the log-probability of its tokens
    letters    the likeliest first tokens of an answer, of which the letters are read
    written    a generated text

A prompt is rendered as for a model in this process. In place of a chat template's text the messages
are sent, which the server renders.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forgetwatch.decoding import Decoding
from forgetwatch.endpoint.client import Client, RefusedError
from forgetwatch.item import Item
from forgetwatch.probe import LETTERS, Probe
from forgetwatch.scoring.encoding import Rendered, render, render_prompt

_ROUNDING: Final = 1e-3
"""Nats by which a log-probability may be above 0."""

_MOST_STOPS: Final = 4
"""Texts that end an answer which servers take; all of them are looked for afterwards."""

_TEMPLATE: Final = "chat_template_kwargs"
"""Argument of servers that render a chat template; others refuse it."""


class UnreadableError(ValueError):
    """A server's answer that does not hold the log-probabilities of the text."""


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """The end of a text, as a server scored it.

    Attributes:
        ending: The end of the text that was scored.
        logprob: Its log-probability, nats.
        tokens: Number of its tokens.
        is_greedy: Each token is the likeliest at its place.
        next_token: The token that was generated after the text.
        next_logprob: Its log-probability, nats.
    """

    ending: str
    logprob: float
    tokens: int
    is_greedy: bool
    next_token: str
    next_logprob: float


def echoed(client: Client, before: Rendered, end: str) -> Continuation:
    """Score the end of a text.

    Args:
        client: The server.
        before: The text before; white space at its end counts to the end.
        end: The end. A token across the border belongs to it.

    Raises:
        UnreadableError: If the answer does not hold the log-probabilities of the text.
        ScoringError: If the server does not answer.
    """
    whole_text, start = before.context + end, len(before.context.rstrip())
    answer = client.ask(
        "/completions", prompt=whole_text, max_tokens=1, temperature=0, echo=True, logprobs=1
    )
    try:
        count = answer["usage"]["prompt_tokens"]
        logprobs = answer["choices"][0]["logprobs"]
        tokens, values, offsets = (
            logprobs[name] for name in ("tokens", "token_logprobs", "text_offset")
        )
        tops = logprobs.get("top_logprobs") or [None] * len(tokens)
    except (KeyError, IndexError, TypeError):
        raise UnreadableError("it returns no log-probabilities of a prompt") from None
    if not len(tokens) == len(values) == len(offsets) == len(tops) == count + 1:
        raise UnreadableError(
            f"it returns {len(values)} log-probabilities for the {count} tokens of a prompt and 1 more"
        )
    if not all(isinstance(value, (int, float)) and value <= _ROUNDING for value in values[1:]):
        raise UnreadableError("it returns log-probabilities that are no numbers below 0")
    if not any(values[1:]):
        raise UnreadableError("every log-probability that it returns is 0")
    # Counted from the end, since some servers count a start token that the text has not.
    begins = [len(whole_text) - offsets[count] + offset for offset in offsets[:count]]
    start_token = max((n for n, begin in enumerate(begins) if begin <= start), default=0)
    start_token = start_token or 1  # nothing precedes the first token, which has no probability
    for token, begin in zip(tokens[start_token:count], begins[start_token:], strict=True):
        # A token may be a part of a character.
        if "\ufffd" not in token and whole_text[begin : begin + len(token)] != token:
            raise UnreadableError("its offsets are not those of the text")
    if start_token >= count:
        raise UnreadableError("the text has no token of its own")
    likeliest = [max((top or {"": -math.inf}).values()) for top in tops[start_token:count]]
    ends = values[start_token:count]
    return Continuation(
        ending=whole_text[max(begins[start_token], 0) :],
        logprob=float(sum(ends)),
        tokens=count - start_token,
        is_greedy=all(value >= top for value, top in zip(ends, likeliest, strict=True)),
        next_token=tokens[count],
        next_logprob=float(values[count]),
    )


def letters(
    client: Client, prompt: Rendered, k: int, *, top: int
) -> tuple[NDArray[np.float64], bool]:
    """Ask for the log-probability of the letter of each option.

    A letter that is not among the likeliest tokens gets the number of the least likely one, which
    is a bound.

    Args:
        client: The server.
        prompt: The question with its listed options.
        k: Number of options.
        top: Number of the likeliest tokens that are asked for.

    Returns:
        Log-probabilities, nats [k], and whether any letter is among the likeliest tokens.

    Raises:
        UnreadableError: If the answer holds no log-probabilities.
        ScoringError: If the server does not answer.
    """
    wanted = {"logprobs": True, "top_logprobs": top} if prompt.templated else {"logprobs": top}
    answer = _asked(client, prompt, max_tokens=1, temperature=0, **wanted)
    try:
        logprobs = answer["choices"][0]["logprobs"]
        if prompt.templated:
            likeliest = logprobs["content"][0]["top_logprobs"]
            tops = [(token["token"], token["logprob"]) for token in likeliest]
        else:
            tops = list(logprobs["top_logprobs"][0].items())
        least = min(value for _, value in tops)
    except (LookupError, TypeError, AttributeError, ValueError):
        raise UnreadableError("it returns no log-probabilities of an answer") from None
    spelled = [
        [value for token, value in tops if token.strip() == letter] for letter in LETTERS[:k]
    ]
    numbers = [np.logaddexp.reduce(values) if values else least for values in spelled]
    return np.array(numbers, float), any(spelled)


class Messages:
    """A tokenizer's chat template that gives the request itself, as JSON, in place of a text."""

    chat_template = "messages"

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Any, enable_thinking: bool, **_: Any
    ) -> str:
        """Render messages as the body of a request."""
        body = {"messages": messages, _TEMPLATE: {"enable_thinking": enable_thinking}}
        return json.dumps(body | ({"tools": tools} if tools else {}), ensure_ascii=False)


def rendered(item: Item, probe: Probe) -> Rendered:
    """Render an item as a text, or as the JSON of a request with messages."""
    is_written = probe.is_generated(item)
    return render_prompt(item, probe, Messages()) if is_written else render(item, probe, Messages())


def written(
    client: Client, prompt: Rendered, decoding: Decoding, *, seed: int, stop: Sequence[str]
) -> dict[str, Any]:
    """Ask for a generated text.

    Args:
        client: The server.
        prompt: The prompt.
        decoding: Length and sampling.
        seed: Seed of this sample.
        stop: Texts that end the answer.

    Returns:
        Its arguments for `item_rows.graded_columns`: ``output`` with its thinking block, ``calls``
        of tools as JSON, and ``truncated``.
    """
    sampling: dict[str, Any] = {"temperature": decoding.temperature}
    if decoding.temperature:
        sampling |= {"top_p": decoding.top_p, "seed": seed}
    if stop:
        sampling["stop"] = list(stop[:_MOST_STOPS])
    answer = _asked(client, prompt, max_tokens=decoding.tokens, **sampling)["choices"][0]
    message = answer.get("message") or {"content": answer.get("text")}
    content, calls = message.get("content") or "", message.get("tool_calls")
    is_cut = answer.get("finish_reason") == "length"
    if thinking := message.get("reasoning_content") or message.get("reasoning"):
        # A server that reads the thinking block takes its tags off.
        content = f"<think>{thinking}{'</think>' if content or not is_cut else ''}{content}"
    return {"output": content, "calls": json.dumps(calls) if calls else None, "truncated": is_cut}


def _asked(client: Client, prompt: Rendered, **body: Any) -> dict[str, Any]:
    if not prompt.templated:
        return client.ask("/completions", prompt=prompt.context, **body)
    sent = json.loads(prompt.context)
    if not client.renders:
        del sent[_TEMPLATE]
    try:
        return client.ask("/chat/completions", **sent, **body)
    except RefusedError as error:
        if _TEMPLATE not in sent or _TEMPLATE not in error.why:
            raise
        client.renders = False
        return _asked(client, prompt, **body)
