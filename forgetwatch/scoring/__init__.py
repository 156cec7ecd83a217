"""A model and a probe to a Snapshot.

    probe ─▶ rendering ─▶ encoding ─▶ layout ─▶ forward ─▶ outcomes ─▶ Snapshot
             text         token ids   batches   log-       rows
                                                likelihoods

Read `scorer` first, which goes through these steps, then `layout` for the batches and `engine` for the choice among
their layouts, which `parity` tests on the model itself. `generation` has the items whose answers are generated,
`processes` the sharing among processes, `isolation` the promise that a model comes back as it was.
"""

from forgetwatch.scoring.scorer import Scorer, score

__all__ = ["Scorer", "score"]
