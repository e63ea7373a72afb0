"""Choosing (Algorithm 1), the Ensemble module, training its members from scratch."""

from nesbs.ensemble.choosing import SearchSettings, choose, forward_select, search
from nesbs.ensemble.members import (
    Ensemble,
    EnsembleSettings,
    MemberSettings,
    build_member,
    train_ensemble,
    train_member,
)
from nesbs.ensemble.scoring import ensemble_losses, scorer
from nesbs.ensemble.selection import Selection

__all__ = [
    "Ensemble",
    "EnsembleSettings",
    "MemberSettings",
    "SearchSettings",
    "Selection",
    "build_member",
    "choose",
    "ensemble_losses",
    "forward_select",
    "scorer",
    "search",
    "train_ensemble",
    "train_member",
]
