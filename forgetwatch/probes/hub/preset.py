"""The shape of a preset, and one row of a data set as a question.

Each part of a preset (a subject, a task, a language) is one or more `Source`s: a data set of the hub, its config and
its split. A row function takes a row and its `Source` and returns a `Question` in the two forms in which a preset can
be evaluated:

    scored       `prompt` and `choices` as lm-evaluation-harness 0.4 renders them; the space between the two belongs to
                 the choice
    other forms  `question` and `options` without any rendering: letters, cot and base list the options themselves

It reads the row through the helpers below, which raise `BadRowError` for a row that is not a question: such rows are
left out and counted. Any other error means that the data set has changed its shape, and stops the load.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from forgetwatch.errors import ProbeError, did_you_mean
from forgetwatch.probe import LETTERS, Norm

Row = Mapping[str, Any]
RowFunction = Callable[[Row, "Source"], "Question | None"]
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
class Question:
    """The content of one item, before a form is chosen.

    Attributes:
        header: Text that comes once before everything, worked examples included, as in the harness.
        prompt: The text before the choices, as in the harness.
        choices: The choices as they are appended to it; empty for an open answer.
        answer: Index of the right option, or several indices; the text or texts of an open answer.
        question: The question alone, without its options.
        options: The options' texts, in the order of `choices`.
        task: The task, where the row decides it; empty for the source's.
        category: The category, where the row decides it; empty for that of the paper's tasks.
        key: The data set's own id of the row; empty for its row number in the split.
        match: Rule by which an open answer is graded.
        cluster: Id of the passage that several rows share.
        reasoning: Worked steps to the right option, where the data set has them.
        worked: The answer that a worked example of an open question shows; empty for `answer`.
    """

    prompt: str
    header: str = ""
    choices: tuple[str, ...] = ()
    answer: int | tuple[int, ...] | str | tuple[str, ...]
    question: str
    options: tuple[str, ...] = ()
    task: str = ""
    category: str = ""
    key: str = ""
    match: str | None = None
    cluster: str | None = None
    reasoning: str = ""
    worked: str = ""


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
    question: RowFunction
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

        Of an empty name those without a part, else all.
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


class BadRowError(ProbeError):
    """A row of a data set that is not a question; it is left out and counted."""


def field_of(row: Row, name: str) -> Any:
    """Return a field of a row; BadRowError if it is missing or empty: the labels of some test splits are empty."""
    value = row.get(name)
    if value is None or value == "":
        raise BadRowError(f"needed {name!r}, and it is {'not there' if value is None else 'empty'}")
    return value


def label_of(row: Row, name: str, labels: Sequence[Any]) -> int:
    """Return the index of a field's label among the labels, compared as text.

    ``"2"`` and 2 are the same; BadRowError if none.
    """
    value = str(field_of(row, name)).strip()
    known = [str(label).strip() for label in labels]
    if value not in known:
        raise BadRowError(f"needed {name!r} to be one of {', '.join(known)}, and it is {value!r}")
    return known.index(value)


def option_index(answer: object, options: int) -> int:
    """Return the index of the option that an answer names by its index from 0 or by its letter.

    BadRowError if there is none.
    """
    text = str(answer).strip()
    index = LETTERS.index(text) if text in tuple(LETTERS) else int(text) if text.isdecimal() else -1
    if not 0 <= index < options:
        raise BadRowError(f"needed the index or the letter of one of {options} options, and the answer is {answer!r}")
    return index


def spaced(options: Sequence[str]) -> tuple[str, ...]:
    """Return the options as choices: each after one space, as the harness appends them."""
    return tuple(f" {option}" for option in options)


def letters(count: int) -> tuple[str, ...]:
    """Return the choices of a question whose options are listed in its prompt: ``" A"``, ``" B"``, ..."""
    return spaced(tuple(LETTERS[:count]))


def lettered(options: Sequence[str]) -> str:
    """Return the options as lines ``A. ...``, each after a line break."""
    return "".join(f"\n{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))


def with_letters(question: str, options: Sequence[str], answer: int | tuple[int, ...], *, before: str = "") -> Question:
    """Return the question whose options its prompt lists, after a text before it, and whose letters are scored."""
    return Question(
        prompt=f"{before}{question}{lettered(options)}\nAnswer:",
        choices=letters(len(options)),
        answer=answer,
        question=question,
        options=tuple(options),
    )


def with_texts(prompt: str, options: Sequence[str], answer: int, *, question: str = "") -> Question:
    """Return the question whose options are scored as texts after its prompt.

    Without another question the prompt is it.
    """
    return Question(
        prompt=prompt, choices=spaced(options), answer=answer, question=question or prompt, options=tuple(options)
    )


def permuted(options: Sequence[str], gold: int, *, key: str) -> tuple[tuple[str, ...], int]:
    """Return the options in an order that the key decides, and the index of the right one in that order.

    For data sets whose right option always comes first. The seed is a hash of the question's own text, so that the
    order is the same in every process and does not change with the row's position.
    """
    order = list(range(len(options)))
    seed = hashlib.sha256("\n".join([key, *options]).encode()).digest()
    random.Random(int.from_bytes(seed[:8], "big")).shuffle(order)
    return tuple(options[old] for old in order), order.index(gold)


def cluster_of(passage: str) -> str:
    """Return the cluster id of a passage, 12 hex digits: rows that share the passage share the id."""
    return hashlib.sha256(passage.encode()).hexdigest()[:12]
