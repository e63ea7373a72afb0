"""How good the supernet's estimates are, before a search is trusted (paper, app. C.1; `quality.json`).

Truth is either trained here, a sample of architectures for a given budget, or read from a table such as a
benchmark's. Estimates are those the search uses.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from nesbs import files, metrics, rng
from nesbs.ensemble import Ensemble, by_content, ensemble_losses
from nesbs.errors import NesbsError
from nesbs.evaluation import ensembles_of, mass, rank, spread, verdict
from nesbs.evaluation.ranking import SHARE
from nesbs.posterior import ReferenceRanks
from nesbs.records import QualityRecord
from nesbs.records.quality import JudgedArchitecture, QualityAnswer, Truth
from nesbs.runs.accuracy_table import accuracy_table
from nesbs.runs.by_workers import MemberTraining
from nesbs.runs.choice_quality import choice_by_table, choice_by_training
from nesbs.runs.members import trained_members
from nesbs.runs.resumable_run import Run
from nesbs.settings import MAX_ARCHITECTURES, MAX_EPOCHS, MAX_MEMBERS, MAX_VALUES, Settings
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator

SIZES = (1, 3, 5, 7)  # of ensembles; paper, app. C.1
AT_ONCE = 50  # architectures whose predictions are held in memory
Columns = dict[str, np.ndarray]  # by the kind of estimate: a value for each architecture or ensemble
# Of architectures and their log-probabilities: the evidence against each, (architectures,).
Evidence = Callable[[Sequence[Architecture], Tensor], np.ndarray]


class QualitySettings(Settings):
    """What is compared (options of `nesbs quality`)."""

    architectures: int = Field(10, ge=4, le=MAX_ARCHITECTURES, description="trained for the truth; paper: 10")
    candidates: int = Field(
        50, ge=4, le=MAX_ARCHITECTURES, description="drawn uniformly, from which those of diverse estimates are taken"
    )
    epochs: int | None = Field(
        None, ge=1, le=MAX_EPOCHS, description="of their training; by default a quarter of the recipe's"
    )
    sizes: tuple[Annotated[int, Field(ge=1, le=MAX_MEMBERS)], ...] | None = Field(
        None, min_length=1, max_length=MAX_VALUES, description="of ensembles; by default 1, 3, 5, 7"
    )
    share: float = Field(SHARE, gt=0, le=1, description="k of Agreement-k, as a share of all; paper: 0.3")
    table: str | None = Field(None, description="a CSV file with the column `architecture` and true accuracies")
    column: str | None = Field(None, description="the table's column of accuracies in per cent")

    @field_validator("sizes")
    @classmethod
    def _whole(cls, value: tuple[int, ...] | None) -> tuple[int, ...] | None:
        return None if value is None else tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        largest = self.architectures - 2  # leaving one out must leave several ensembles
        if self.sizes is not None and max(self.sizes) > largest:
            raise ValueError(f"ensembles of {self.architectures} architectures can have up to {largest} members here")
        if self.column is not None and self.table is None:
            raise ValueError("column goes with table, the CSV file that has it")
        trained = {"architectures", "candidates", "epochs", "sizes"} & self.model_fields_set
        if self.table is not None and trained:
            raise ValueError(f"{', '.join(sorted(trained))} have no effect with table, whose rows are the truth")
        return self


def measure_quality(run: Run, **settings: object) -> QualityAnswer:
    """Compare the estimates of a run's supernet with the truth, which is trained or read from a table.

    `quality.json` keeps the last answer of either kind, under `trained` and `table`; this one is returned.
    """
    chosen = QualitySettings.of({name: value for name, value in settings.items() if value is not None})
    if run.recipe.ensemble.architectures is not None:
        raise NesbsError(f"{run.folder} was given its architectures: it has no supernet to judge")
    estimator = Estimator(run.supernet(), run.data.search_valid, batch_size=run.recipe.search.batch_size)
    kind, measured = ("trained", _by_training) if chosen.table is None else ("table", _by_table)
    answer = measured(run, estimator, chosen)
    earlier = QualityRecord.find(run.folder) or QualityRecord(trained=None, table=None)
    earlier.replace(**{kind: answer}).write(run.folder / QualityRecord.FILE)
    return answer


def _by_training(run: Run, estimator: Estimator, settings: QualitySettings) -> QualityAnswer:
    architectures, estimated = _diverse_sample(run, estimator, settings)
    epochs = settings.epochs or max(1, run.recipe.members.epochs // 4)
    true, labels = _trained_predictions(run, architectures, epochs), run.measured_images.labels
    noise = run.recipe.posterior.noise
    ranks, evidence = _evidence(run, estimator)
    alone = _performances(estimated, estimator.split.labels, noise=noise)
    if evidence is not None:
        alone["evidence"] = evidence(architectures, estimated)
    rankings: dict[str, list[dict[str, Any]]] = {}
    points: dict[str, list[tuple[float, float]]] = {}
    for size in settings.sizes or [size for size in SIZES if size <= len(architectures) - 2]:
        groups = ensembles_of(len(architectures), size, seed=run.recipe.seed)
        guess = _performances(estimated, estimator.split.labels, groups, noise=noise)
        truth = _performances(true, labels, groups, noise=noise)
        if evidence is not None:  # of an ensemble: its members' mean
            guess["evidence"] = np.array([alone["evidence"][list(group)].mean() for group in groups])
        for kind in guess:
            ranking = rank(guess[kind], truth.get(kind, truth["loss"]), groups, share=settings.share)
            rankings.setdefault(kind, []).append(asdict(ranking))
        points[str(size)] = list(zip(guess["loss"].tolist(), truth["loss"].tolist(), strict=True))
    own = _performances(true, labels, noise=noise)
    choice = choice_by_training(run, estimator, ranks, architectures, true, share=settings.share)
    images, on_test = len(run.train_images), run.recipe.evaluation.images == "test"
    return QualityAnswer(
        truth=Truth(kind="trained", epochs=epochs, images=images, measured_on=len(labels), test=on_test),
        share=settings.share,
        rankings=rankings,
        points=points,
        architectures=_listed(architectures, alone, own["loss"], own["error"]),
        mass=None,
        choice=choice,
        verdict=_verdict(alone, own["loss"], settings, run.data.test.classes),
    )


def _diverse_sample(run: Run, estimator: Estimator, settings: QualitySettings) -> tuple[list[Architecture], Tensor]:
    """Architectures of diverse estimates, and their log-probabilities (architectures, images, classes)."""
    drawn = run.space.sample(settings.candidates, generator=rng.generator(run.recipe.seed, "quality"))
    # Those in which nothing reaches the output are bad for a reason no estimate is needed for.
    drawn = [architecture for architecture in dict.fromkeys(drawn) if not run.space.is_dead(architecture)]
    estimated = estimator.log_probs(drawn)
    places = spread(metrics.nll(estimated, estimator.split.labels).tolist(), settings.architectures)
    if len(places) < settings.architectures:
        wanted = f"--architectures {settings.architectures}"
        raise NesbsError(f"{wanted}: only {len(places)} different ones were drawn: raise --candidates")
    return [drawn[place] for place in places], estimated[places]


def _trained_predictions(run: Run, architectures: Sequence[Architecture], epochs: int) -> Tensor:
    """Log-probabilities (architectures, images, classes) of each architecture, trained for so many epochs."""
    schedule = {"epochs": epochs, "warm_up": min(run.recipe.members.warm_up, epochs - 1)}
    settings = run.recipe.members.model_copy(update=schedule)
    members = trained_members(
        architectures,
        MemberTraining(run.space, run.train_images, settings, run.recipe.seed),
        folder=run.folder / f"quality-{epochs}-epochs",
        stage=lambda total: run.stage("quality", total),
        stems=by_content(architectures),
        workers=run.workers,
    )
    batch_size = run.recipe.evaluation.batch_size
    return Ensemble(members).predict(run.measured_images, batch_size=batch_size).log_softmax(-1)


def _by_table(run: Run, estimator: Estimator, settings: QualitySettings) -> QualityAnswer:
    table = accuracy_table(files.expanded(str(settings.table)), settings.column, run.space)
    architectures, accuracies = list(table), list(table.values())
    selection, (_, evidence) = run.selection(), _evidence(run, estimator)
    with run.stage("quality table", len(architectures), fresh=True) as stage:
        batches = []
        for start in range(0, len(architectures), AT_ONCE):
            some = architectures[start : start + AT_ONCE]
            log_probs = estimator.log_probs(some)
            batches.append(_performances(log_probs, estimator.split.labels, noise=run.recipe.posterior.noise))
            if evidence is not None:
                batches[-1]["evidence"] = evidence(some, log_probs)
            estimator.forget()
            stage.advance(min(start + AT_ONCE, len(architectures)), "architectures estimated")
        alone = {kind: np.concatenate([batch[kind] for batch in batches]) for kind in batches[0]}
        log_p = run.posterior().log_prob(architectures).double().numpy()
    errors = 1 - np.array(accuracies) / 100
    singles = [(place,) for place in range(len(architectures))]
    return QualityAnswer(
        truth=Truth(kind="table", file=Path(str(settings.table)).name, column=settings.column),
        share=settings.share,
        rankings={kind: [asdict(rank(alone[kind], errors, singles, share=settings.share))] for kind in alone},
        points={"1": list(zip(alone["loss"].tolist(), errors.tolist(), strict=True))},
        architectures=_listed(architectures, alone, None, errors),
        mass=mass(log_p, np.array(accuracies)),
        choice=choice_by_table(selection, table, share=settings.share),
        verdict=_verdict(alone, errors, settings, run.data.test.classes),
    )


def _evidence(run: Run, estimator: Estimator) -> tuple[ReferenceRanks | None, Evidence | None]:
    """The reference of the posterior, and the evidence against architectures by it; None where there is none."""
    settings = run.recipe.posterior
    if not settings.reference:
        return None, None

    def likelihood(log_probs: Tensor) -> Tensor:
        return -metrics.nll(log_probs, estimator.split.labels, noise=settings.noise).cpu()

    with run.stage("quality reference", settings.reference, fresh=True) as stage:
        ranks = run.ranks(stage.untrained)
        assert ranks is not None
        batches = []
        for start in range(0, settings.reference, AT_ONCE):
            batches.append(likelihood(estimator.log_probs(ranks.reference[start : start + AT_ONCE])))
            estimator.forget()
            stage.advance(min(start + AT_ONCE, settings.reference), "architectures estimated")
    reference, of = torch.cat(batches), ranks.of
    return ranks, lambda some, log_probs: -of(likelihood(log_probs), reference, some).double().numpy()


def _performances(
    log_probs: Tensor, labels: Tensor, groups: Sequence[Sequence[int]] | None = None, *, noise: float
) -> Columns:
    """Losses, errors and Brier scores of ensembles from their members' log-probabilities (members, images, classes).

    With `noise` also the loss under label noise, the evidence of a posterior without a reference.
    """
    groups = groups or [(place,) for place in range(len(log_probs))]
    members = torch.tensor([list(group) for group in groups], device=log_probs.device)
    rows = []
    for group in groups:  # one at a time: there may be hundreds
        together = metrics.average(log_probs[list(group)])
        row = {"error": metrics.error(together, labels), "brier": metrics.brier(together, labels)}
        rows.append(row | ({"evidence": metrics.nll(together, labels, noise=noise)} if noise > 0 else {}))
    columns = {"loss": ensemble_losses(log_probs, labels, members)}
    columns |= {kind: torch.stack([row[kind] for row in rows]) for kind in rows[0]}
    return {kind: values.cpu().double().numpy() for kind, values in columns.items()}


def _listed(
    architectures: Sequence[Architecture], alone: Columns, losses: np.ndarray | None, errors: np.ndarray
) -> list[JudgedArchitecture]:
    return [
        JudgedArchitecture(
            architecture=str(architecture),
            estimated_loss=float(alone["loss"][place]),
            estimated_error=float(alone["error"][place]),
            true_loss=None if losses is None else float(losses[place]),
            true_error=float(errors[place]),
        )
        for place, architecture in enumerate(architectures)
    ]


def _verdict(alone: Columns, true: np.ndarray, settings: QualitySettings, classes: int) -> str:
    singles = [(place,) for place in range(len(true))]
    ranking = rank(alone.get("evidence", alone["loss"]), true, singles, share=settings.share)
    return verdict(ranking, loss=float(np.median(alone["loss"])), classes=classes)
