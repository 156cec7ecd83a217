"""The items of a probe whose answers the model writes: prompts in, rows of a snapshot out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from forgetwatch.decoding import Decoding
from forgetwatch.errors import ProbeError
from forgetwatch.extraction import check_item, judge
from forgetwatch.extraction.thinking import opened_by
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.scoring.encoding import Encoded, encode_written
from forgetwatch.scoring.writing import Writer, Written

AGAIN: Final = 10_000
"""Between the seeds of a first measurement and those of a second."""
_TAIL: Final = 12
"""Tokens at the end of a prompt within which it may open a thinking block."""


class WrittenItems:
    """Asks the same items again and again, always with the same prompts and seeds.

    Args:
        probe: How they are asked.
        places: Which items of the probe they are.
        tokenizer: A transformers tokenizer; it is only called.
        max_length: Tokens that the model can read, those that it writes included.

    Raises:
        ProbeError: If an item has no answer that could be found in a text.
    """

    def __init__(self, probe: Probe, places: Sequence[int], tokenizer: Any, *, max_length: int) -> None:
        self.decoding = Decoding.of(probe.decoding)
        self._items = [probe.items[place] for place in places]
        check_written(probe)
        self._places = places
        self._tokenizer = tokenizer
        self._encoded = encode_written(probe, self._items, tokenizer, max_length=max_length)

    def ask(
        self, writer: Writer, progress: Callable[[int, int], None] | None = None, *, again: bool = False
    ) -> dict[int, list[dict[str, Any]]]:
        """Rows of each item, one a sample, by its place in the probe; without the columns that every row has.

        Args:
            writer: What writes the answers.
            progress: Called with the answers written and the answers in all.
            again: Draw with other seeds than the first time, to see what drawing alone changes.
        """
        first_seed = self.decoding.seed + (AGAIN if again else 0)
        asked = [number for number, one in enumerate(self._encoded) if not one.unscored]
        prompts = [self._encoded[number].context for number in asked]
        rows: dict[int, list[dict[str, Any]]] = {place: [] for place in self._places}
        for sample in range(self.decoding.samples):
            done = sample * len(prompts)

            def told(count: int, done: int = done) -> None:
                if progress:
                    progress(done + count, self.decoding.samples * len(prompts))

            texts = writer.write(prompts, self.decoding, seed=first_seed + sample, progress=told) if prompts else []
            found = dict(zip(asked, texts, strict=True))
            for number, (place, item, one) in enumerate(zip(self._places, self._items, self._encoded, strict=True)):
                row: dict[str, Any] = {"outcome": f"unscored: {one.unscored}"}
                if number in found:
                    row = self._row(item, one, found[number])
                rows[place].append({"sample": sample, **row})
        return rows

    def _opened(self, encoded: Encoded) -> str:
        """The thinking block that the prompt itself opened; the output cannot show that it began."""
        return opened_by(str(self._tokenizer.decode(list(encoded.context[-_TAIL:]))))

    def _row(self, item: Item, encoded: Encoded, written: Written) -> dict[str, Any]:
        own = item.judge
        judged = judge(
            item,
            self._opened(encoded) + written.text,
            truncated=written.truncated,
            no_answer=self.decoding.no_answer,
            judge=None if own is None else lambda item, output: own(output, item),
        )
        return {
            "prompt_hash": encoded.prompt_hash,
            "output": written.text,
            "outcome": judged.outcome,
            "correct": judged.correct,
            "chosen": judged.chosen,
            "in_form": judged.form,
        }


def check_written(probe: Probe) -> None:
    """Refuse items whose answer could not be found in any text.

    Raises:
        ProbeError: If there is one; the item is named.
    """
    for item in probe:
        if probe.is_written(item) and item.judge is None:
            try:
                check_item(item)
            except ProbeError as error:
                raise ProbeError(f"item {item.id!r}: {str(error).removeprefix(f'item {item.id!r}: ')}") from error
