"""How a server is asked for the options of a question: decided by one trial, said, stored, and never mixed.

    log-likelihood   each option after the prompt, echoed with the log-probability of every token
    letters          the options are listed, and the log-probabilities of the letters compared
    written          the model writes the letter

The first is taken only where the server proves it on questions of the probe:

    as many log-probabilities as tokens of the prompt, and one more for the generated token
    offsets at which the text has the tokens
    numbers that are not all 0, and unlike ones for two options
    the generated token, appended to the prompt, gets the same number again: nothing is shifted

llama.cpp's server returns none for a prompt, and some routes of others fail without a word. Offsets
are the server's own: another tokenizer would divide the text otherwise.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Literal

from forgetwatch.decoding import Decoding
from forgetwatch.endpoint.asking import UnreadableError, echoed, letters, rendered, written
from forgetwatch.endpoint.client import Client, RefusedError
from forgetwatch.errors import ScoringError
from forgetwatch.item import Item, Rendering
from forgetwatch.probe import Probe

Way = Literal["log-likelihood", "letters", "written"]

TRIED: Final = 4
"""Questions of the trial."""

_CLOSE: Final = 0.05
"""Nats by which a token's log-probability may differ between two requests."""

_TOPS: Final = 20, 5
"""Numbers of the likeliest tokens that are asked for, the first that the server grants."""

_WRITTEN: Final = 64
"""Tokens of a written letter, for probes that name none."""

_RENDERINGS: Final[tuple[Rendering, ...]] = "chat", "plain"


@dataclass(frozen=True, kw_only=True)
class Route:
    """How a server is asked.

    Attributes:
        way: How options are asked for.
        probe: The probe as it is asked.
        line: What was found, for people; empty for a probe without options.
        top: Number of the likeliest tokens that the server names.
    """

    way: Way
    probe: Probe
    line: str = ""
    top: int = 0


def find_route(client: Client, probe: Probe) -> Route:
    """Try how a server can be asked for the options of a probe.

    Raises:
        ScoringError: If the probe needs what the server does not prove, or there is no answer.
    """
    questions = [item for item in probe if item.choices and not item.is_passage][:TRIED]
    needing = [item for item in probe if item.is_passage or not _is_asked(item, probe)][:TRIED]
    if (not questions and not needing) or probe.scoring == "generate":
        return Route(way="written", probe=probe)
    why = "the probe asks for letters"
    if probe.scoring == "loglikelihood":
        why = _unproven(client, probe, questions or needing)
        if not why:
            line = f"options by log-likelihood, proved on {len(questions or needing)} questions"
            return Route(way="log-likelihood", probe=probe, line=line)
    if needing:
        raise ScoringError(
            f"{client.address}: item {needing[0].id!r} needs the log-probabilities of a prompt, "
            f"and {why}; leave such items out, or serve the model with vLLM"
        )
    return _by_letters(client, probe, why)


def _is_asked(item: Item, probe: Probe) -> bool:
    return bool(item.choices) or probe.is_generated(item)


def _by_letters(client: Client, probe: Probe, why: str) -> Route:
    # Worked examples end in the text of an option, and not in a letter.
    items = [replace(item, shots="") if item.choices else item for item in probe]
    listed = replace(probe, items=items, scoring="letters", norm="sum")
    questions = [item for item in items if item.choices][:TRIED]
    tried = f"options by the log-probabilities of their letters, since {why}"
    for lettered in (listed, replace(listed, rendering="chat")):
        for top in _TOPS:
            with suppress(RefusedError, UnreadableError):
                is_seen = [
                    letters(client, rendered(item, lettered), len(item.choices), top=top)[1]
                    for item in questions
                ]
                if 2 * sum(is_seen) >= len(is_seen):
                    line = f"{tried} ({lettered.rendering})"
                    return Route(way="letters", probe=lettered, line=line, top=top)
    decoding = Decoding.of(probe.decoding) if probe.decoding else Decoding(tokens=_WRITTEN)
    decoding = replace(decoding, ask="letter")
    for rendering in _RENDERINGS:
        lettered = replace(listed, scoring="generate", rendering=rendering, decoding=decoding)
        with suppress(RefusedError):
            written(client, rendered(questions[0], lettered), decoding, seed=0, stop=())
            line = f"options by a written letter, since {why}, and letters have no log-probability"
            return Route(way="written", probe=lettered, line=f"{line} ({rendering})")
    raise ScoringError(f"{client.address}: it answers neither /completions nor /chat/completions")


def _unproven(client: Client, probe: Probe, questions: Sequence[Item]) -> str:
    # The reason, or an empty text.
    if any(probe.rendering_of(item) == "chat" for item in questions):
        return "a chat template cannot be echoed"
    if probe.norm == "unconditional":
        return "options without their prompt have no log-probability"
    proofs = 0
    try:
        for item in questions:
            prompt = rendered(item, probe)
            ends = [echoed(client, prompt, choice) for choice in prompt.choices]
            if len(ends) > 1 and len({end.logprob for end in ends}) == 1:
                return "it returns one number for unlike options"
            # The generated token again, as a part of the prompt.
            end = ends[-1]
            longer = replace(prompt, context=f"{prompt.context}{prompt.choices[-1]}")
            repeated = echoed(client, longer, end.next_token)
            if repeated.ending == end.next_token and repeated.tokens == 1:
                if abs(repeated.logprob - end.next_logprob) > _CLOSE:
                    return "its log-probabilities are of other tokens than they stand at"
                proofs += 1
    except RefusedError as error:
        return f"it refuses log-probabilities of a prompt ({error.why})"
    except UnreadableError as error:
        return str(error)
    return "" if proofs else "nothing shows that its log-probabilities stand at their tokens"
