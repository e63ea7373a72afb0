"""Choosing (Algorithm 1), the Ensemble module, training its members from scratch."""

from nesbs.ensemble.choosing import search
from nesbs.ensemble.decide import choose, decide, forward_select
from nesbs.ensemble.joint_step import Criterion, JointStep, joint_step
from nesbs.ensemble.judges import JudgeNoise, RankJudge, make_judge, noise_under, resamples
from nesbs.ensemble.limits import Limits, member_costs
from nesbs.ensemble.members import (
    Ensemble,
    build_member,
    by_content,
    design_member,
    groups,
    member_training,
    train_ensemble,
)
from nesbs.ensemble.scoring import Judge, Predictor, Score, ensemble_losses, scorer
from nesbs.ensemble.selection import Selection
from nesbs.ensemble.settings import EnsembleSettings, LimitSettings, MemberSettings, SearchSettings
from nesbs.ensemble.trained_judge import ShortTraining, TrainedJudge, promising
