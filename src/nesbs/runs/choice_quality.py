"""What the recipe's judge is worth for ensembles of the recipe's size, held against the truth (in `quality.json`).

Two questions: does the judge put ensembles into the order of the truth, and is what it chooses better than an ensemble
that was drawn and not judged? Ours, not the paper's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean

import numpy as np
import torch
from torch import Tensor

from nesbs.ensemble import Selection, choose, ensemble_losses, make_judge, noise_under, resamples, scorer
from nesbs.evaluation import ensembles_of, gain_of_choice, rank
from nesbs.posterior import ReferenceRanks
from nesbs.records.quality import ChoiceQuality, RankingRecord
from nesbs.runs.resumable_run import Run
from nesbs.samplers import Proposal
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator

FEWEST = 4  # ensembles of which an order is judged


def choice_by_table(selection: Selection, accuracies: Mapping[Architecture, float], *, share: float) -> ChoiceQuality:
    """Compare the ensembles that a search drew, its scores of them and its choice with accuracies in per cent.

    The truth of an ensemble is its members' mean error; one with a member that the table lacks is left out. Where the
    table lacks the choice, the best-judged ensemble takes its place.
    """

    def truth(members: Sequence[Architecture]) -> float | None:
        held = all(member in accuracies for member in members)
        return round(1 - fmean(accuracies[member] for member in members) / 100, 12) if held else None  # equal is equal

    losses = [] if selection.judge == "trained" else [loss for _, loss in selection.proposals]
    scores = [*selection.scores] or losses  # candidates that were trained give ensembles drawn no score
    errors = [truth(proposal.architectures) for proposal, _ in selection.proposals]
    places = [place for place, error in enumerate(errors) if error is not None]
    true = np.array([error for error in errors if error is not None])
    drawn = [selection.proposals[place][0].architectures for place in places]
    judged = np.array([scores[place] for place in places]) if scores else None
    found = ChoiceQuality(
        judge=selection.judge,
        size=len(selection.architectures),
        proposals=len(errors),
        known=len(places),
        ranking=None if judged is None else _ranking(judged, true, drawn, share),
    )
    chosen = truth(selection.architectures)
    preferred = chosen if chosen is not None or judged is None or not places else float(true[judged.argmin()])
    if preferred is None or not places:
        return found
    return found.replace(by_search=chosen is not None, **gain_of_choice(true, preferred))


def choice_by_training(
    run: Run,
    estimator: Estimator,
    ranks: ReferenceRanks | None,
    architectures: Sequence[Architecture],
    log_probs: Tensor,
    *,
    share: float,
) -> ChoiceQuality:
    """Let the recipe's judge score ensembles of trained architectures, and compare with their true loss.

    `log_probs` (architectures, images, classes) are the trained networks' on the images that are measured; `ranks` is
    the reference of the judge `evidence`. The choice is the ensemble that the judge prefers among all.
    """
    settings, size, seed = run.recipe.search, run.recipe.ensemble.size, run.recipe.seed
    found = ChoiceQuality(judge=settings.judge, size=size)
    if settings.judge == "trained" or size > len(architectures) - 2:
        return found
    combine = run.recipe.ensemble.combine
    groups = ensembles_of(len(architectures), size, seed=seed)
    members = torch.tensor(groups, device=log_probs.device)
    true = ensemble_losses(log_probs, run.measured_images.labels, members, combine).cpu().numpy()
    drawn = [Proposal(tuple(architectures[place] for place in group), round=1) for group in groups]
    with run.stage("quality judge", len(groups), fresh=True) as stage:
        judge, noise = scorer(estimator, combine), None
        if settings.judge != "likelihood":
            judge = make_judge(settings, judge, estimator, run.posterior(), ranks, size=size, seed=seed)
        if settings.noise:
            weights = resamples(len(estimator.split), settings.noise, seed=seed).to(estimator.split.device)
            noise = noise_under(weights, judge, run.posterior())
        best, scores = choose(drawn, judge, noise, apart=settings.apart)
        stage.advance(len(groups), "ensembles judged")
    return found.replace(
        proposals=len(groups),
        known=len(groups),
        ranking=_ranking(np.array(scores), true, [proposal.architectures for proposal in drawn], share),
        by_search=False,
        **gain_of_choice(true, float(true[best])),
    )


def _ranking(
    judged: np.ndarray, true: np.ndarray, ensembles: Sequence[Sequence[Architecture]], share: float
) -> RankingRecord | None:
    """How a judge ranks ensembles; None where they are too few."""
    if len(ensembles) < FEWEST:
        return None
    place: dict[Architecture, int] = {}
    members = [[place.setdefault(member, len(place)) for member in ensemble] for ensemble in ensembles]
    return RankingRecord.from_json(asdict(rank(judged, true, members, share=share)))
