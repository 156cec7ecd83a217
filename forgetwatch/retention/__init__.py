"""What to do against forgetting: the base's own texts for replay, and an objective that penalises lost answers.

    loss      RetentionLoss: a term of a trainer's loss that penalises answers which turn from right to wrong
    replay    texts that the base writes, fit to be mixed into a fine-tuning
    topics    the shipped prompts after which the base writes

`docs/how-to/replay.md` shows how they are used.
"""

from forgetwatch.retention.loss import Retention, RetentionLoss
from forgetwatch.retention.replay import sample_replay

__all__ = ["Retention", "RetentionLoss", "sample_replay"]
