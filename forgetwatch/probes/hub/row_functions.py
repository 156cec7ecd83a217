r"""Row functions: a row of a data set and its `Source` to a `Question`, one function for each shape of row.

    lettered options    MMLU, its redux, MMLU-Pro, Global-MMLU, CommonsenseQA, SALAD-Bench, MCTest: options are listed
                        in the prompt and the letter is scored; of GPQA and Belebele too, in a layout of their own
    option texts        ARC, HellaSwag, PIQA, Social IQa, TruthfulQA, WinoGrande, MuSR: the option is scored
    BIG-Bench Hard      options are inside the question's text, and their number differs within a task; the choices are
                        those that the text lists: "... What is the date tomorrow?\nOptions:\n(A) 01/02/2020\n(B) ..."
    open answers        GSM8K: the number after ``####``; the text before it holds the worked steps that few-shot
                        prompts show. IFEval: instructions, graded by `grading.ifeval`; an item with an instruction that
                        has no exact check there is unscored, with the reason, and is counted as such

MuSR, MCTest and Belebele ask several questions on one passage. These flip together, so they share a `cluster`.

Rendering: as lm-evaluation-harness 0.4 (tasks/mmlu/default, leaderboard/mmlu_pro, global_mmlu/full, arc,
gpqa/zeroshot, hellaswag, piqa, siqa, commonsense_qa, truthfulqa, bbh/zeroshot, leaderboard/bbh_mc, leaderboard/musr,
belebele, gsm8k, ifeval), with four exceptions. TruthfulQA comes without the six worked
examples that the harness puts before every question. WinoGrande is scored on the option and the rest of the sentence;
the harness scores the rest after each option, but here, as for every item, the options share the prompt. BBH comes
without the line that describes the task, and with the leaderboard's fixed letters only where the text lists none.
SALAD-Bench and MCTest are in no release of the harness and are rendered as MMLU.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from typing import Any, Final

from forgetwatch.probes.categories import paper_category
from forgetwatch.probes.hub.preset import (
    BadRowError,
    Question,
    Row,
    Source,
    cluster_of,
    field_of,
    label_of,
    letters,
    option_index,
    permuted,
    spaced,
    with_letters,
    with_texts,
)

_FOUR: Final = ("(A)", "(B)", "(C)", "(D)")
_BRACKETS: Final = re.compile(r"\[.*?\]")


def mmlu(row: Row, source: Source) -> Question:
    """Return the question of an MMLU row, with the header that the harness puts once before each subject."""
    subject = str(row.get("subject") or source.part)
    question, options = str(field_of(row, "question")).strip(), tuple(map(str, field_of(row, "choices")))
    return replace(
        with_letters(question, options, option_index(row["answer"], len(options))),
        header=f"The following are multiple choice questions (with answers) about {subject.replace('_', ' ')}.\n\n",
        task=source.task if source.part else f"mmlu_{subject}",
    )


def mmlu_redux(row: Row, source: Source) -> Question | None:
    """Return the question of an MMLU-Redux row; None where its reviewers found a fault."""
    if str(row.get("error_type", "")).strip() != "ok":
        return None
    return replace(mmlu(row, source), category=paper_category(f"mmlu_{source.part}"))


def mmlu_pro(row: Row, source: Source) -> Question:
    """Return the question of an MMLU-Pro row: up to ten options; a few rows have a single one."""
    subject = str(field_of(row, "category")).strip()
    question, options = str(field_of(row, "question")), tuple(map(str, field_of(row, "options")))
    steps = str(row.get("cot_content") or "").removeprefix("A: ").removeprefix("Let's think step by step.")
    return replace(
        with_letters(question, options, option_index(row["answer_index"], len(options))),
        task=f"mmlu_pro_{subject.replace(' ', '_')}",
        category=subject,
        key=str(row.get("question_id", "")),
        reasoning=steps.strip(),
    )


def global_mmlu(row: Row, source: Source) -> Question:
    """Return the question of a Global-MMLU row; the language code is its category."""
    question = str(field_of(row, "question")).strip()
    options = tuple(str(field_of(row, f"option_{letter}")) for letter in "abcd")
    return replace(
        with_letters(question, options, label_of(row, "answer", "ABCD")),
        task=f"{source.task}_{field_of(row, 'subject')}",
        category=source.part,
        key=str(row.get("sample_id") or ""),
    )


def csqa(row: Row, source: Source) -> Question:
    """Return the question of a CommonsenseQA row."""
    question = str(field_of(row, "question")).strip()
    return replace(with_letters(question, *_labelled(row), before="Question: "), key=str(row.get("id", "")))


def _labelled(row: Row) -> tuple[tuple[str, ...], int]:
    choices = field_of(row, "choices")
    return tuple(map(str, choices["text"])), label_of(row, "answerKey", choices["label"])


def salad(row: Row, source: Source) -> Question:
    """Return the question of a SALAD-Bench row; several options may be right."""
    question, options = str(field_of(row, "question")).strip(), tuple(map(str, field_of(row, "choices")))
    right = sorted({option_index(answer, len(options)) for answer in field_of(row, "answers")})
    if not right:
        raise BadRowError("needed right answers, and none is marked")
    return with_letters(question, options, right[0] if len(right) == 1 else tuple(right))


def arc(row: Row, source: Source) -> Question:
    """Return the question of an ARC row; its labels are A to E in some rows and 1 to 5 in others."""
    question = str(field_of(row, "question"))
    made = with_texts(f"Question: {question}\nAnswer:", *_labelled(row), question=question)
    return replace(made, key=str(row.get("id", "")))


def gpqa(row: Row, source: Source) -> Question:
    """Return the question of a GPQA row; the right option has a column of its own, so the order is set here."""
    question = str(field_of(row, "Question"))
    fields = ("Correct Answer", *(f"Incorrect Answer {number}" for number in (1, 2, 3)))
    texts = [str(field_of(row, field)).strip() for field in fields]
    given = [text.replace(" [title]", ". ").replace("  ", " ") for text in texts]
    options, gold = permuted(given, 0, key=question)
    lines = "".join(f"\n{name} {option}" for name, option in zip(_FOUR, options, strict=True))
    return Question(
        prompt=f"What is the correct answer to this question:{question}\nChoices:{lines}\nAnswer:",
        choices=spaced(_FOUR),
        answer=gold,
        question=question,
        options=options,
        key=str(row.get("Record ID") or ""),
    )


def hellaswag(row: Row, source: Source) -> Question:
    """Return the question of a HellaSwag row: the beginning of a description and four ends."""
    context = f"{field_of(row, 'activity_label')}: {field_of(row, 'ctx_a')} {str(row.get('ctx_b') or '').capitalize()}"
    options = tuple(_without_markup(str(end)) for end in field_of(row, "endings"))
    return with_texts(_without_markup(context), options, label_of(row, "label", range(len(options))))


def _without_markup(text: str) -> str:
    return _BRACKETS.sub("", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def piqa(row: Row, source: Source) -> Question:
    """Return the question of a PIQA row: a goal and two ways to reach it."""
    goal, options = str(field_of(row, "goal")), (str(field_of(row, "sol1")), str(field_of(row, "sol2")))
    return with_texts(f"Question: {goal}\nAnswer:", options, label_of(row, "label", (0, 1)), question=goal)


def siqa(row: Row, source: Source) -> Question:
    """Return the question of a Social IQa row."""
    situation = f"{field_of(row, 'context')} {field_of(row, 'question')}"
    options = tuple(str(field_of(row, f"answer{letter}")) for letter in "ABC")
    return with_texts(f"Q: {situation}\nA:", options, label_of(row, "label", (1, 2, 3)), question=situation)


def truthfulqa(row: Row, source: Source) -> Question:
    """Return the question of a TruthfulQA row with one true answer.

    The true answer comes first in every row, so that a model that prefers the first option would look truthful.
    """
    question, targets = str(field_of(row, "question")), field_of(row, "mc1_targets")
    marks: list[Any] = list(targets["labels"])
    if marks.count(1) != 1:
        raise BadRowError(f"needed one right option in mc1_targets, and {marks.count(1)} are marked")
    options, gold = permuted([str(option) for option in targets["choices"]], marks.index(1), key=question)
    return with_texts(f"Q: {question}\nA:", options, gold, question=question)


def winogrande(row: Row, source: Source) -> Question:
    """Return the question of a WinoGrande row: a sentence with a gap, and two words for it."""
    sentence = str(field_of(row, "sentence"))
    before, gap, after = sentence.partition("_")
    if not gap:
        raise BadRowError("needed a gap (_) in the sentence, and there is none")
    options = (str(field_of(row, "option1")), str(field_of(row, "option2")))
    return Question(
        prompt=before.rstrip(),
        choices=tuple(f" {option}{after}" for option in options),
        answer=label_of(row, "answer", (1, 2)),
        question=f"Which option fits the gap?\n{sentence}",
        options=options,
        category="Common Sense",
    )


BBH_LISTED: Final = (
    *("date_understanding", "disambiguation_qa", "geometric_shapes", "hyperbaton", "logical_deduction_five_objects"),
    *("logical_deduction_seven_objects", "logical_deduction_three_objects", "movie_recommendation"),
    *("penguins_in_a_table", "reasoning_about_colored_objects", "ruin_names", "salient_translation_error_detection"),
    *("snarks", "temporal_sequences", "tracking_shuffled_objects_five_objects"),
    *("tracking_shuffled_objects_seven_objects", "tracking_shuffled_objects_three_objects"),
)
"""BBH tasks whose options are listed as (A), (B), ... in the input."""

BBH_WORDS: Final = {
    "boolean_expressions": ("False", "True"),
    "causal_judgement": ("Yes", "No"),
    "formal_fallacies": ("valid", "invalid"),
    "navigate": ("Yes", "No"),
    "object_counting": tuple(map(str, range(19))),
    "sports_understanding": ("yes", "no"),
    "web_of_lies": ("Yes", "No"),
}
"""BBH tasks whose answers are words, and the words."""

_OPTIONS: Final = re.compile(r"\n\s*Options:\s*\n")
_OPTION: Final = re.compile(r"^\s*\(([A-Z])\)\s*(.*\S)", re.MULTILINE)
_LONGEST_LIST: Final = 10_000
"""Maximum length, in characters, of a text that is parsed as a list of options."""

_NUMBER: Final = "\nThink step by step. End with one line of the form 'Answer: N', N being the number."


def bbh(row: Row, source: Source) -> Question:
    """Return the question of a BBH row; the source's part is its task."""
    text, target = str(field_of(row, "input")), str(field_of(row, "target")).strip()
    prompt = f"Q: {text}\nA:"
    question, *rest = _OPTIONS.split(text)
    if source.part in BBH_WORDS:
        words = BBH_WORDS[source.part]
        gold = _target_index(target, words)
        return Question(prompt=prompt, choices=spaced(words), answer=gold, question=question, options=words)
    found = _OPTION.findall(rest[-1]) if rest else []
    names, options = tuple(f"({letter})" for letter, _ in found), tuple(option for _, option in found)
    if len(names) < 2:
        raise BadRowError("needed options (A), (B), ... in its input, and there are none")
    # A few targets are the option's text in place of its letter.
    gold = options.index(target) if target in options else _target_index(target, names)
    return Question(prompt=prompt, choices=spaced(names), answer=gold, question=question, options=options)


def _target_index(target: str, options: tuple[str, ...]) -> int:
    if target not in options:
        raise BadRowError(f"needed one of its {len(options)} options as target, and it is {target!r}")
    return options.index(target)


def musr(row: Row, source: Source) -> Question:
    """Return the question of a MuSR row: a long story and several steps of reasoning."""
    story, question = str(field_of(row, "narrative")), str(field_of(row, "question"))
    options = _musr_options(row)
    lines = "".join(f"{number} - {option}\n" for number, option in enumerate(options, start=1))
    gold = label_of(row, "answer_index", range(len(options)))
    return Question(
        prompt=f"{story}\n\n{question}\n\n{lines}\nAnswer:",
        choices=spaced(options),
        answer=gold,
        question=f"{story}\n\n{question}",
        options=options,
        cluster=cluster_of(story),
    )


def _musr_options(row: Row) -> tuple[str, ...]:
    """Return the options: a list, or the text of a Python list; under `choices` or, in some copies, `options`."""
    given: Any = row.get("choices") or row.get("options")
    if isinstance(given, str) and len(given) <= _LONGEST_LIST:
        try:
            given = ast.literal_eval(given)
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise BadRowError(f"needed a list of options, and it is {given[:80]!r}") from error
    if not isinstance(given, (list, tuple)) or not given:
        raise BadRowError(f"needed a list of options, and it is {str(given)[:80]!r}")
    return tuple(map(str, given))


def mctest(row: Row, source: Source) -> Question:
    """Return the question of an MCTest row: a story for children."""
    story, question = str(field_of(row, "story")).replace("\\newline", "\n"), str(field_of(row, "question"))
    listing = field_of(row, "answer_options")
    options = tuple(str(listing[letter]) for letter in "ABCD")
    made = with_letters(f"{story}\n\n{question}", options, label_of(row, "answer", "ABCD"))
    return replace(made, cluster=cluster_of(story))


def belebele(row: Row, source: Source) -> Question:
    """Return the question of a Belebele row; the language code is its category."""
    passage, question = str(field_of(row, "flores_passage")), str(field_of(row, "question")).strip()
    options = tuple(str(field_of(row, f"mc_answer{number}")) for number in (1, 2, 3, 4))
    lines = "".join(f"\n{letter}: {option}" for letter, option in zip("ABCD", options, strict=True))
    return Question(
        prompt=f"P: {passage}\nQ: {question}{lines}\nAnswer:",
        choices=letters(4),
        answer=label_of(row, "correct_answer_num", (1, 2, 3, 4)),
        question=f"{passage}\n\n{question}",
        options=options,
        category=source.part,
        cluster=cluster_of(passage),
    )


def gsm8k(row: Row, source: Source) -> Question:
    """Open question of a GSM8K row, graded by its number."""
    question, answer = str(field_of(row, "question")), str(field_of(row, "answer"))
    _, mark, number = answer.rpartition("####")
    if not mark or not number.strip():
        raise BadRowError("needed a number after '####' in its answer, and there is none")
    return Question(
        prompt=f"Question: {question}\nAnswer:",
        answer=number.strip(),
        match="number",
        question=question + _NUMBER,
        category="Math",
        worked=answer,
    )


def ifeval(row: Row, source: Source) -> Question:
    """Open question of an IFEval row; its answer is the list of instructions with their arguments, as JSON."""
    prompt, names = str(field_of(row, "prompt")), list(field_of(row, "instruction_id_list"))
    values: list[Any] = list(field_of(row, "kwargs"))
    if len(names) != len(values):
        raise BadRowError(f"needed one kwargs for each instruction, and there are {len(values)} for {len(names)}")
    # The table fills every argument of every instruction; those that are not the row's own are null.
    instructions = [
        [name, {key: value for key, value in (given or {}).items() if value}]
        for name, given in zip(names, values, strict=True)
    ]
    return Question(
        prompt=prompt,
        answer=json.dumps(instructions, ensure_ascii=False, sort_keys=True),
        match="instructions",
        question=prompt,
        key=str(row.get("key", "")),
    )
