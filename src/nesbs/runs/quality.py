"""How good the supernet's estimates are, before a search is trusted (paper, app. C.1; `quality.json`).

Truth is either trained here, a sample of architectures for a given budget, or read from a table such as a
benchmark's. Estimates are those the search uses.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from nesbs import files, metrics, rng
from nesbs.ensemble import Ensemble, ensemble_losses
from nesbs.errors import NesbsError, did_you_mean
from nesbs.evaluation import ensembles_of, mass, rank, spread, verdict
from nesbs.evaluation.ranking import SHARE
from nesbs.posterior import reference_ranks
from nesbs.runs.members import by_content, trained_members
from nesbs.runs.run import Run
from nesbs.settings import Settings
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator

FILE = "quality.json"
SIZES = (1, 3, 5, 7)  # of ensembles; paper, app. C.1


class QualitySettings(Settings):
    """What is compared (options of `nesbs quality`)."""

    architectures: int = Field(10, ge=4, description="trained for the truth; paper: 10")
    candidates: int = Field(50, ge=4, description="drawn uniformly, from which those of diverse estimates are taken")
    epochs: int | None = Field(None, ge=1, description="of their training; by default a quarter of the recipe's")
    sizes: tuple[int, ...] | None = Field(None, min_length=1, description="of ensembles; by default 1, 3, 5, 7")
    share: float = Field(SHARE, gt=0, le=1, description="k of Agreement-k, as a share of all; paper: 0.3")
    table: str | None = Field(None, description="a CSV file with the column `architecture` and true accuracies")
    column: str | None = Field(None, description="the table's column of accuracies in per cent")

    @field_validator("sizes")
    @classmethod
    def _whole(cls, value: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if value is None:
            return None
        if min(value) < 1:
            raise ValueError("sizes are 1 or more")
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _go_together(self) -> QualitySettings:
        largest = self.architectures - 2  # leaving one out must leave several ensembles
        if self.sizes is not None and max(self.sizes) > largest:
            raise ValueError(f"ensembles of {self.architectures} architectures can have up to {largest} members here")
        if self.column is not None and self.table is None:
            raise ValueError("column goes with table")
        trained = {"architectures", "candidates", "epochs", "sizes"} & self.model_fields_set
        if self.table is not None and trained:
            raise ValueError(f"{', '.join(sorted(trained))} have no effect with table, whose rows are the truth")
        return self


def measure_quality(run: Run, **settings: object) -> dict[str, Any]:
    """Compare the estimates of a run's supernet with the truth, which is trained or read from a table.

    `quality.json` keeps the last answer of either kind, under `trained` and `table`; this one is returned.
    """
    chosen = QualitySettings.of({name: value for name, value in settings.items() if value is not None})
    if run.recipe.ensemble.architectures is not None:
        raise NesbsError(f"{run.folder} was given its architectures: it has no supernet to judge")
    estimator = Estimator(run.supernet(), run.data.search_valid, batch_size=run.recipe.search.batch_size)
    value = _by_table(run, estimator, chosen) if chosen.table is not None else _by_training(run, estimator, chosen)
    path = run.folder / FILE
    kept = files.read_mapping(path) if path.is_file() else {}
    files.write_json(path, {"trained": None, "table": None, **kept, value["truth"]["kind"]: value})
    return value


def _by_training(run: Run, estimator: Estimator, settings: QualitySettings) -> dict[str, Any]:
    drawn = run.space.sample(settings.candidates, generator=rng.generator(run.recipe.seed, "quality"))
    # Those in which nothing reaches the output are bad for a reason no estimate is needed for.
    drawn = [architecture for architecture in dict.fromkeys(drawn) if not run.space.is_dead(architecture)]
    estimated = estimator.log_probs(drawn)
    losses = metrics.nll(estimated, estimator.split.labels).tolist()
    picked = spread(losses, settings.architectures)
    if len(picked) < settings.architectures:
        raise NesbsError(
            f"--architectures {settings.architectures}: only {len(picked)} different ones were drawn: raise "
            "--candidates"
        )
    architectures = [drawn[place] for place in picked]
    epochs = settings.epochs or max(1, run.recipe.members.epochs // 4)
    members = trained_members(
        run.space,
        architectures,
        run.train_images,
        run.recipe.members.model_copy(
            update={"epochs": epochs, "warm_up": min(run.recipe.members.warm_up, epochs - 1)}
        ),
        seed=run.recipe.seed,
        folder=run.folder / f"quality-{epochs}-epochs",
        stage=lambda total: run.stage("quality", total),
        stems=by_content(architectures),
    )
    test = run.measured_images
    true = Ensemble(members).predict(test, batch_size=run.recipe.evaluation.batch_size).log_softmax(-1)
    sizes = settings.sizes or [size for size in SIZES if size <= len(architectures) - 2]
    sets = {size: ensembles_of(len(architectures), size, seed=run.recipe.seed) for size in sizes}
    noise = run.recipe.posterior.noise
    stands = _standing(run, estimator)
    alone = _judged(estimated[picked], estimator.split.labels, noise=noise)
    if stands is not None:
        alone["evidence"] = stands(architectures, estimated[picked])
    rankings: dict[str, list[dict[str, Any]]] = {}
    points: dict[str, list[list[float]]] = {}
    for size, groups in sets.items():
        guess = _judged(estimated[picked], estimator.split.labels, groups, noise=noise)
        truth = _judged(true, test.labels, groups, noise=noise)
        if stands is not None:  # of an ensemble: its members' mean
            guess["evidence"] = np.array([alone["evidence"][list(group)].mean() for group in groups])
        for kind in guess:
            found = rank(guess[kind], truth.get(kind, truth["loss"]), groups, share=settings.share).to_json()
            rankings.setdefault(kind, []).append(found)
        points[str(size)] = [list(pair) for pair in zip(guess["loss"].tolist(), truth["loss"].tolist(), strict=True)]
    own = _judged(true, test.labels, noise=noise)
    return {
        "truth": {
            "kind": "trained",
            "epochs": epochs,
            "images": len(run.train_images),
            "measured_on": len(test),
            "test": run.recipe.evaluation.images == "test",
        },
        "share": settings.share,
        "rankings": rankings,
        "points": points,
        "architectures": _listed(architectures, alone, own["loss"], own["error"]),
        "mass": None,
        "verdict": _verdict(alone, own["loss"], settings, run.data.test.classes),
    }


def _by_table(run: Run, estimator: Estimator, settings: QualitySettings) -> dict[str, Any]:
    texts, accuracies = read_table(Path(str(settings.table)).expanduser(), settings.column)
    architectures = []
    for row, text in enumerate(texts, start=2):  # the first line holds the names
        try:
            architectures.append(run.space.parse(text))
        except NesbsError as error:
            raise NesbsError(f"{settings.table}, line {row}: {error}") from None
    stands = _standing(run, estimator)
    with run.stage("quality table", len(architectures), fresh=True) as stage:
        singles = [(place,) for place in range(len(architectures))]
        parts = []
        for start in range(0, len(architectures), 50):
            some = architectures[start : start + 50]
            log_probs = estimator.log_probs(some)
            parts.append(_judged(log_probs, estimator.split.labels, noise=run.recipe.posterior.noise))
            if stands is not None:
                parts[-1]["evidence"] = stands(some, log_probs)
            estimator.forget()
            stage.advance(min(start + 50, len(architectures)), "architectures estimated")
        alone = {kind: np.concatenate([part[kind] for part in parts]) for kind in parts[0]}
        errors = 1 - np.array(accuracies) / 100
        rankings = {kind: [rank(alone[kind], errors, singles, share=settings.share).to_json()] for kind in alone}
        log_p = run.posterior().log_prob(architectures).double().numpy()
    return {
        "truth": {"kind": "table", "file": Path(str(settings.table)).name, "column": settings.column},
        "share": settings.share,
        "rankings": rankings,
        "points": {"1": [list(pair) for pair in zip(alone["loss"].tolist(), errors.tolist(), strict=True)]},
        "architectures": _listed(architectures, alone, None, errors),
        "mass": mass(log_p, np.array(accuracies)).to_json(),
        "verdict": _verdict(alone, errors, settings, run.data.test.classes),
    }


def _standing(run: Run, estimator: Estimator) -> Callable[[Sequence[Architecture], Tensor], np.ndarray] | None:
    """With a reference: (architectures, their log-probabilities) → the evidence against each, (architectures,)."""
    settings, size = run.recipe.posterior, (run.recipe.members.cells, run.recipe.members.channels)
    if not settings.reference:
        return None

    def likelihood(log_probs: Tensor) -> Tensor:
        return -metrics.nll(log_probs, estimator.split.labels, noise=settings.noise).cpu()

    with run.stage("quality reference", settings.reference, fresh=True) as stage:
        found = reference_ranks(
            run.space,
            run.data.search_valid,
            settings,
            seed=run.recipe.seed,
            members=size,
            on_progress=lambda done, total: stage.advance(0, f"{done} of {total} untrained networks"),
        )
        assert found is not None
        parts = []
        for start in range(0, settings.reference, 50):
            parts.append(likelihood(estimator.log_probs(found.reference[start : start + 50])))
            estimator.forget()
            stage.advance(min(start + 50, settings.reference), "architectures estimated")
    others = torch.cat(parts)
    return lambda architectures, log_probs: -found.of(likelihood(log_probs), others, architectures).double().numpy()


def read_table(path: Path, column: str | None) -> tuple[list[str], list[float]]:
    """Architectures and their accuracies in per cent from a CSV file."""
    reader = csv.DictReader(files.read_text(path).removeprefix("\ufeff").splitlines())  # a byte-order mark, as Excel's
    names, rows = list(reader.fieldnames or []), list(reader)
    if "architecture" not in names:
        raise NesbsError(f"{path} needs a column architecture, found {', '.join(names) or 'nothing'}")
    if column is None or column not in names:
        raise NesbsError(f"--column {column or 'NAME'}: {did_you_mean(column or '', names)}")
    accuracies = []
    for line, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise NesbsError(f"{path}, line {line}: {len(names)} fields are needed, as in the first line")
        try:
            accuracies.append(float(row[column]))
        except ValueError:
            raise NesbsError(f"{path}, line {line}: column {column} must hold accuracies in per cent") from None
    if len(rows) < 4 or not all(0 <= accuracy <= 100 for accuracy in accuracies):
        raise NesbsError(f"{path}: column {column} must hold four accuracies or more, between 0 and 100")
    if max(accuracies) <= 1:
        raise NesbsError(f"{path}: column {column} must hold per cent, found shares (at most {max(accuracies)})")
    if min(accuracies) == max(accuracies):
        raise NesbsError(f"{path}: column {column} is {accuracies[0]:g} in every row: there is nothing to rank")
    texts = [row["architecture"] for row in rows]
    if len(set(texts)) < len(texts):
        raise NesbsError(f"{path} lists an architecture more than once: {next(t for t in texts if texts.count(t) > 1)}")
    return texts, accuracies


def _judged(
    log_probs: Tensor, labels: Tensor, groups: Sequence[Sequence[int]] | None = None, *, noise: float
) -> dict[str, np.ndarray]:
    """Losses, errors and Brier scores of ensembles from their members' log-probabilities (members, images, classes).

    With `noise` also the loss under label noise, the evidence of a posterior without a reference.
    """
    if groups is None:
        groups = [(place,) for place in range(len(log_probs))]
    members = torch.tensor([list(group) for group in groups], device=log_probs.device)
    rows = []
    for group in groups:  # one at a time: there may be hundreds
        together = metrics.average(log_probs[list(group)])
        row = {"error": metrics.error(together, labels), "brier": metrics.brier(together, labels)}
        rows.append(row | ({"evidence": metrics.nll(together, labels, noise=noise)} if noise > 0 else {}))
    found = {"loss": ensemble_losses(log_probs, labels, members)}
    found |= {kind: torch.stack([row[kind] for row in rows]) for kind in rows[0]}
    return {kind: values.cpu().double().numpy() for kind, values in found.items()}


def _listed(
    architectures: Sequence[Architecture],
    estimated: dict[str, np.ndarray],
    losses: np.ndarray | None,
    errors: np.ndarray,
) -> list[dict[str, Any]]:
    return [
        {
            "architecture": str(architecture),
            "estimated_loss": float(estimated["loss"][place]),
            "estimated_error": float(estimated["error"][place]),
            "true_loss": None if losses is None else float(losses[place]),
            "true_error": float(errors[place]),
        }
        for place, architecture in enumerate(architectures)
    ]


def _verdict(alone: dict[str, np.ndarray], true: np.ndarray, settings: QualitySettings, classes: int) -> str:
    singles = [(place,) for place in range(len(true))]
    ranking = rank(alone.get("evidence", alone["loss"]), true, singles, share=settings.share)
    return verdict(ranking, loss=float(np.median(alone["loss"])), classes=classes)
