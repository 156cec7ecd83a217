"""Language of a text, one of eight: by its script, and for Latin letters by their function words.

    Кошка спит.                   ru    Cyrillic, and no letter that Russian lacks
    猫在睡觉。                      zh    Chinese characters, and no kana next to them
    القطة نائمة.                   ar    Arabic, and no letter that Arabic lacks
    Die Katze schläft auf dem ...  de    "die", "auf", "dem" are function words of German

Function words (the, und, della) are a third of any running text, and languages share few of them;
the Romance languages share more, so that a dozen of their commonest nouns and verbs are added.
Portuguese and Dutch are known too, so that neither is taken for Spanish or German. A text that is
too short, or in two languages, has none. A model that only repeats its prompt does not answer in a
language: `without_echo` takes the prompt's text out. The package's own detector keeps a grade
independent of the version of another one.
"""

import re
from bisect import bisect_left
from collections import Counter
from itertools import pairwise
from typing import Final

LANGUAGES: Final = ("en", "de", "fr", "es", "it", "ru", "zh", "ar")


_SMALL: Final = {
    "en": "the a an of and to in is are was were that this it its for with as on by from you your have has had not "
    "be been they their there what which when where who how can will would should at or if but "
    "than then so also more most he she her his him we our us i my me one some any all every no "
    "into over out up about because",
    "de": "der die das und ist sind war nicht ein eine einen einem einer eines in mit auf für von zu zum zur den "
    "dem des im am um es sie er wir ich du auch als wie bei nach aus oder aber wenn man wird "
    "werden kann hat haben sich dass noch nur durch so uns mir mich ihr ihre ihrem sein seine "
    "weil diese dieser dieses mehr alle über unter",
    "fr": "le la les des du de un une et a est sont était dans pour que qui avec sur par pas ne ce cette ces il "
    "elle ils nous vous je tu on au aux plus ou mais comme être avoir sa son ses leur leurs se en "
    "à y où car très aussi si c l d j qu n s m mon ma mes ton ta tes tous tout toute lui parce "
    "quand jour nuit temps vie ans maison eau semaine manière partie gens bien peut fait",
    "es": "el la los las de del un una unos unas y a es son era en con por para que no se lo su sus al más como "
    "pero o este esta está están hay ser muy también cuando yo tú él ella nos mi mis me te si "
    "porque sobre entre desde hasta donde todo todos ya había estaba fue le les esa ese eso esos "
    "esas tan tiene hace así dos cada otro otra ni gusta día noche tiempo vida años casa agua "
    "semana manera parte gente bien mejor puede",
    "it": "il lo la gli i le di del della dei delle degli dello un una uno e a è sono era in con per che non si al "
    "alla alle da dal dalla nel nella su sul sulla come ma o più questo questa anche molto io tu "
    "lui lei noi mi ci ho ha hanno se l perché quando già stato suo sua suoi ogni dopo prima così "
    "fare due altro altra tra mai sempre giorno notte tempo vita anni casa acqua settimana modo "
    "parte gente bene può",
    "pt": "o a os as da das do dos de um uma e é são em no na nos nas com por para que não se ao à mais como mas ou "
    "este esta isso ele ela eles você eu muito também quando foi ser está pelo pela seu sua às "
    "meu minha já dia noite tempo vida anos casa água semana maneira parte gente bem pode",
    "nl": "de het een en in is zijn was van op met voor dat die niet aan te er ook als maar om bij naar uit door je "
    "ik hij zij we wij deze dit kan worden wordt heeft hebben nog wel",
}


_LETTERS: Final = {"de": "äöüß", "fr": "çêœûîè", "es": "ñ¿¡íóú", "it": "òì", "pt": "ãõâô"}
"""Letters that few of the other languages have; each counts like a function word of two languages."""


_WORDS: Final = {name: frozenset(words.split()) for name, words in _SMALL.items()}


_SHARED: Final = Counter(word for words in _WORDS.values() for word in words)


_LATIN: Final = re.compile(r"[A-Za-zÀ-ɏḀ-ỿ]+")


_CONTRACTED: Final = re.compile(r"(?<=[a-z])['’](?:m|re|ve|ll|d|t|s)\b")
"""Endings of English contractions."""


_SCRIPTS: Final = {
    "latin": _LATIN,
    "ru": re.compile(r"[Ѐ-ӿ]+"),
    "zh": re.compile(r"[㐀-䶿一-鿿豈-﫿]+"),
    "ar": re.compile(r"[؀-ۿݐ-ݿ]+"),
    "other": re.compile(r"[Ͱ-Ͽ԰-׿܀-ݏऀ-῿぀-ヿㄱ-ㆎ가-힯]+"),
}


_FOREIGN: Final = {
    "ru": re.compile(r"[іїєґўјљњћђѓќѝәғқңөұүһІЇЄҐЎ]"),
    "ar": re.compile(r"[پچژگکیٹڈڑںےہۓە]"),
}
"""Letters of other languages in the same script."""


_WEIGHT: Final = {"zh": 3, "other": 2}
"""Letters that one character of a script counts for: it holds more text."""


_MOST_OTHER: Final = 4_000
"""Characters that are looked at."""


_LEAD: Final = 1.25
"""Points of the first language over those of the second; less is undecided."""


_SHARE_OTHER: Final = 0.6
"""Share of the text in the main script; less is a mixture."""


_LEAST: Final = 0.05
"""Share of function words in all words; less is a list of names."""


def language(body: str) -> str | None:
    """Language of a text, one of `LANGUAGES`.

    >>> language("Die Katze schläft auf dem warmen Ofen.")
    'de'

    Returns:
        The language, or None if it is another or undecided.
    """
    beginning = body[:_MOST_OTHER]
    sizes = {
        name: _WEIGHT.get(name, 1) * sum(map(len, pattern.findall(beginning)))
        for name, pattern in _SCRIPTS.items()
    }
    script = max(sizes, key=lambda name: sizes[name])
    if not sizes[script] or sizes[script] < _SHARE_OTHER * sum(sizes.values()) or script == "other":
        return None
    if script == "latin":
        return _latin(beginning.lower())
    # One letter in fifty that the language lacks: Ukrainian or Persian, and not a name within
    # Russian or Arabic.
    if script in _FOREIGN and len(_FOREIGN[script].findall(beginning)) * 50 > sizes[script]:
        return None
    # Kana or Hangul ("other") with Chinese characters is Japanese or Korean.
    return script if script != "zh" or not sizes["other"] else None


_TOKEN: Final = re.compile(r"[㐀-䶿一-鿿豈-﫿]|\d+|[^\W\d_㐀-䶿一-鿿豈-﫿]+")
"""A word, a number, or one Chinese character."""


_RUN: Final = 3
"""Words or Chinese characters in the prompt's order that are a copy within a longer sentence."""


_NEW: Final = 20
"""Letters of different words outside the copied runs that are enough to show a language by themselves."""


_NO_ANSWER: Final = 10
"""Letters next to the repeated prompt below which the text is still an echo: "Ok.", "P.S."."""


_STOP: Final = re.compile(r"[.!?,:;。！？，：；؟،\n]+")
"""End of a clause, the least that can be repeated alone."""


def without_echo(body: str, prompt: str) -> str:
    """Remove what a text copies from the prompt.

    A copy is a run of the prompt's words in their order: a sentence of the prompt, or a clause of
    the text that such runs make up (one of any length, or several of three words or Chinese
    characters each). The prompt's words in another order, or with a word or number of the text's
    own between them, are an answer. Where 20 letters of different words are outside of all runs,
    these alone are returned. Where fewer are, and a clause is a copy, the text is an echo if most
    of its letters are in runs. A short word next to the repeated prompt is an echo too.

    >>> without_echo("Warum ist das Meer salzig? Warum? Warum?", "Warum ist das Meer salzig?")
    ''
    >>> without_echo("Das Meer ist salzig.", "Warum ist das Meer salzig?")
    'Das Meer ist salzig.'

    Returns:
        The rest; empty if little else is left.
    """
    remaining = body[:_MOST_OTHER]
    tokens = list(_TOKEN.finditer(remaining))
    words, prompt_words = (
        [word.casefold() for word in _TOKEN.findall(source)] for source in (remaining, prompt)
    )
    repeated = {
        index
        for sentence in _clauses(prompt)
        if len(sentence) >= _RUN
        for start in _occurrences(prompt_words[sentence.start : sentence.stop], words)
        for index in range(start, start + len(sentence))
    }
    clauses = [rows for rows in _clauses(remaining) if not repeated.issuperset(rows)]
    # A clause that is one run of the prompt's words, or several of at least `_RUN`.
    fragments = [
        rows
        for rows in clauses
        if _occurrences(clause := words[rows.start : rows.stop], prompt_words)
        or len(_in_runs(clause, prompt_words)) == len(clause)
    ]
    left = [index for index in range(len(words)) if index not in repeated]
    rest = sorted(
        set(left) - _in_runs(words, prompt_words) - {row for rows in fragments for row in rows}
    )
    if sum(map(_letters, {words[index] for index in rest})) >= _NEW:
        left = rest
    elif (repeated and _size(words, left) < _NO_ANSWER) or (
        fragments and 2 * _size(words, rest) < _size(words, left)
    ):
        return ""
    for index in sorted(set(range(len(words))).difference(left), reverse=True):
        remaining = remaining[: tokens[index].start()] + remaining[tokens[index].end() :]
    return remaining


def _clauses(text: str) -> list[range]:
    starts = [word.start() for word in _TOKEN.finditer(text)]
    cuts = [0, *(bisect_left(starts, stop.start()) for stop in _STOP.finditer(text)), len(starts)]
    return [range(start, stop) for start, stop in pairwise(cuts) if start < stop]


def _in_runs(words: list[str], prompt_words: list[str]) -> set[int]:
    runs = {
        tuple(prompt_words[start : start + _RUN]) for start in range(len(prompt_words) - _RUN + 1)
    }
    starts = [
        start
        for start in range(len(words) - _RUN + 1)
        if tuple(words[start : start + _RUN]) in runs
    ]
    return {index for start in starts for index in range(start, start + _RUN)}


def _occurrences(run: list[str], words: list[str]) -> list[int]:
    size = len(run)
    return [start for start in range(len(words) - size + 1) if words[start : start + size] == run]


def _size(words: list[str], rows: list[int]) -> int:
    return sum(_letters(words[row]) for row in rows)


def _letters(word: str) -> int:
    # A Chinese character counts for three letters.
    return _WEIGHT["zh"] if _SCRIPTS["zh"].match(word) else len(word)


def _latin(text: str) -> str | None:
    # A word that n languages share counts 1/n for each.
    # "I'm" and "it's" are English; alone, their m and s are French, which shortens words before the
    # apostrophe.
    text, contracted = _CONTRACTED.subn(" ", text)
    words = _LATIN.findall(text)
    points = dict.fromkeys(_WORDS, 0.0)
    points["en"] += contracted
    for word, count in Counter(words).items():
        for name in (name for name, small in _WORDS.items() if word in small):
            points[name] += count / _SHARED[word]
    for name, letters in _LETTERS.items():
        points[name] += sum(map(text.count, letters)) / 2
    second, best = sorted(points.values())[-2:]
    name = max(points, key=lambda language_name: points[language_name])
    return (
        name
        if name in LANGUAGES and best >= _LEAD * second and best >= _LEAST * len(words) > 0
        else None
    )
