"""A table of questions as a probe: a CSV, TSV, JSONL, JSON or Parquet file, a list of dicts, a `datasets.Dataset`.

    probe_from("mine.csv")                            columns by their usual names
    probe_from(rows, columns={"prompt": "frage"})     or by names that are given

Columns. `row_files.USUAL_NAMES` lists the names by which a column is recognised, case aside; of
several that hold values the first of the list is taken, so that `prompt` is preferred to `text`.
Passages, contexts and instructions are put before the question. These tables need no `columns`:

    question, options, answer           question, A, B, C, D, answer           goal, sol1, sol2, label
    ctx, endings, label                 prompt, choice_a, choice_b, correct    passage, question, answer
    instruction, input, output          question, distractor1, distractor2, correct_answer

Options are a list, the text of a list in JSON or Python, ``{"text": [...], "label": [...]}``, a
list of such objects, a column each, or columns of wrong ones beside the right answer. A blank
option is left out, and the others keep their letters. True and false without options are ``yes``
and ``no``. For log-likelihoods an option that does not begin with a space gets one, so that it does
not stick to the question.

Answers. How a column names the right option is decided over all rows (`read_key`). Without options
the answer is open, and graded by the column `match`, or else by its form: ``5``, ``$5`` and ``5 %``
as a number, ``Apollo 11`` as words that the output must contain. Of solutions that end in ``####
5`` or in a box that part is the answer.

Prompts. If most questions with options end in "?", all are framed as in the shipped probes,
"Question: ... Answer:". A column that is named `prompt` is taken as it is. What would be asked
without a part of it is refused: pictures, sound, a turn of the assistant at the end, and equal
questions with unlike answers.

An error lists the mistakes of the first five wrong rows.
"""

import ast
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ProbeError
from forgetwatch.item import Item, Rendering
from forgetwatch.probe import LETTERS, Norm, Probe, Scoring
from forgetwatch.probes.answer_key import (
    Key,
    KeyReading,
    OpenAnswers,
    Options,
    bare_answer,
    is_filled,
    read_key,
    read_open_answers,
    readings_of,
    words_of_truth,
)
from forgetwatch.probes.checking import unanswerable
from forgetwatch.probes.overlap import training_text
from forgetwatch.probes.row_files import USUAL_NAMES, Rows, cells, flat, question_rows
from forgetwatch.probes.table_plan import Plan, make_plan
from forgetwatch.progress import log

_EXAMPLES: Final = 3
"""Questions that are logged with their keys."""


_LONGEST_SHOWN: Final = 60
"""Characters of a question or an answer in that line."""


_UNLIKE: Final = 0.02
"""Share of questions that may be asked twice with unlike answers: benchmarks have a few by mistake."""


_SHOWN: Final = 5
"""Maximum number of wrong rows whose mistakes an error lists."""


def probe_from(
    source: str | Path | Iterable[Mapping[str, Any]],
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    name: str = "",
    task: str = "",
    category: str = "",
    scoring: Scoring = "loglikelihood",
    norm: Norm = "sum",
    rendering: Rendering | None = None,
    decoding: Decoding | Mapping[str, Any] | None = None,
    key: Key | None = None,
    rows: str | None = None,
    header: Sequence[str] | None = None,
) -> Probe:
    """Make a probe of a table's rows.

    Args:
        source: A file (CSV, TSV, JSONL, JSON, Parquet), or rows: a list of dicts, a
            `datasets.Dataset`.
        columns: Names of columns by the part of an item that they contain, if they have no usual
            name; ``choices`` may be several columns. The words of a plan are parts too: question,
            before, options, key.
        name: Name of the probe; by default the file's.
        task: The task of rows without one; by default the probe's name.
        category: The category of rows without one.
        scoring: See `Probe`.
        norm: See `Probe`.
        rendering: See `Probe`; by default chat where prompts are messages, plain for options, and
            for open questions as `probes.open_rendering` decides.
        decoding: See `Probe`.
        key: Way in which the answers name options, such as ``from-1``; by default it is decided
            over all rows.
        rows: Path of the rows in a JSON document, such as ``test``.
        header: Names of the columns of a file without a header.

    Raises:
        ProbeError: If there is no row, a column is missing, rows are wrong, or two readings fit all
            of them.
    """
    table_rows, where = _rows(source, within=rows, header=header)
    name = name or (Path(source).stem if isinstance(source, (str, Path)) else "mine")
    table_rows = flat(table_rows)
    if not table_rows:
        raise ProbeError(f"{where}: needed rows, and there are none")
    table = [row for _, row in table_rows]
    plan, of = make_plan(table, columns or {}, where, key=key)
    reader = _Reader(plan, of, table, where, space=scoring == "loglikelihood", key=key)
    items: list[Item] = []
    wrong: list[str] = []
    for number, (position, _) in enumerate(table_rows):
        item, mistakes = reader.item(number, task=task or name, category=category)
        if item is None:
            wrong.append(f"{position}: {', '.join(mistakes)}")
        else:
            items.append(item)
    if not {"key", "answer"} & set(columns or ()):
        reader.check_keys()
    answers: dict[Any, set[Any]] = {}
    for item in items:
        answers.setdefault((item.task, str(item.prompt), item.choices), set()).add(item.answers)
    if (unlike := sum(len(answer) - 1 for answer in answers.values())) > _UNLIKE * len(items):
        unused = f"; not used: {', '.join(plan.not_used)}" if plan.not_used else ""
        raise ProbeError(
            f"{where}: {unlike:,} of {len(items):,} questions are asked again with another "
            "answer: a part of them is "
            f"missing{unused}; `forgetwatch probe build` --column context=COLUMN puts a column of "
            "texts before the question"
        )
    times = Counter((item.task, item.id) for item in items)
    wrong += [
        f"id {id_!r} occurs {n} times in task {task_of!r}"
        for (task_of, id_), n in times.items()
        if n > 1
    ]
    if wrong:
        more = f"; and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
        raise ProbeError(
            f"{where}: {len(wrong):,} of {len(table):,} rows cannot be used: "
            f"{'; '.join(wrong[:_SHOWN])}{more}"
        )
    chat = any(item.system or not isinstance(item.prompt, str) for item in items)
    probe = Probe(
        items,
        name=name,
        scoring=scoring,
        norm=norm,
        rendering=rendering or ("chat" if chat else "plain"),
        decoding=decoding,
        plan=str(reader.plan),
        may_chat=rendering is None and not chat and not all(item.choices for item in items),
    )
    log(f"{where}: {probe.plan}")  # after every error: a refusal is one line
    for item in items[:_EXAMPLES]:
        log(f"  {_example(item)}")
    if never := unanswerable(items):
        log(
            f"{where}: {len(never):,} of {len(items):,} answers are graded as wrong even if an "
            f"output is the answer, such as {str(never[0].answers[0])!r:.60} (id {never[0].id}); a "
            "column `match` says how to grade"
        )
    return probe


def _example(item: Item) -> str:
    question = " ".join(training_text(item.prompt).removesuffix("\nAnswer:").split())
    of = f" (of {len(item.choices)} options)" if item.choices else f" (match {item.match})"
    if len(question) > _LONGEST_SHOWN:
        question = f"{question[: _LONGEST_SHOWN // 2]} ... {question[-_LONGEST_SHOWN // 2 :]}"
    return f"{item.id}: {question!r} -> {' | '.join(item.right_texts)[:_LONGEST_SHOWN]!r}{of}"


def _rows(source: Any, *, within: str | None, header: Sequence[str] | None) -> tuple[Rows, str]:
    if isinstance(source, (str, Path)):
        return question_rows(source, within=within, header=header), str(source)
    rows = [(f"row {number}", row) for number, row in enumerate(source)]
    if bad := [type(row).__name__ for _, row in rows if not isinstance(row, Mapping)]:
        raise ProbeError(
            f"rows: needed one dict a question, got {bad[0]}; of a DatasetDict give one split"
        )
    return rows, "rows"


class _Reader:
    """Reads the rows of a table to items by its plan, of which the reading of the answers is decided here."""

    def __init__(
        self,
        plan: Plan,
        of: Mapping[str, str],
        rows: Sequence[Mapping[str, Any]],
        where: str,
        *,
        space: bool,
        key: Key | None,
    ) -> None:
        self._of, self._rows, self._space, self._where = of, rows, space, where
        self._answers = [_parse_literal(cell) for cell in cells(rows, plan.answer)]
        self._mistakes: list[list[str]] = [[] for _ in rows]
        answered = [at for at, answer in enumerate(self._answers) if is_filled(answer)]
        # True and false are the options of a question that has no others.
        has_none = not plan.options and not plan.wrong and "match" not in of
        given = [self._answers[at] for at in answered] if has_none else []
        self._truths = words_of_truth(given)
        if given and all(isinstance(answer, bool) for answer in given):
            self._truths = ("yes", "no")
        self._plan = plan
        # Decided for the file: one probe has one form.
        texts = [
            question.rstrip()
            for question in cells(rows, plan.question)
            if isinstance(question, str)
        ]
        has_options = bool(plan.options or plan.wrong or self._truths)
        is_bare = has_options and space and plan.question.lower().strip() != "prompt"
        framed = is_bare and 2 * sum(question.endswith("?") for question in texts) >= len(rows)
        cloze = is_bare and all(len(_BLANK.split(question)) == 2 for question in texts)
        self._plan = plan = replace(plan, framed=framed and not cloze, cloze=cloze)
        self._options = [self._row_options(at) for at in range(len(rows))]
        self._reading: KeyReading | None = None
        self._open = OpenAnswers()
        usable = [at for at in answered if self._options[at] is not None]
        try:
            if plan.options:
                reading = read_key(
                    [self._answers[at] for at in usable],
                    [self._options[at] or Options(()) for at in usable],
                    column=plan.answer,
                    key=key,
                )
                right_of = dict(zip(usable, reading.indices, strict=True))
                self._reading = KeyReading(
                    key=reading.key, indices=tuple(right_of.get(at) for at in range(len(rows)))
                )
            elif not plan.wrong and not self._truths and "match" not in of:
                self._refuse_labels()
                open_answers = [_open_answers(row.get(plan.answer), is_json=False) for row in rows]
                texts = [text for answers in open_answers for text in answers]
                self._open = read_open_answers(texts, column=plan.answer)
        except ProbeError as error:
            raise ProbeError(f"{where}: {error}") from error
        key_read = self._reading.key if self._reading else None
        self.plan = replace(plan, key=key_read, open=self._open, truths=self._truths or ())

    def _refuse_labels(self) -> None:
        # Nobody answers a question with a label that the question does not name.
        plan, labels = self._plan, {str(answer) for answer in self._answers if is_filled(answer)}
        is_label = plan.answer.lower().strip() in ("label", "labels", "class", "sentiment") and all(
            label.isalpha() or label in "01234" for label in labels
        )
        if not is_label or not 2 <= 2 * len(labels) <= len(self._rows):
            return
        questions = [
            str(row.get(name)) for row in self._rows for name in (plan.question, *plan.before)
        ]
        words = set(re.findall(r"[^\W\d]+", " ".join(questions).lower()))
        if not {label.lower() for label in labels} & {*words, "yes", "no", "true", "false"}:
            raise ProbeError(
                f"column {plan.answer!r} holds labels ({', '.join(sorted(labels)[:_SHOWN])}) that "
                "no question names, and no model answers with; needed the answer, or a column "
                "`match` with its rule, such as refuses"
            )

    def check_keys(self) -> None:
        """Refuse a table with a second column of keys that says otherwise.

        Raises:
            ProbeError: If there is one.
        """
        named = USUAL_NAMES["answer"]
        for name in (name for name in self.plan.not_used if name.lower().strip() in named):
            unlike = 0
            for at, cell in enumerate(cells(self._rows, name)):
                key = self._reading.indices[at] if self._reading else None
                if key is not None and is_filled(cell):
                    readings = readings_of(cell, self._options[at] or Options(()))
                    unlike += bool(readings) and key not in readings
            if unlike:
                raise ProbeError(
                    f"{self._where}: the column {name!r} disagrees with {self.plan.answer!r} in "
                    f"{unlike:,} rows; `forgetwatch probe build` --column key={name} takes it, else "
                    "remove it"
                )

    def item(self, at: int, *, task: str, category: str) -> tuple[Item | None, list[str]]:
        """Item of a row.

        Returns:
            The item, or None; and what is wrong with the row.
        """
        mistakes = self._mistakes[at]
        prompt = self._prompt(at)
        choices, answer, match = self._answer(at)
        if mistakes:
            return None, mistakes
        if choices and self._plan.cloze:
            prompt, rest = _BLANK.split(prompt)
            prompt = prompt.rstrip()
            choices = tuple(f"{choice.strip()}{rest}" for choice in choices)
        if choices and self._space and isinstance(prompt, str) and not prompt[-1:].isspace():
            choices = tuple(choice if choice[:1].isspace() else f" {choice}" for choice in choices)
        reasoning = self._text(at, "reasoning")
        try:
            item = Item(
                id=self._text(at, "id") or str(at),
                task=self._text(at, "task") or task,
                category=self._text(at, "category") or category,
                prompt=prompt,
                choices=choices,
                answer=answer,
                match=match,
                cluster=self._text(at, "cluster") or None,
                system=self._text(at, "system") or None,
                must_pass=self._text(at, "must_pass").lower() in ("1", "true", "yes"),
                meta={"reasoning": reasoning} if reasoning else {},
            )
        except ProbeError as error:
            return None, [str(error)]
        return item, []

    def _text(self, at: int, part: str) -> str:
        value = self._rows[at].get(self._of[part]) if part in self._of else None
        return str(value).strip() if is_filled(value) else ""

    def _prompt(self, at: int) -> Any:
        # A bare question with options is framed; what belongs before it comes first.
        plan, row = self._plan, self._rows[at]
        value = row.get(plan.question)
        before = [_lines(row[name]) for name in plan.before if is_filled(row.get(name))]
        if mark := _MEDIUM_MARK.search("\n".join([*before, str(value)])):
            self._mistakes[at].append(
                f"column {plan.question!r} has a place for a picture or sound ({mark[0]})"
            )
        if isinstance(value, (list, tuple)) and len(value) == 1 and isinstance(value[0], str):
            value = value[0]
        if isinstance(value, (list, tuple)) and value:
            if isinstance(value[-1], Mapping) and value[-1].get("role") == "assistant":
                self._mistakes[at].append(
                    f"column {plan.question!r} ends with a turn of the assistant; remove it"
                )
            return tuple(value)
        # An instruction may need no input.
        if not isinstance(value, str) or not value.strip():
            if before and plan.before[0].lower().strip() == "instruction":
                return "\n".join(before)
            self._mistakes[at].append(
                f"column {plan.question!r} holds no question ({_short(value)})"
            )
            return value
        if before and value.strip() in before:
            before.remove(value.strip())
        if plan.framed:
            value = f"Question: {value.strip()}\nAnswer:"
        return "\n\n".join([*before, value]) if before else value

    def _row_options(self, at: int) -> Options | None:
        # None for an open question, and where options are wrong.
        plan, row = self._plan, self._rows[at]
        if self._truths:
            return Options(self._truths)
        if plan.wrong:
            wrong_options = [option for name in plan.wrong for option in _listed(row.get(name))]
            return Options(tuple(wrong_options)) if wrong_options else None
        if not plan.options:
            return None
        if len(plan.options) > 1:
            options_given = tuple(
                str(row.get(name)) if is_filled(row.get(name)) else None for name in plan.options
            )
            labels = tuple(map(str.strip, plan.options))
            labels = () if labels == tuple(LETTERS[: len(labels)]) else labels
            if not any(option is not None for option in options_given):
                self._mistakes[at].append(f"columns {', '.join(plan.options)} hold no option")
                return None
            return Options(options_given, labels)
        value = _parse_literal(row.get(plan.options[0]))
        labels = ()
        if isinstance(value, Mapping) and {"text", "label"} <= set(value):
            value, labels = value["text"], tuple(map(str, value["label"] or ()))
        elif isinstance(value, Mapping):
            labels, value = tuple(map(str, value)), list(value.values())
        elif (
            isinstance(value, (list, tuple))
            and value
            and all(isinstance(option, Mapping) for option in value)
        ):
            labels = tuple(
                str(next((option[name] for name in _LABELS if name in option), ""))
                for option in value
            )
            value = [
                next((option[name] for name in _TEXTS if name in option), None) for option in value
            ]
        if not isinstance(value, (list, tuple)) or not value or not all(map(is_filled, value)):
            self._mistakes[at].append(
                f"column {plan.options[0]!r} holds no list of options "
                f"({_short(row.get(plan.options[0]))})"
            )
            return None
        return Options(
            tuple(map(str, value)),
            labels,
            all(isinstance(option, (int, float)) for option in value),
        )

    def _answer(self, at: int) -> tuple[tuple[str, ...], Any, str | None]:
        # The options without blank ones, the answer (indices or texts), and the match of an open
        # one.
        value, plan, options = self._answers[at], self._plan, self._options[at]
        if not is_filled(value):
            self._mistakes[at].append(f"column {plan.answer!r} holds no answer ({_short(value)})")
            return (), None, None
        if options is None and (plan.options or plan.wrong):
            return (), None, None  # what is missing is named already
        if options is None:
            match = self._text(at, "match")
            texts = _open_answers(
                self._rows[at][plan.answer],
                is_json=match.startswith(("json", "tool_call")) or match == "instructions",
            )
            if not texts:
                self._mistakes[at].append(
                    f"column {plan.answer!r} holds an object or a list, not a text "
                    f"({_short(value)})"
                )
                return (), None, None
            if not match:
                texts += (*_listed(self._rows[at].get(self._of.get("aliases", ""))),)
                parts = (part for text in texts for part in self._open.texts(text))
                texts = tuple(dict.fromkeys(parts))
            by_form = {self._open.match(answer_text) for answer_text in texts}
            own = by_form.pop() if len(by_form) == 1 else "contains"
            return (), texts if len(texts) > 1 else texts[0], match or own
        if self._truths:
            is_yes = value is True or bare_answer(str(value)).lower() == self._truths[0]
            return self._truths, int(not is_yes), None
        if plan.wrong:
            texts = (str(value), *(option for option in options.texts if option is not None))
            # The right one has no place of its own: an order by hash is the same on every machine.
            order = sorted(
                range(len(texts)), key=lambda index: hashlib.sha256(texts[index].encode()).digest()
            )
            return tuple(texts[index] for index in order), order.index(0), None
        indices = None if self._reading is None else self._reading.indices[at]
        if indices is None:
            self._mistakes[at].append(
                f"column {plan.answer!r} holds {_short(value)}, which is not one of the "
                f"{len(options.texts)} options, nor their letter (A to Z), nor their index from 0"
            )
            return (), None, None
        kept = [index for index, option in enumerate(options.texts) if option is not None]
        right = [kept.index(index) for index in indices]
        return (
            tuple(options.texts[index] or "" for index in kept),
            right[0] if len(right) == 1 else right,
            None,
        )


_MEDIUM_MARK: Final = re.compile(
    r"<\|?(?:image|img|audio|video|vision_start)(?:[ _]?\d+)?\|?>|\[IMG\]"
    r"|'type': '(?:image|audio|video)\w*'",
    re.IGNORECASE,
)
"""Mark in a prompt where a processor puts a picture or sound."""


_LABELS: Final = ("label", "key", "id", "letter")


_TEXTS: Final = ("text", "content", "value", "option", "answer", "texto")
"""Names of the label and the text of an option that is an object."""


def _listed(cell: Any) -> list[str]:
    value = _parse_literal(cell)
    values = value if isinstance(value, (list, tuple)) else [value]
    return [str(cell) for cell in values if is_filled(cell)]


def _open_answers(value: Any, *, is_json: bool) -> tuple[str, ...]:
    # One text, each of a list, or those within an object; none for other objects. A JSON value is
    # one text, unless it is a list of texts. The object may be a message, ``{"text": [...]}``, or
    # ``{"value": ..., "aliases": [...]}``.
    literal = value if is_json else _parse_literal(value)
    if (
        isinstance(literal, (list, tuple))
        and len(literal) == 1
        and isinstance(literal[0], Mapping)
        and not is_json
    ):
        literal = literal[0]
    if isinstance(literal, Mapping) and not is_json:
        fields = map(literal.get, ("text", "content", "value", "aliases"))
        parts = [
            part
            for field in filter(is_filled, fields)
            for part in (field if isinstance(field, (list, tuple)) else [field])
        ]
        # Parts of a message are objects themselves.
        texts: list[Any] = [
            part.get("text") if isinstance(part, Mapping) else part for part in parts
        ]
        are_texts = all(isinstance(answer_text, str) for answer_text in texts)
        return tuple(dict.fromkeys(texts)) if are_texts else ()
    if isinstance(literal, (list, tuple)) and (
        all(isinstance(element, str) for element in literal)
        or not (is_json or isinstance(value, str))
    ):
        return (
            tuple(map(str, literal))
            if not any(isinstance(element, (Mapping, list, tuple)) for element in literal)
            else ()
        )
    if isinstance(value, str) or not is_json:
        return (str(value),)
    return (json.dumps(value, ensure_ascii=False),)


_BLANK: Final = re.compile(r"(?<!\w)_+(?!\w)")
"""Place of the options in a question."""


_NUMPY: Final = re.compile(r"(?<=[^,\s\[])(['\"])\s+(?=['\"])")
"""Between two texts of an array as numpy prints it."""


def _lines(value: Any) -> str:
    # The texts of a list one below the other.
    if isinstance(value, (list, tuple)):
        return "\n".join(map(_lines, value))
    return str(value).strip()


def _parse_literal(value: Any) -> Any:
    # In JSON or Python; any other value is unchanged.
    if not isinstance(value, str) or value.strip()[:1] not in ("[", "{"):
        return value
    # CSV files written from Python contain lists as `['a', 'b']`, or from numpy without commas.
    value = _NUMPY.sub(r"\1, ", value)
    for read in (json.loads, ast.literal_eval):
        try:
            literal = read(value.strip())
            return (
                literal if isinstance(literal, (list, dict)) else value
            )  # not a set, such as {1, 2}
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return value


def _short(value: Any) -> str:
    # Cut to 40 characters.
    shortened = repr(value)
    return shortened if len(shortened) <= 40 else f"{shortened[:37]}..."
