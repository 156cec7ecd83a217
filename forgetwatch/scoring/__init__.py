"""A model and a probe to a Snapshot.

probe ─▶ rendering ─▶ encoding ─▶ plan ─▶ forward ─▶ outcomes ─▶ Snapshot
         text         token ids   batches  log-likelihoods
"""

from forgetwatch.scoring.scorer import Scorer, score

__all__ = ["Scorer", "score"]
