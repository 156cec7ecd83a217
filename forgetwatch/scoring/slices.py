"""A scorer of a probe in slices, each balanced over the categories, that may end with the finished ones.

A measurement that may take minutes is measured in slices, so that one that takes far longer than it
should has an end. Later scores read the same slices, and so the same batches.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from torch import nn

from forgetwatch.probe import Probe
from forgetwatch.progress import Done, Progress
from forgetwatch.scoring.processes import on_main_process
from forgetwatch.scoring.scorer import Scorer
from forgetwatch.snapshot import Snapshot


class SlicedScorer:
    """Scores a probe in slices of as many items; the first one chooses the layout of all.

    Args:
        probe: The items, in an order in which any first ones are a fair sample.
        tokenizer: The models' tokenizer.
        model: Any of the models.
        size: Items of a slice; None for one slice.
        settings: Further arguments of `Scorer`.
    """

    def __init__(
        self, probe: Probe, tokenizer: Any, model: nn.Module, *, size: int | None, **settings: Any
    ) -> None:
        size = size or len(probe)
        slices = [probe.items[start : start + size] for start in range(0, len(probe), size)]
        self._size, self._probe = size, probe
        self._scorers = [
            Scorer(probe.with_items(items), tokenizer, model, **settings) for items in slices
        ]

    def encodes_alike(self, tokenizer: Any) -> bool:
        """Does a tokenizer give the token ids that are scored?"""
        return all(scorer.encodes_alike(tokenizer) for scorer in self._scorers)

    def score(
        self,
        model: nn.Module,
        *,
        step: int | None = None,
        progress: Progress | None = None,
        ends: Callable[[], bool] = lambda: False,
    ) -> Snapshot:
        """Score the probe, or its first slices until `ends` is True.

        The slices that were not scored are left out of later scores too.
        """
        first, parts = self._scorers[0], list[Snapshot]()
        for scorer in self._scorers:
            if scorer is not first:
                scorer.engine.follow(first.engine)
            parts.append(
                scorer.score(model, step=step, progress=self._whole(progress, slices=len(parts)))
            )
            if len(parts) < len(self._scorers) and on_main_process(ends):
                break
        if len(self._scorers) == 1:
            return parts[0]
        self._scorers, whole_snapshot = self._scorers[: len(parts)], parts[0]
        self._probe = probe = self._probe.head(len(parts) * self._size)
        seconds = {
            name: sum(snapshot.meta[name] for snapshot in parts)
            for name in ("seconds", "written_seconds")
        }
        settings = {
            "probe": {
                **whole_snapshot.meta["probe"],
                "fingerprint": probe.fingerprint,
                "items": len(probe),
            },
            "batch": {**whole_snapshot.meta["batch"], "slice": self._size},
        }
        table = pa.concat_tables([snapshot.table for snapshot in parts])
        return replace(
            whole_snapshot, table=table, meta={**whole_snapshot.meta, **seconds, **settings}
        )

    def _whole(self, progress: Progress | None, *, slices: int) -> Progress | None:
        # A part of the whole.
        before, of = slices * self._size, len(self._probe)
        if progress is None or of <= self._size:
            return progress

        def report(done: Done) -> None:
            share = (before + done.share * min(self._size, of - before)) / of
            progress(replace(done, count=before + done.count, total=of, share=share))

        return report
