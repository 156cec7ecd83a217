"""The instructions of IFEval that have an exact check: does an output follow all of them?

    answer    [["length_constraints:number_words", {"relation": "at least", "num_words": 300}],
               ["punctuation:no_comma", {}]]
    right     every instruction is followed (the strict, prompt-level score)

Instructions that need another package's language detector, sentence splitter or word tokenizer are
left out (`UNCHECKED`): the result would depend on its version. An item with one of these is
unscored, and no answer to it is generated. Definitions: Zhou et al. 2023, arXiv 2311.07911, and its
code at github.com/google-research/google-research, instruction_following_eval. One check differs on
purpose: a keyword is searched as text, never run as a pattern.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from forgetwatch.grading.output_text import NOTHING, Extracted

Values = Mapping[str, Any]


UNCHECKED: Final = {
    "language:response_language": "a language detector",
    "change_case:english_capital": "a language detector",
    "change_case:english_lowercase": "a language detector",
    "change_case:capital_word_frequency": "a word tokenizer",
    "length_constraints:number_sentences": "a sentence splitter",
}
"""Instructions without an exact check, and what a check would need."""


# The answers that "constrained_response" allows, and the fences that "json_format" removes.
_RESPONSES: Final = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


_FENCES: Final = ("```json", "```Json", "```JSON", "```")


def is_instruction_list(answer: str) -> bool:
    """Is an answer a list of instructions: names with values?"""
    try:
        pairs = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list) and len(pair) == 2 for pair in pairs
    ):
        return False
    return bool(pairs) and all(
        isinstance(name, str) and isinstance(values, dict) for name, values in pairs
    )


def unchecked_reason(answer: str) -> str:
    """Reason why the instructions of an item cannot be checked.

    Returns:
        The reason, or an empty text if they can be checked.
    """
    for name, values in json.loads(answer):
        if name in UNCHECKED:
            return f"{name} needs {UNCHECKED[name]}"
        if name not in _CHECKS:
            return f"{name} is not known"
        if missing := [key for key in _CHECKS[name][1] if values.get(key) is None]:
            return f"{name} comes without {missing[0]}"
    return ""


def match_instructions(body: str, answer: str) -> tuple[Extracted, bool]:
    """Check whether an output follows all instructions.

    Returns:
        The output, and the result; an empty output follows none.
    """
    if not body.strip():
        return NOTHING, False
    followed = all(_CHECKS[name][0](body, values) for name, values in json.loads(answer))
    return Extracted(text=body.strip(), form=True), followed


def _enough(count: int, values: Values, name: str, relation: str = "relation") -> bool:
    wanted = int(values[name])
    return count < wanted if values[relation] == "less than" else count >= wanted


def _times(text: str, keyword: str) -> int:
    return len(re.findall(re.escape(keyword), text, re.IGNORECASE))


def _forbidden(text: str, values: Values) -> bool:
    return not any(
        re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)
        for word in values["forbidden_words"]
    )


def _letters_of(text: str, values: Values) -> bool:
    count = text.lower().count(str(values["letter"]).lower())
    return _enough(count, values, "let_frequency", "let_relation")


def _paragraphs(text: str, values: Values) -> bool:
    # Paragraphs are between marks of three asterisks; only the first and the last may be empty.
    parts = [bool(paragraph.strip()) for paragraph in re.split(r"\s?\*\*\*\s?", text)]
    return all(parts[1:-1]) and sum(parts) == int(values["num_paragraphs"])


def _first_word(text: str, values: Values) -> bool:
    # Paragraphs are between empty lines; the first word is that of the n-th.
    parts = text.split("\n\n")
    count, number = sum(1 for paragraph in parts if paragraph.strip()), int(values["nth_paragraph"])
    # As the paper's code does: empty parts are not counted, but the n-th part is taken among all.
    if number > count or not parts[number - 1].strip():
        return False
    word = parts[number - 1].split()[0].lstrip("'").lstrip('"')
    word = re.split(r"""[.,?!'"]""", word, maxsplit=1)[0].lower()
    return count == int(values["num_paragraphs"]) and word == str(values["first_word"]).lower()


def _postscript(text: str, values: Values) -> bool:
    marker = str(values["postscript_marker"])
    patterns = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    return re.search(patterns.get(marker, re.escape(marker.lower())), text.lower()) is not None


def _bullets(text: str, values: Values) -> bool:
    # The white space stays in one line: over several it would be searched again from each of them.
    marked = re.findall(r"^[^\S\n]*\*[^\*].*$", text, re.MULTILINE) + re.findall(
        r"^[^\S\n]*-", text, re.MULTILINE
    )
    return len(marked) == int(values["num_bullets"])


def _highlights(text: str, values: Values) -> bool:
    # In "**text**" the pattern of single asterisks finds two empty pairs, which do not count.
    single = re.findall(r"\*[^\n\*]*\*", text)
    double = re.findall(r"\*\*[^\n\*]*\*\*", text)
    count = sum(bool(span.strip("*").strip()) for span in single)
    count += sum(bool(span.removeprefix("**").removesuffix("**").strip()) for span in double)
    return count >= int(values["num_highlights"])


def _sections(text: str, values: Values) -> bool:
    spliter = re.escape(str(values["section_spliter"]).strip())
    return len(re.split(rf"\s?{spliter}\s?\d+\s?", text)) - 1 >= int(values["num_sections"])


def _is_json(text: str, values: Values) -> bool:
    text = text.strip()
    for fence in _FENCES:
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def _title(text: str, values: Values) -> bool:
    for line in text.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if 0 <= start < end - 2 and line[start:end].lstrip("<").rstrip(">").strip():
            return True
    return False


def _placeholders(text: str, values: Values) -> bool:
    count = 0
    for line in text.split("\n"):
        # Not by a pattern: it would search the rest of a line from each bracket that is never
        # closed.
        start = line.find("[")
        while start >= 0 and (end := line.find("]", start)) >= 0:
            count += 1
            start = line.find("[", end)
    return count >= int(values["num_placeholders"])


def _two_responses(text: str, values: Values) -> bool:
    parts = text.split("******")
    responses = [part.strip() for part in parts if part.strip()]
    return (
        all(part.strip() for part in parts[1:-1])
        and len(responses) == 2
        and responses[0] != responses[1]
    )


def _ends(text: str, values: Values) -> bool:
    return text.strip().strip('"').lower().endswith(str(values["end_phrase"]).strip().lower())


def _quoted(text: str, values: Values) -> bool:
    text = text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


_CHECKS: Final[Mapping[str, tuple[Callable[[str, Values], bool], tuple[str, ...]]]] = {
    "keywords:existence": (
        lambda text, values: all(_times(text, word) for word in values["keywords"]),
        ("keywords",),
    ),
    "keywords:frequency": (
        lambda text, values: _enough(_times(text, values["keyword"]), values, "frequency"),
        ("keyword", "frequency", "relation"),
    ),
    "keywords:forbidden_words": (_forbidden, ("forbidden_words",)),
    "keywords:letter_frequency": (_letters_of, ("letter", "let_frequency", "let_relation")),
    "length_constraints:number_paragraphs": (_paragraphs, ("num_paragraphs",)),
    "length_constraints:number_words": (
        lambda text, values: _enough(len(re.findall(r"\w+", text)), values, "num_words"),
        ("num_words", "relation"),
    ),
    "length_constraints:nth_paragraph_first_word": (
        _first_word,
        ("num_paragraphs", "nth_paragraph", "first_word"),
    ),
    "detectable_content:number_placeholders": (_placeholders, ("num_placeholders",)),
    "detectable_content:postscript": (_postscript, ("postscript_marker",)),
    "detectable_format:number_bullet_lists": (_bullets, ("num_bullets",)),
    "detectable_format:constrained_response": (
        lambda text, values: any(response in text for response in _RESPONSES),
        (),
    ),
    "detectable_format:number_highlighted_sections": (_highlights, ("num_highlights",)),
    "detectable_format:multiple_sections": (_sections, ("num_sections", "section_spliter")),
    "detectable_format:json_format": (_is_json, ()),
    "detectable_format:title": (_title, ()),
    "combination:two_responses": (_two_responses, ()),
    "combination:repeat_prompt": (
        lambda text, values: (
            text.strip().lower().startswith(str(values["prompt_to_repeat"]).strip().lower())
        ),
        ("prompt_to_repeat",),
    ),
    "startend:end_checker": (_ends, ("end_phrase",)),
    "startend:quotation": (_quoted, ()),
    "punctuation:no_comma": (lambda text, values: "," not in text, ()),
}
"""Of each instruction its check, (output, values) to True if it is followed, and the values that it needs."""
