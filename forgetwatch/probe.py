"""A probe: a named, fixed, ordered set of items, and the settings by which they are evaluated.

    Item    one question, or one passage     content_hash   identifies the question in any file       (item.py)
    Probe   items and settings               fingerprint    identifies the measurement

Two measurements may be compared only if the same questions were evaluated in the same way. The
content hash decides the first; the fingerprint decides the second: it covers all content hashes and
every setting that can change an outcome.

On disk a probe is JSONL: one item per line, after one header line with name, settings, canary and
plan. A file without the header is a probe with the default settings, named after the file. A name
that ends in ``.gz`` is a compressed file.

`combine` makes one probe of two: each item keeps its rendering, and the generated answers their
decoding.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, get_args

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ProbeError, did_you_mean
from forgetwatch.files.reading import UnsuitableError, file_errors, is_text, read_text, unique_keys
from forgetwatch.files.writing import write_atomically
from forgetwatch.item import TRAITS, Item, Rendering
from forgetwatch.wording import Wording

Scoring = Literal["loglikelihood", "letters", "generate"]
Norm = Literal["sum", "chars", "bytes", "tokens", "unconditional"]

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HEADER: Final = "forgetwatch_probe"
_NEEDED: Final = "a probe in JSONL"
_MOST_WRONG: Final = 5
"""Number of wrong lines after which reading stops."""

_SETTINGS: Final = frozenset(
    {"name", "canary", "plan", "scoring", "norm", "rendering", "decoding", "may_chat"}
)

_LISTED: Final = re.compile(r"(?<!\w)A[.):]")
_ENDS_IN_LETTER: Final = re.compile(r"(?<!\w)[A-Z][.)]{0,2}\s*\Z")
"""Options that are listed by letters, and worked examples whose last answer is a letter."""

_NOT_FORCED: Final = frozenset({*TRAITS, "regex", "json:keys", "json:keys:only"})
"""Matches whose answer describes an output and is not itself a text that a model would generate."""


def has_letters(item: Item) -> bool:
    """Are the options A, B, ... or (A), (B), ...?"""
    return [choice.strip(" ().") for choice in item.choices] == list(LETTERS[: len(item.choices)])


@dataclass(frozen=True, eq=False)
class Probe(Sequence[Item]):
    """A named, fixed, ordered set of items, and the settings by which they are evaluated.

    Attributes:
        items: The items, in their order.
        name: Name of the probe.
        scoring: ``loglikelihood`` appends each choice to the prompt and compares their
            log-likelihoods; ``letters`` lists the choices in the prompt as A, B, C, ... and
            compares the letters (choices that already are the letters in order are unchanged);
            ``generate`` generates an answer and grades it. Items without choices are generated and
            graded under every setting. Passages need ``loglikelihood``.
        norm: Divisor of a log-likelihood before choices are compared: ``sum`` (none), ``chars``,
            ``bytes`` or ``tokens`` of the choice without its leading space; ``unconditional``
            subtracts the log-likelihood of the choice without any prompt. A divided score also
            changes when the model gives all options less probability together, which is no change
            between them; with ``sum`` it does not.
        rendering: ``plain`` sends the same text to every model; ``chat`` wraps it in the
            tokenizer's chat template. Passages are always plain.
        decoding: Settings of generated answers; None if no answer is generated.
        may_chat: True where nobody has named a rendering: open questions are asked in the chat
            template if the base answers them there (`probes.open_rendering`).
        canary: A text by which the items can be found in training data, kept in the file; it
            changes no outcome.
        plan: How a table of questions was read, kept in the file; it changes no outcome.

    Raises:
        ProbeError: If there is no item, if (task, id) repeats, or if a setting is unknown.
    """

    items: Sequence[Item]
    name: str = "probe"
    scoring: Scoring = "loglikelihood"
    norm: Norm = "sum"
    rendering: Rendering = "plain"
    decoding: Decoding | Mapping[str, Any] | None = None
    canary: str | None = None
    plan: str = ""
    may_chat: bool = False

    def __post_init__(self) -> None:  # noqa: C901
        object.__setattr__(self, "items", tuple(self.items))
        if not is_text(self.name):
            raise ProbeError(f"a probe's name must be text, got {self.name!r:.80}")
        if self.decoding is not None and not _decodes(self.items, self.scoring):
            raise self._error("decoding is for generated answers, and no item has one")
        object.__setattr__(
            self,
            "decoding",
            Decoding.of(self.decoding) if _decodes(self.items, self.scoring) else None,
        )
        self._check_decoding()
        for name, allowed in (("scoring", Scoring), ("norm", Norm), ("rendering", Rendering)):
            value = getattr(self, name)
            if value not in get_args(allowed):
                raise self._error(
                    f"{name} must be one of {', '.join(get_args(allowed))}, got {value!r}"
                )
        for name, kept in (("canary", self.canary or ""), ("plan", self.plan)):
            if not is_text(kept):
                raise self._error(f"{name} must be text, got {kept!r:.80}")
        if not self.items:
            raise ProbeError(f"probe {self.name!r} has no items; it needs at least one")
        seen: set[tuple[str, str]] = set()
        for item in self.items:
            if not isinstance(item, Item):
                raise self._error(f"every item must be an Item, got {type(item).__name__}")
            if (item.task, item.id) in seen:
                raise self._error(
                    f"item id {item.id!r} occurs twice in task {item.task!r}; ids must be unique"
                )
            seen.add((item.task, item.id))
            self._check_rendering(item)
        self._check_wordings()

    def _error(self, problem: str, item: Item | None = None) -> ProbeError:
        return ProbeError(
            f"probe {self.name!r}{'' if item is None else f', item {item.id!r}'}: {problem}"
        )

    def _check_decoding(self) -> None:
        if not isinstance(self.decoding, Decoding):
            return
        if self.decoding.samples > 1 and self.scoring != "generate":
            raise self._error(
                f"{self.decoding.samples} samples of each answer need scoring='generate'; next "
                "to scored choices an answer is generated once"
            )
        for item in self.items if self.decoding.check == "forced" else ():
            if isinstance(item, Item) and not item.choices and item.match in _NOT_FORCED:
                raise self._error(
                    f"match {item.match!r} needs a generated output: its answer is not a text "
                    "that a model would generate; take check='forced' out of decoding",
                    item,
                )

    def is_generated(self, item: Item) -> bool:
        """Does the model generate the answer to this item?"""
        if item.choices:
            return self.scoring == "generate"
        return not (isinstance(self.decoding, Decoding) and self.decoding.check == "forced")

    def rendering_of(self, item: Item) -> Rendering:
        """Rendering of an item.

        Returns:
            Its own, else that of the probe; ``plain`` for a passage.
        """
        of_wording = None if item.wording is None else item.wording.rendering
        return "plain" if item.is_passage else of_wording or item.rendering or self.rendering

    def _check_wordings(self) -> None:
        by_name: dict[str, Wording] = {}
        for item in (item for item in self.items if item.wording is not None):
            wording = item.wording
            if wording is None:
                continue
            if self.scoring != "loglikelihood" or self.rendering != "plain":
                raise self._error(
                    "a wording is for scored options of plain prompts; needed "
                    "scoring='loglikelihood' and "
                    f"rendering='plain', got {self.scoring!r} and {self.rendering!r}",
                    item,
                )
            if by_name.setdefault(wording.name, wording) != wording:
                raise self._error(
                    f"two wordings are called {wording.name!r}; each needs a name of its own", item
                )
        name_of = {wording.content: name for name, wording in by_name.items()}
        if len(name_of) < len(by_name):
            first_name, other = next(
                (n, name_of[w.content]) for n, w in by_name.items() if name_of[w.content] != n
            )
            raise self._error(
                f"the wordings {first_name!r} and {other!r} have equal frames; leave one of "
                "them out"
            )

    def _check_rendering(self, item: Item) -> None:
        if item.is_passage and self.scoring != "loglikelihood":
            raise self._error(
                f"a passage needs scoring='loglikelihood', got {self.scoring!r}; put passages "
                "into a probe of their own",
                item,
            )
        if self.rendering_of(item) == "plain":
            needs = [name for name in ("system", "tools") if getattr(item, name)]
            needs += [] if isinstance(item.prompt, str) else ["a prompt of chat messages"]
            if needs:
                raise self._error(f"{needs[0]} needs the chat template; use rendering='chat'", item)
        if self.scoring == "loglikelihood" or not item.choices:
            return
        shows_letters = _LISTED.search(item.shots) and _ENDS_IN_LETTER.search(item.shots)
        if item.shots and not has_letters(item) and not shows_letters:
            raise self._error(
                "its worked examples (shots) end in the text of an option, and "
                f"scoring={self.scoring!r} needs letters of listed options; use "
                "scoring='loglikelihood', or leave shots out and add examples with few_shot",
                item,
            )
        if len(item.choices) > len(LETTERS):
            raise self._error(f"{len(item.choices)} choices for {len(LETTERS)} letters", item)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def head(self, items: int) -> Probe:
        """Probe of the first items, with the same settings."""
        return self if items >= len(self) else self.with_items(self.items[:items])

    def with_items(self, items: Iterable[Item]) -> Probe:
        """Probe of other items, with the same settings.

        The decoding is left out if no answer is generated.
        """
        kept = tuple(items)
        return replace(
            self, items=kept, decoding=self.decoding if _decodes(kept, self.scoring) else None
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting that can change an outcome."""
        settings: dict[str, Any] = {
            "scoring": self.scoring,
            "norm": self.norm,
            "rendering": self.rendering,
        }
        return settings | (
            {"decoding": self.decoding.to_json()} if isinstance(self.decoding, Decoding) else {}
        )

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all items and settings.

        SHA-256, 64 hex digits, over the sorted (task, content hash) of the items, and the settings.
        """
        # An item's rendering and wording are added only if set, so that all other probes keep their
        # fingerprint.
        item_hashes = [
            [
                *(item.task, item.content_hash),
                *filter(None, [item.rendering]),
                *([json.dumps(item.wording.to_json(), sort_keys=True)] if item.wording else []),
            ]
            for item in self.items
        ]
        content = [sorted(item_hashes), self.settings]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def to_jsonl(self) -> str:
        """Probe as JSONL: a header line, then an item per line."""
        kept = {
            name: value for name, value in (("canary", self.canary), ("plan", self.plan)) if value
        } | ({"may_chat": True} if self.may_chat else {})
        lines = [
            json.dumps({_HEADER: {"name": self.name, **kept, **self.settings}}, ensure_ascii=False)
        ]
        lines += [json.dumps(item.to_json(), ensure_ascii=False) for item in self.items]
        return "\n".join(lines) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the probe as JSONL, compressed if the name ends in ``.gz``."""
        path, content = Path(path), self.to_jsonl().encode()
        if path.suffix == ".gz":
            content = gzip.compress(
                content, mtime=0
            )  # without a time, so that equal probes are equal files
        write_atomically(path, lambda partial: partial.write_bytes(content))


def _decodes(items: Iterable[Item], scoring: Scoring) -> bool:
    # The items are checked after the settings: anything that is no Item is reported there.
    return scoring == "generate" or any(
        isinstance(item, Item) and not item.choices for item in items
    )


def read_probe(path: str | Path, **settings: Any) -> Probe:
    """Read a probe from a JSONL file.

    Args:
        path: A file with one item per line, with or without the header line.
        settings: Settings of `Probe` that replace those of the header.

    Raises:
        ProbeError: If the file is missing, cut, or no probe; the message names the line.
    """
    path = Path(path)
    with file_errors(path, _NEEDED, ProbeError):
        return _parse(path, read_text(path, _NEEDED, ProbeError), settings)


def _parse(path: Path, text: str, settings: Mapping[str, Any]) -> Probe:  # noqa: C901
    header: dict[str, Any] = {"name": Path(path.name.removesuffix(".gz")).stem}
    items: list[Item] = []
    wrong: list[tuple[int, ProbeError]] = []
    # Not splitlines(): it also splits at characters that JSON texts may contain, such as U+2028.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = _object(line)
            if items or _HEADER not in row:
                items.append(Item.from_json(row))
            elif isinstance(given := row[_HEADER], dict):
                header |= given
            else:
                raise ProbeError(f"the header must be an object, got {given!r}")
        except ProbeError as error:
            wrong.append((number, error))
            if len(wrong) == _MOST_WRONG:
                break
    if len(wrong) == 1:
        raise ProbeError(f"{path}, line {wrong[0][0]}: {wrong[0][1]}") from wrong[0][1]
    if wrong:
        # All mistakes in one message: whoever repairs a file needs more than the first.
        more = ", and perhaps more" if len(wrong) == _MOST_WRONG else ""
        listed = "; ".join(f"line {number}: {error}" for number, error in wrong)
        raise ProbeError(f"{path}: {len(wrong)} lines are wrong{more}: {listed}") from wrong[0][1]
    if unknown := sorted({*header, *settings} - _SETTINGS):
        near = did_you_mean(unknown[0], _SETTINGS)
        raise ProbeError(
            f"{path}: unknown setting {unknown[0]!r}{near}; a probe has "
            f"{', '.join(sorted(_SETTINGS))}"
        )
    # The header's norm belongs to the header's scoring; another scoring takes the default.
    if "scoring" in settings and "norm" not in settings:
        header.pop("norm", None)
    if "rendering" in settings:
        header.pop("may_chat", None)
    try:
        return Probe(items, **{**header, **settings})
    except ProbeError as error:
        raise ProbeError(f"{path}: {error}") from error


def _object(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=unique_keys)
    except UnsuitableError as error:
        raise ProbeError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise ProbeError(f"not a JSON object ({error}); is the file cut?") from error
    if not isinstance(row, dict):
        raise ProbeError(f"an item is a JSON object, got {type(row).__name__}")
    return row


def combine(first: Probe, second: Probe) -> Probe:
    """Combine two probes, with the settings of the first.

    Items of the second keep their rendering. The decoding is that of the probe that generates
    answers.

    Raises:
        ProbeError: If both generate answers with different settings, the second scores its choices
            in another way, or an item is in both.
    """
    name = f"{first.name}+{second.name}"
    # Nothing is chosen among the choices of passages, so that the norm is of no matter to them.
    chooses = any(item.choices and not item.is_passage for item in second)
    if chooses and (first.scoring, first.norm) != (second.scoring, second.norm):
        raise ProbeError(
            f"{name}: needed choices that are scored in one way, got {first.scoring} and "
            f"{second.scoring}"
        )
    decodings = [probe.decoding for probe in (first, second) if probe.decoding is not None]
    if len(decodings) == 2 and decodings[0] != decodings[1]:
        raise ProbeError(
            f"{name}: needed answers that are generated in one way, got {decodings[0]} and "
            f"{decodings[1]}"
        )
    items_with_rendering = [
        item
        if second.rendering_of(item) == first.rendering
        else replace(item, rendering=second.rendering_of(item))
        for item in second
    ]
    decoding = decodings[0] if decodings else None
    return replace(
        first,
        items=(*first, *items_with_rendering),
        name=name,
        decoding=decoding,
        canary=first.canary or second.canary,
    )
