"""Choosing (Algorithm 1), the Ensemble module, training its members from scratch."""

from nesbs.ensemble.choosing import (
    SearchSettings,
    Selection,
    choose,
    ensemble_losses,
    forward_select,
    scorer,
    search,
)
from nesbs.ensemble.members import (
    Ensemble,
    EnsembleSettings,
    MemberSettings,
    build_member,
    train_ensemble,
    train_member,
)

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
