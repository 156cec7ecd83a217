"""Comparison of two snapshots item by item, and of the looks of a run: the engine that every way in uses.

    comparison       `compare`: pair, check, group and count; `Comparison`, also as a frame; the paper's mean of means
    trajectory       `Trajectory`: the looks of one or several runs in order, each against the baseline; alarms; the
                     stages of one model: groups by stage, and the path of each question
    causes           were the lost answers barely known, or near the new data?
    kept_share       what a model keeps of what its base knew; models are ranked and checkpoints chosen by it
    ranking          several models against one base
    flips            the items whose answer changed
    decision         `decide`: KEPT, FORGOT or NOT CLEAR, in one sentence, and what is next; every output takes it
    verdict          its legs: losses, their intervals and limits; the categories that fell most

    checks           settings, questions, prompts and the norm that two snapshots must agree in; items of all looks
    groups           all items, kinds, wordings, categories and tasks, counted
    by_wording       did the wordings change alike?

Read `comparison` first, then `groups`. The pairs are from `pairing`, the numbers of a group from `measures`. Nothing
here imports torch or renders text for people.
"""

from forgetwatch.comparing.causes import COLUMNS, Cause, Causes, why_lost
from forgetwatch.comparing.checks import OnMismatch, Subset, has_graded_answers, repeated_prompts, rules_of, select
from forgetwatch.comparing.comparison import (
    RENDERERS,
    CategoryMeans,
    ChanceRule,
    Comparison,
    Spread,
    compare,
    first_samples,
    vanished_note,
)
from forgetwatch.comparing.decision import (
    Conclusion,
    Decision,
    at_start,
    conclude,
    decide,
    decide_run,
    less_luck,
    not_finite,
    round_percent,
    too_easy,
    unmeasured,
)
from forgetwatch.comparing.flips import Flip, Side, What, ask_again, first_forgotten, marked_flips, sort_flips
from forgetwatch.comparing.groups import Group, Level, group_values
from forgetwatch.comparing.kept_share import KEPT_OF, Kept, KeptOf, kept, kept_of
from forgetwatch.comparing.ranking import (
    ModelComparison,
    RankedModel,
    Target,
    rank_models,
    read_target,
    transition_matrix,
)
from forgetwatch.comparing.trajectory import (
    Alarm,
    StageMatrix,
    Trajectory,
    against_first_base,
    read_stages,
    right_answers,
)
from forgetwatch.comparing.verdict import (
    SMALL_LOSS,
    TOLERANCE,
    Answer,
    Leg,
    LegName,
    Tolerance,
    accuracy_leg,
    at_level,
    category_leg,
    estimated,
    estimated_categories,
    knowledge_leg,
    leg_interval,
    ranked_categories,
    side_of_zero,
    worst,
)
