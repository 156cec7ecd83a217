"""A preset: where a benchmark's rows are, and how one row becomes a question.

    load_probe("arc_easy")           one benchmark, its choices scored as lm-evaluation-harness scores them
    load_probe("mmlu:anatomy")       one part of it
    load_probe("mmlu:cot")           the model reasons and writes its answer, in a chat
    load_probe("bbh:navigate:cot")   NAME[:PART[+PART ...]][:FORM], always in this order

Every part of a preset is a `Source`: a data set of the hub, its config and its split. A name without a part stands for
its sources without a part, or for all where each has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from forgetwatch.errors import ProbeError
from forgetwatch.probe import Norm
from forgetwatch.probes.hub.question import Question, Row

Form = Literal["scored", "letters", "cot", "base"]

FORMS: Final[Mapping[Form, tuple[str, Mapping[str, Any]]]] = {
    "scored": ("scored as lm-evaluation-harness does (default)", {}),
    "letters": ("options listed in a chat, their letters scored", {"scoring": "letters", "rendering": "chat"}),
    "cot": (
        "the model reasons in a chat and writes its answer",
        {"scoring": "generate", "rendering": "chat", "decoding": {"tokens": 2048}},
    ),
    "base": (
        "written behind 5 worked examples, no chat: for base models",
        {"scoring": "generate", "rendering": "plain", "decoding": {"tokens": 512, "stop": ["\n\n"]}},
    ),
}
"""What each form is, and the settings of `Probe` that make it."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """One split of one data set of the hub.

    Attributes:
        dataset: Its id.
        split: The split that is asked.
        task: The items' task, as lm-evaluation-harness or the paper names it.
        config: Its config; None for the only one.
        part: What names it in the preset; empty for what the name alone stands for.
        examples: A split with worked examples; None where there is none.
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
        about: What it asks, in a few words.
        items: How many, as its own documentation has it.
        k: Its number of options, in words.
        licence: Of the data.
        sources: Where its rows are.
        question: One row, and the source that it is from, to a question.
        norm: What choices are divided by where they are scored: nothing for letters.
        written: How answers are written where it has open ones, in the plain form.
        note: What one should know of it.
        whole: The name alone stands for something; otherwise a part must be named.
        private: Its text must not be published, so that it stays out of logs.
    """

    name: str
    about: str
    items: str
    k: str
    licence: str
    sources: tuple[Source, ...]
    question: Callable[[Row, Source], Question | None]
    norm: Norm = "sum"
    written: Mapping[str, Any] | None = None
    note: str = ""
    whole: bool = True
    private: bool = False

    def parts(self) -> tuple[str, ...]:
        """The names of its parts."""
        return tuple(dict.fromkeys(source.part for source in self.sources if source.part))

    def chosen(self, part: str) -> tuple[Source, ...]:
        """The sources that some parts' names stand for, joined by ``+``; an empty one stands for the whole.

        Raises:
            ProbeError: If there is no such part, or one must be named.
        """
        if not part and not self.whole:
            raise ProbeError(f"{self.name}: needed a part, such as {self.name}:{self.parts()[0]}; {self._known()}")
        if not part:
            return tuple(source for source in self.sources if not source.part) or self.sources
        found: list[Source] = []
        for name in dict.fromkeys(part.split("+")):
            of_name = [source for source in self.sources if source.part == name]
            if not of_name or not name:
                raise ProbeError(
                    f"{self.name}:{name}: no such part or form; {self._known()}; forms: {', '.join(FORMS)}"
                )
            found += of_name
        return tuple(found)

    def _known(self) -> str:
        parts = self.parts()
        more = f", ... ({len(parts)} in all)" if len(parts) > 8 else ""
        return f"parts: {', '.join(parts[:8])}{more}" if parts else "it has no parts"
