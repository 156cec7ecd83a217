"""A probe: a named, fixed, ordered set of questions, and the settings that decide how they are asked.

    Item    a question        content_hash   what defines it, wherever it stands       (item.py)
    Probe   its items + how they are asked        fingerprint    what defines the measurement

Two measurements may be compared only if the same questions were asked in the same way. The content hash settles the
first: it covers prompt, choices, answers and what else the model sees, and neither the id nor the place in a file.
The fingerprint settles the second: it covers all content hashes and every setting that can change an outcome.

On disk a probe is JSONL: one item per line, after one header line that carries name, settings and canary. A file
without the header is a probe with the default settings, named after the file. A name in `.gz` is a compressed one.

Two probes as one: the second's written answers are asked as it asks them, whatever the first does.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, get_args

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ProbeError
from forgetwatch.files import write_atomically
from forgetwatch.item import TRAITS, Item, Rendering

Scoring = Literal["loglikelihood", "letters", "generate"]
Norm = Literal["sum", "chars", "bytes", "tokens", "unconditional"]

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HEADER: Final = "forgetwatch_probe"
_MOST_WRONG: Final = 5
"""Wrong lines after which a file is read no further."""

_SETTINGS: Final = frozenset({"name", "canary", "scoring", "norm", "rendering", "decoding"})

_NOT_FORCED: Final = frozenset({*TRAITS, "regex", "json:keys"})
"""Matches whose answer describes an output, and is none."""


@dataclass(frozen=True, eq=False)
class Probe(Sequence[Item]):
    """A named, fixed, ordered set of items, and how they are asked.

    Attributes:
        items: The items, in their order.
        name: Name of the probe.
        scoring: ``loglikelihood`` appends each choice to the prompt and compares their log-likelihoods; ``letters``
            lists the choices in the prompt as A, B, C, ... and compares the letters (choices that already are the
            letters in order are left as they are); ``generate`` lets the model write, and judges what it wrote. Items
            without choices are written and judged in any case.
        norm: What a log-likelihood is divided by before choices are compared: ``sum`` (nothing), ``chars``, ``bytes``
            or ``tokens`` of the choice without its leading space; ``unconditional`` takes off the log-likelihood of
            the choice without any prompt. Default: sum for letters, bytes for log-likelihood.
        rendering: ``plain`` sends the same text to every model; ``chat`` wraps it in the tokenizer's chat template.
        decoding: How answers are written, where any are.
        canary: A text by which the items can be found in training data, kept in the file; it changes no outcome.

    Raises:
        ProbeError: If there is no item, if (task, id) repeats, or if a setting is unknown.
    """

    items: Sequence[Item]
    name: str = "probe"
    scoring: Scoring = "loglikelihood"
    norm: Norm | None = None
    rendering: Rendering = "plain"
    decoding: Decoding | Mapping[str, Any] | None = None
    canary: str | None = None

    def __post_init__(self) -> None:
        """Check the settings and the items."""
        object.__setattr__(self, "items", tuple(self.items))
        if self.norm is None:
            object.__setattr__(self, "norm", "bytes" if self.scoring == "loglikelihood" else "sum")
        self._check_decoding()
        for name, allowed in (("scoring", Scoring), ("norm", Norm), ("rendering", Rendering)):
            given = getattr(self, name)
            if given not in get_args(allowed):
                raise ProbeError(
                    f"probe {self.name!r}: {name} must be one of {', '.join(get_args(allowed))}, got {given!r}"
                )
        if not isinstance(self.canary, (str, type(None))):
            raise ProbeError(f"probe {self.name!r}: canary must be text, got {self.canary!r}")
        if not self.items:
            raise ProbeError(f"probe {self.name!r} has no items; it needs at least one")
        seen: set[tuple[str, str]] = set()
        for item in self.items:
            if not isinstance(item, Item):
                raise ProbeError(f"probe {self.name!r}: every item must be an Item, got {type(item).__name__}")
            if (item.task, item.id) in seen:
                raise ProbeError(
                    f"probe {self.name!r}: item id {item.id!r} stands twice in task {item.task!r}; ids must be unique"
                )
            seen.add((item.task, item.id))
            self._check_rendering(item)

    def _check_decoding(self) -> None:
        written = self.scoring == "generate" or any(isinstance(item, Item) and not item.choices for item in self.items)
        if self.decoding is not None and not written:
            raise ProbeError(f"probe {self.name!r}: decoding is for written answers, and no item has any")
        made = Decoding.of(self.decoding) if written else None
        object.__setattr__(self, "decoding", made)
        if made is not None and made.samples > 1 and self.scoring != "generate":
            raise ProbeError(
                f"probe {self.name!r}: {made.samples} samples of each answer need scoring='generate'; beside scored "
                "choices an item is written once"
            )
        if made is not None and made.check == "forced":
            for item in self.items:
                if isinstance(item, Item) and not item.choices and item.match in _NOT_FORCED:
                    raise ProbeError(
                        f"probe {self.name!r}, item {item.id!r}: match {item.match!r} needs a written output: its "
                        "answer is no text that a model would write; take check='forced' out of decoding"
                    )

    def is_generated(self, item: Item) -> bool:
        """Whether the model writes the answer to an item, instead of reading its choices or its answer."""
        if item.choices:
            return self.scoring == "generate"
        return not (isinstance(self.decoding, Decoding) and self.decoding.check == "forced")

    def rendering_of(self, item: Item) -> Rendering:
        """How an item is asked: its own rendering, else the probe's."""
        return item.rendering or self.rendering

    def _check_rendering(self, item: Item) -> None:
        """Refuse what the settings would silently leave out of the prompt."""
        if self.rendering_of(item) == "plain":
            needs = [name for name in ("system", "tools") if getattr(item, name)]
            needs += [] if isinstance(item.prompt, str) else ["a prompt of chat messages"]
            if needs:
                raise ProbeError(
                    f"probe {self.name!r}, item {item.id!r}: {needs[0]} needs the chat template; use rendering='chat'"
                )
        if self.scoring != "loglikelihood" and len(item.choices) > len(LETTERS):
            raise ProbeError(
                f"probe {self.name!r}, item {item.id!r}: {len(item.choices)} choices for {len(LETTERS)} letters"
            )

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def head(self, items: int) -> Probe:
        """The first so many items, asked in the same way."""
        return self if items >= len(self) else replace(self, items=self.items[:items])

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting that can change an outcome."""
        settings: dict[str, Any] = {"scoring": self.scoring, "norm": str(self.norm), "rendering": self.rendering}
        return settings | ({"decoding": self.decoding.to_json()} if isinstance(self.decoding, Decoding) else {})

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (64 hex digits) over the sorted (task, content_hash) of all items, and the settings."""
        own = [[item.task, item.content_hash, *filter(None, [item.rendering])] for item in self.items]
        content = [sorted(own), self.settings]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def to_jsonl(self) -> str:
        """The probe as JSONL: a header line with name, settings and canary, then one item per line."""
        canary = {} if self.canary is None else {"canary": self.canary}
        lines = [json.dumps({_HEADER: {"name": self.name, **canary, **self.settings}})]
        lines += [json.dumps(item.to_json(), ensure_ascii=False) for item in self.items]
        return "\n".join(lines) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the probe as JSONL, compressed where the name ends in ``.gz``."""
        path, content = Path(path), self.to_jsonl().encode()
        if path.suffix == ".gz":
            content = gzip.compress(content, mtime=0)
        write_atomically(path, lambda partial: partial.write_bytes(content))


def read_probe(path: str | Path, **settings: Any) -> Probe:
    """The probe in a JSONL file.

    Args:
        path: A file with one item per line, with or without the header line.
        settings: Settings of `Probe` that replace those of the header.

    Raises:
        ProbeError: If the file is missing, cut, or holds something else; the line is named.
    """
    path = Path(path)
    text = _text(path)
    header: dict[str, Any] = {"name": Path(path.name.removesuffix(".gz")).stem}
    items: list[Item] = []
    wrong: list[tuple[int, ProbeError]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = _object(line)
            if not items and _HEADER in row:
                header |= _header(row[_HEADER])
            else:
                items.append(Item.from_json(row))
        except ProbeError as error:
            wrong.append((number, error))
            if len(wrong) == _MOST_WRONG:
                break
    if wrong:
        raise ProbeError(_all_wrong(path, wrong)) from wrong[0][1]
    if unknown := sorted({*header, *settings} - _SETTINGS):
        raise ProbeError(f"{path}: unknown setting {unknown[0]!r}; a probe has {', '.join(sorted(_SETTINGS))}")
    if "scoring" in settings and "norm" not in settings:
        header.pop("norm", None)
    try:
        return Probe(items, **{**header, **settings})
    except ProbeError as error:
        raise ProbeError(f"{path}: {error}") from error


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ProbeError(f"{path}: not a whole gzip file ({error})") from error
    except OSError as error:
        raise ProbeError(f"{path}: the probe cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ProbeError(f"{path}: a probe is UTF-8 JSONL, and this file is not UTF-8 text") from error


def _object(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProbeError(f"not a JSON object ({error}); is the file cut?") from error
    if not isinstance(row, dict):
        raise ProbeError(f"an item is a JSON object, got {type(row).__name__}")
    return row


def _header(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ProbeError(f"the header must be an object, got {given!r}")
    return given


def _all_wrong(path: Path, wrong: Sequence[tuple[int, ProbeError]]) -> str:
    """All mistakes in one message: who mends a file wants to see more than the first."""
    if len(wrong) == 1:
        return f"{path}, line {wrong[0][0]}: {wrong[0][1]}"
    more = ", and perhaps more" if len(wrong) == _MOST_WRONG else ""
    return f"{path}: {len(wrong)} lines are wrong{more}: " + "; ".join(f"line {at}: {error}" for at, error in wrong)


def combine(first: Probe, second: Probe) -> Probe:
    """The items of both, those of the first in front; asked like the first, but for how the second's are rendered.

    Raises:
        ProbeError: If both write answers in unlike ways, the second scores its choices otherwise, or an item stands in
            both.
    """
    name = f"{first.name}+{second.name}"
    if any(item.choices for item in second) and (first.scoring, first.norm) != (second.scoring, second.norm):
        raise ProbeError(f"{name}: needed choices that are scored in one way, got {first.scoring} and {second.scoring}")
    written = [probe.decoding for probe in (first, second) if probe.decoding is not None]
    if len(written) == 2 and written[0] != written[1]:
        raise ProbeError(f"{name}: needed answers that are written in one way, got {written[0]} and {written[1]}")
    own = [
        item if second.rendering_of(item) == first.rendering else replace(item, rendering=second.rendering_of(item))
        for item in second
    ]
    decoding = written[0] if written else None
    return replace(first, items=(*first, *own), name=name, decoding=decoding, canary=first.canary or second.canary)
