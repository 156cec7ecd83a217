"""The shape of a preset: a benchmark's sources on the hub, its row function and its settings.

Each part of a preset (a subject, a task, a language) is one or more `Source`s: a data set of the hub, its config and
its split. presets.py is the table of all presets; load.py documents the names by which they are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from forgetwatch.errors import ProbeError, did_you_mean
from forgetwatch.probe import Norm
from forgetwatch.probes.hub.question import Question, Row

Form = Literal["scored", "letters", "cot", "base"]

FORMS: Final[Mapping[Form, tuple[str, Mapping[str, Any]]]] = {
    "scored": ("scored as lm-evaluation-harness does (default)", {}),
    "letters": ("options listed in a chat, their letters scored", {"scoring": "letters", "rendering": "chat"}),
    "cot": (
        "the model reasons in a chat and generates its answer",
        {"scoring": "generate", "rendering": "chat", "decoding": {"tokens": 2048}},
    ),
    "base": (
        "generated after 5 worked examples, no chat: for base models",
        {"scoring": "generate", "rendering": "plain", "decoding": {"tokens": 512, "stop": ["\n\n"]}},
    ),
}
"""Forms in which every preset can be evaluated: a description, and the settings of `Probe`."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """One split of one data set of the hub.

    Attributes:
        dataset: Its id.
        split: The split that is evaluated.
        task: The items' task, as lm-evaluation-harness or the paper names it.
        config: Its config; None for the only one.
        part: Name of this part of the preset; empty if the preset has a single source.
        examples: A split with worked examples; None where the data set has none.
        revision: The revision that holds the data, where it is not the main one.
        files: The files of a split in that revision, where it has no configs.
    """

    dataset: str
    split: str
    task: str
    config: str | None = None
    part: str = ""
    examples: str | None = None
    revision: str | None = None
    files: str | None = None

    def __str__(self) -> str:
        return " ".join([self.dataset, *([self.config] if self.config else []), self.split])


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A benchmark that can be loaded by name.

    Attributes:
        name: Its name.
        about: Its subject, in a few words.
        items: Number of items, as its own documentation states it.
        k: Number of options, in words.
        licence: Licence of the data.
        sources: Its splits on the hub.
        question: Function of a row and its source to a question; None leaves the row out.
        norm: Normalisation of scored choices; letters need none.
        decoding: Settings of generated answers in the scored form, where the preset has open answers.
        note: A remark for users.
        needs_part: True if the name alone loads nothing and a part must be named.
        private: True if the text must not be published; it stays out of logs.
    """

    name: str
    about: str
    items: str
    k: str
    licence: str
    sources: tuple[Source, ...]
    question: Callable[[Row, Source], Question | None]
    norm: Norm = "sum"
    decoding: Mapping[str, Any] | None = None
    note: str = ""
    needs_part: bool = False
    private: bool = False

    def parts(self) -> tuple[str, ...]:
        """Names of the parts, in order, without repetition."""
        return tuple(dict.fromkeys(source.part for source in self.sources if source.part))

    def sources_of(self, part: str) -> tuple[Source, ...]:
        """Return the sources of one part, or of several joined by ``+``.

        An empty name selects the sources without a part, or all sources if each has one.

        Raises:
            ProbeError: If there is no such part, or a part is needed and none is named.
        """
        if not part and self.needs_part:
            raise ProbeError(f"{self.name}: needed a part, such as {self.name}:{self.parts()[0]}; {self._parts_text()}")
        if not part:
            return tuple(source for source in self.sources if not source.part) or self.sources
        found: list[Source] = []
        for name in dict.fromkeys(part.split("+")):
            matching = [source for source in self.sources if source.part == name]
            if not matching or not name:
                near = did_you_mean(name, (*self.parts(), *FORMS))
                raise ProbeError(
                    f"{self.name}:{name}: no such part or form{near}; {self._parts_text()}; forms: {', '.join(FORMS)}"
                )
            found += matching
        return tuple(found)

    def _parts_text(self) -> str:
        parts = self.parts()
        more = f", ... ({len(parts)} in all)" if len(parts) > 8 else ""
        return f"parts: {', '.join(parts[:8])}{more}" if parts else "it has no parts"
