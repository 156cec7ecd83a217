"""A probe: a named, fixed, ordered set of questions, and the settings that decide how they are asked.

    Item    one question with a stable id          content_hash   what defines the question, wherever it stands
    Probe   items + scoring, norm, rendering       fingerprint    what defines the measurement

Two measurements may be compared only if the same questions were asked in the same way. The content hash settles the
first: it covers prompt, choices, answers and what else the model sees, and neither the id nor the place in a file.
The fingerprint settles the second: it covers all content hashes and every setting that can change an outcome.

On disk a probe is JSONL: one item per line, after one header line that carries name and settings. A file without the
header is a probe with the default settings, named after the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from forgetwatch.errors import ProbeError
from forgetwatch.files import write_atomically

Scoring = Literal["loglikelihood", "letters"]
Norm = Literal["sum", "chars", "bytes", "tokens"]
Rendering = Literal["plain", "chat"]
Message = Mapping[str, Any]

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HEADER: Final = "forgetwatch_probe"


@dataclass(frozen=True, kw_only=True)
class Item:
    """One question with a stable id.

    Attributes:
        id: Stable name of the item, unique within its task.
        task: The benchmark that the item belongs to.
        category: The coarser label, for reporting only.
        prompt: The text before the answer, or chat messages (``{"role": ..., "content": ...}``).
        choices: The options, exactly as they are appended to the prompt (a leading space included); empty for an
            open answer.
        answer: Index of the right choice, or several indices where several are right; the text or texts of an open
            answer.
        match: How an open answer is judged (``exact``, ``number``, ...); None for choices.
        cluster: Items with the same cluster share a passage or a template and flip together.
        tags: Free labels.
        must_pass: An item that a release may never lose.
        system: System message for the chat rendering.
        tools: Tool descriptions for the chat rendering.
        meta: Anything else; never read by forgetwatch.

    Raises:
        ProbeError: If a field has the wrong type, or an answer index is outside the choices.
    """

    id: str
    task: str
    prompt: str | Sequence[Message]
    answer: int | str | Sequence[int] | Sequence[str]
    choices: Sequence[str] = ()
    category: str = ""
    match: str | None = None
    cluster: str | None = None
    tags: Sequence[str] = ()
    must_pass: bool = False
    system: str | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the fields, and turn sequences into tuples."""
        for name in ("id", "task", "category"):
            if not isinstance(getattr(self, name), str):
                raise ProbeError(f"item {self.id!r}: {name} must be text, got {getattr(self, name)!r}")
        if not self.id or not self.task:
            raise ProbeError(f"item {self.id!r} of task {self.task!r}: id and task must not be empty")
        if not self.prompt and self.prompt != "":
            raise ProbeError(f"item {self.id!r}: the prompt has no messages")
        if isinstance(self.choices, str) or not all(isinstance(c, str) for c in self.choices):
            raise ProbeError(f"item {self.id!r}: choices must be a list of texts, got {self.choices!r}")
        for name in ("choices", "tags"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not isinstance(self.prompt, str):
            object.__setattr__(self, "prompt", tuple(self.prompt))
        if not isinstance(self.answer, (str, int)):
            object.__setattr__(self, "answer", tuple(self.answer))
        self._check_answer()

    def _check_answer(self) -> None:
        answers = self.answers
        if not answers:
            raise ProbeError(f"item {self.id!r}: no answer is given")
        if not self.choices:
            if not all(isinstance(a, str) for a in answers):
                raise ProbeError(
                    f"item {self.id!r}: choices is empty, so the answer must be text, got {self.answer!r}; "
                    "give the choices, or an open answer with match"
                )
            return
        for answer in answers:
            if isinstance(answer, bool) or not isinstance(answer, int):
                raise ProbeError(f"item {self.id!r}: answer must be an index into choices, got {answer!r}")
            if not 0 <= answer < len(self.choices):
                raise ProbeError(
                    f"item {self.id!r}: answer {answer} is outside its {len(self.choices)} choices; "
                    f"indices run from 0 to {len(self.choices) - 1}"
                )

    @property
    def answers(self) -> tuple[int, ...] | tuple[str, ...]:
        """All right answers, in the order given."""
        return self.answer if isinstance(self.answer, tuple) else (self.answer,)

    @property
    def k(self) -> int | None:
        """Number of options; None for an open answer."""
        return len(self.choices) or None

    @cached_property
    def content_hash(self) -> str:
        """First 16 hex digits of SHA-256 over what defines the question, whatever its id, place or file."""
        prompt = self.prompt if isinstance(self.prompt, str) else [dict(m) for m in self.prompt]
        tools = None if self.tools is None else [dict(t) for t in self.tools]
        content = [prompt, list(self.choices), sorted(self.answers), self.match, self.system, tools]
        text = json.dumps(content, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """The item as one JSON object; fields that hold their default are left out."""
        row: dict[str, Any] = {}
        for spec in fields(self):
            value = getattr(self, spec.name)
            if spec.name in _REQUIRED or value not in ((), {}, None, False, ""):
                row[spec.name] = list(value) if isinstance(value, tuple) else value
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """The item that one JSON object describes.

        Raises:
            ProbeError: If a field is missing, unknown, or wrong.
        """
        known = {spec.name for spec in fields(cls)}
        if missing := sorted(_REQUIRED - set(row)):
            raise ProbeError(f"an item needs {', '.join(missing)}, got only {', '.join(sorted(row)) or 'nothing'}")
        if unknown := sorted(set(row) - known):
            raise ProbeError(f"unknown field {unknown[0]!r}; an item has {', '.join(sorted(known))}")
        return cls(**row)


_REQUIRED: Final = frozenset({"id", "task", "prompt", "answer"})


@dataclass(frozen=True, eq=False)
class Probe(Sequence[Item]):
    """A named, fixed, ordered set of items, and how they are asked.

    Attributes:
        items: The items, in their order.
        name: Name of the probe.
        scoring: ``loglikelihood`` appends each choice to the prompt and compares their log-likelihoods; ``letters``
            lists the choices in the prompt as A, B, C, ... and compares the letters (choices that already are the
            letters in order are left as they are).
        norm: What a log-likelihood is divided by before choices are compared: ``sum`` (nothing), ``chars``, ``bytes``
            or ``tokens`` of the choice without its leading space. Default: sum for letters, bytes for
            log-likelihood.
        rendering: ``plain`` sends the same text to every model; ``chat`` wraps it in the tokenizer's chat template.

    Raises:
        ProbeError: If there is no item, if (task, id) repeats, or if a setting is unknown.
    """

    items: Sequence[Item]
    name: str = "probe"
    scoring: Scoring = "loglikelihood"
    norm: Norm | None = None
    rendering: Rendering = "plain"

    def __post_init__(self) -> None:
        """Check the settings and the items."""
        object.__setattr__(self, "items", tuple(self.items))
        if self.norm is None:
            object.__setattr__(self, "norm", "sum" if self.scoring == "letters" else "bytes")
        for name, allowed in (("scoring", Scoring), ("norm", Norm), ("rendering", Rendering)):
            given = getattr(self, name)
            if given not in get_args(allowed):
                raise ProbeError(
                    f"probe {self.name!r}: {name} must be one of {', '.join(get_args(allowed))}, got {given!r}"
                )
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

    def _check_rendering(self, item: Item) -> None:
        """Refuse what the settings would silently leave out of the prompt."""
        if self.rendering == "plain":
            needs = [name for name in ("system", "tools") if getattr(item, name)]
            needs += [] if isinstance(item.prompt, str) else ["a prompt of chat messages"]
            if needs:
                raise ProbeError(
                    f"probe {self.name!r}, item {item.id!r}: {needs[0]} needs the chat template; use rendering='chat'"
                )
        if self.scoring == "letters" and len(item.choices) > len(LETTERS):
            raise ProbeError(
                f"probe {self.name!r}, item {item.id!r}: {len(item.choices)} choices for {len(LETTERS)} letters"
            )

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    @property
    def settings(self) -> dict[str, str]:
        """Every setting that can change an outcome."""
        return {"scoring": self.scoring, "norm": str(self.norm), "rendering": self.rendering}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (64 hex digits) over the sorted (task, content_hash) of all items, and the settings."""
        content = [sorted([item.task, item.content_hash] for item in self.items), self.settings]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the probe as JSONL: a header line with name and settings, then one item per line."""
        lines = [json.dumps({_HEADER: {"name": self.name, **self.settings}})]
        lines += [json.dumps(item.to_json(), ensure_ascii=False) for item in self.items]
        text = "\n".join(lines) + "\n"
        write_atomically(Path(path), lambda partial: partial.write_bytes(text.encode("utf-8", "surrogatepass")))


def read_probe(path: str | Path, **settings: Any) -> Probe:
    """The probe in a JSONL file.

    Args:
        path: A file with one item per line, with or without the header line.
        settings: Settings of `Probe` that replace those of the header.

    Raises:
        ProbeError: If the file is missing, cut, or holds something else; the line is named.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ProbeError(f"{path}: the probe cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ProbeError(f"{path}: a probe is UTF-8 JSONL, and this file is not UTF-8 text") from error
    header: dict[str, Any] = {"name": path.stem}
    items: list[Item] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ProbeError(f"{path}, line {number}: not a JSON object ({error.msg}); is the file cut?") from error
        if not isinstance(row, dict):
            raise ProbeError(f"{path}, line {number}: an item is a JSON object, got {type(row).__name__}")
        if not items and _HEADER in row:
            header |= row[_HEADER]
            continue
        try:
            items.append(Item.from_json(row))
        except ProbeError as error:
            raise ProbeError(f"{path}, line {number}: {error}") from error
    if "scoring" in settings and "norm" not in settings:
        header.pop("norm", None)
    try:
        return Probe(items, **{**header, **settings})
    except TypeError as error:
        raise ProbeError(f"{path}: unknown setting in the header or the call ({error})") from error
    except ProbeError as error:
        raise ProbeError(f"{path}: {error}") from error
