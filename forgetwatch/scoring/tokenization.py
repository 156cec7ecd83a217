"""Token ids of texts that have their beginnings in common, each beginning tokenized once.

    known text    .................................... A tail of the context         ids known
    new text      .................................... A tail of the context, and a continuation
                                                      └ cut: white space, both tails are tokenized alone

    ids of the new text = ids of the known text up to the tail + ids of the new tail

A tokenizer may read the tail alone otherwise than within its text: a space is put before it, a token spans the cut. So
the ids are joined only where the ids of the known tail, after the first few, are those at the end of the known text,
and where the next `_ANCHORS` of them also begin the new tail. For BPE this is exact: ids are those of a text if every
two neighbours are those of their own text, and each pair of neighbours in the joined ids is in the ids of one of the
texts that were tokenized. For tokenizers that read words one by one it is exact because a word never spans a cut at
white space. Everything else is tokenized whole, and so are all texts of a call if a sample of the joined ids is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Ids = tuple[int, ...]

_TAIL: Final = 96
"""Characters of a known text that are tokenized again at least, for white space and `_ANCHORS` in any script."""

_ANCHORS: Final = 6
"""Tokens after the cut that have to be the same in all tails."""

_BEGINNING: Final = 256
"""Characters by which texts with a common beginning are found; a shorter beginning is not worth it."""

_CHECKED: Final = 4
"""Contexts, and whole texts, of a call that are also tokenized whole."""


def tokenize(texts: Sequence[str], tokenizer: Any) -> list[Ids]:
    """Token ids of each text by itself, without special tokens."""
    if not texts:
        return []
    # Masks of every token take longer than the ids.
    without = {"add_special_tokens": False, "return_attention_mask": False, "return_token_type_ids": False}
    return [tuple(ids) for ids in tokenizer(list(texts), **without, verbose=False)["input_ids"]]


def tokenize_continued(texts: Sequence[tuple[str, Sequence[str]]], tokenizer: Any) -> list[tuple[Ids, list[Ids]]]:
    """Token ids of contexts, and those that a whole text has after as many ids as its context has alone.

    Args:
        texts: Each context with the texts that are appended to it; some hundreds at a time, because calls are slow and
            a tokenizer returns much more than ids.
        tokenizer: A transformers tokenizer; it is only called.
    """
    contexts = _joins_of_contexts(dict.fromkeys(context for context, _ in texts))
    cuts = {context: _cut(context) for context in contexts}
    wholes = {
        context + text: _Join(context, context + text, cuts[context]) for context, added in texts for text in added
    }
    # Spread over the texts; both the contexts and their continuations.
    checked = [
        *list(contexts)[:: -(-len(contexts) // _CHECKED) or 1],
        *list(wholes)[:: -(-len(wholes) // _CHECKED) or 1],
    ]
    joins = [*contexts.values(), *wholes.values()]
    wanted = list(dict.fromkeys([*checked, *(text for join in joins for text in join.tails)]))
    alone = dict(zip(wanted, tokenize(wanted, tokenizer), strict=True))
    ids = _joined(contexts, alone, alone, tokenizer)
    # The ids of the contexts are the known ones of their continuations.
    ids |= _joined(wholes, ids, alone, tokenizer)
    if any(ids[text] != alone[text] for text in checked):
        all_texts = [*contexts, *wholes]
        ids = dict(zip(all_texts, tokenize(all_texts, tokenizer), strict=True))
    return [(ids[context], [ids[context + text][len(ids[context]) :] for text in added]) for context, added in texts]


@dataclass(frozen=True)
class _Join:
    """A text to be tokenized from a known one that has its beginning in common with it.

    Attributes:
        known: The known text.
        text: The text.
        cut: Index of the white space at which both tails begin; 0 to tokenize the text whole.
    """

    known: str
    text: str
    cut: int

    @property
    def tails(self) -> tuple[str, ...]:
        """The texts that have to be tokenized."""
        return (self.known[self.cut :], self.text[self.cut :]) if self.cut else (self.text,)


def _joins_of_contexts(contexts: Iterable[str]) -> dict[str, _Join]:
    """Each context from the first one that begins like it; that one is tokenized whole."""
    first: dict[str, str] = {}
    joins = {}
    for context in contexts:
        known = first.setdefault(context[:_BEGINNING], context)
        common = _common_beginning(known, context) if known is not context else 0
        # Tails longer than the common beginning cost more than they save.
        cut = _cut(context[:common]) if 2 * common > max(len(context), _BEGINNING) else 0
        joins[context] = _Join(known, context, cut)
    return joins


def _cut(text: str) -> int:
    """Index of the last white space before a word that is at least `_TAIL` characters before the end; 0 if none."""
    index = len(text) - _TAIL
    while index > 0 and not (text[index].isspace() and not text[index + 1].isspace()):
        index -= 1
    return max(index, 0)


def _joined(
    joins: Mapping[str, _Join], known: Mapping[str, Ids], alone: Mapping[str, Ids], tokenizer: Any
) -> dict[str, Ids]:
    """Ids of each text, from the ids of the known texts and those of texts that were tokenized alone."""
    ids: dict[str, Ids] = {}
    skipped: dict[tuple[str, int], int] = {}
    for text, join in joins.items():
        if not join.cut:
            ids[text] = alone[text]
            continue
        before, tail, whole = alone[join.known[join.cut :]], alone[text[join.cut :]], known[join.known]
        if (join.known, join.cut) not in skipped:
            skipped[join.known, join.cut] = len(before) - _common_ending(whole, before)
        first = skipped[join.known, join.cut]
        anchors = before[first : first + _ANCHORS]
        if len(anchors) == _ANCHORS and tail[: first + _ANCHORS] == before[: first + _ANCHORS]:
            ids[text] = whole[: len(whole) - len(before) + first] + tail[first:]
    missing = [text for text in joins if text not in ids]
    return ids | dict(zip(missing, tokenize(missing, tokenizer), strict=True))


def _common_beginning(one: str, other: str) -> int:
    """Number of characters at the beginning that two texts have in common."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # slices are compared fast, characters in Python are not
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _common_ending(one: Ids, other: Ids) -> int:
    """Number of ids at the end that two rows have in common."""
    count, most = 0, min(len(one), len(other))
    while count < most and one[-1 - count] == other[-1 - count]:
        count += 1
    return count
