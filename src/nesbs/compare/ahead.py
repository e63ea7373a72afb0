"""Trainings of one or several runs, given to workers together before the runs ask for what comes out.

A network's checkpoint then holds its last epoch, and the run that asks for it has nothing left to train.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nesbs.cluster import Workers, elsewhere
from nesbs.rivals import LearnedTogether, SearchRequest, SearchResult
from nesbs.runs.by_workers import (
    AnyTraining,
    Network,
    OneShotTraining,
    SupernetTraining,
    epochs_left,
    train_by_workers,
)
from nesbs.runs.resumable_run import SUPERNET_CHECKPOINT, Run
from nesbs.runs.stage_progress import Progress, add_epoch
from nesbs.training import Epoch


@dataclass(frozen=True, eq=False)
class Ahead:
    """One network of a run that workers are to train."""

    run: Run
    stage: str  # of the run, to whose seconds its training counts
    training: AnyTraining
    network: Network
    count: Callable[[float], None] = lambda seconds: None  # is told the seconds of each epoch
    alone: bool = False  # whether its stage has no other network: trained anew, the stage's seconds begin anew


def supernet_ahead(run: Run) -> list[Ahead]:
    """The supernet of a run, unless it is trained."""
    if (run.folder / "supernet.safetensors").is_file():
        return []
    training = SupernetTraining(run.space, run.data.search_train, run.recipe.supernet, run.recipe.seed)
    return [Ahead(run, "supernet", training, Network(run.folder / SUPERNET_CHECKPOINT), alone=True)]


def one_shot_ahead(
    run: Run,
    stage: str,
    checkpoint: Path,
    request: SearchRequest,
    search: Callable[[SearchRequest], SearchResult | LearnedTogether],
) -> Ahead:
    """The supernet of a one-shot search. What the search judges at its end it judges in the run's own process."""
    short = replace(request, samples=1, allowed=None)
    return Ahead(run, stage, OneShotTraining(short, search), Network(checkpoint), alone=True)


def train_ahead(networks: Sequence[Ahead], workers: Workers, progress: Progress) -> None:
    """Have workers train networks, those of several runs side by side; seconds of each go into its run's record.

    Where these are too few for workers, nothing is trained: the run does it when it asks for them.
    """
    left = {each: epochs_left(each.training, each.network) for each in networks}
    networks = [each for each in networks if left[each]]
    if not workers.take(len(networks)):
        return
    total = sum(left.values())
    progress.start("trainings", total)

    def on_epoch(index: int, epoch: Epoch, node: str) -> None:
        left[networks[index]] = epoch.epochs - epoch.number
        each = networks[index]
        each.count(epoch.seconds)
        add_epoch(each.run.folder, each.stage, epoch, each.run.device, fresh=each.alone and epoch.number == 1)
        progress.figure(each.run.folder, f"{each.stage}/loss of {each.network.name}", epoch.loss, epoch.number)
        note = f"network {index + 1} of {len(networks)}{elsewhere(node)}"
        progress.advance(total - sum(left.values()), f"{note}, loss {epoch.loss:.3f}")

    train_by_workers([(each.training, each.network) for each in networks], workers, on_epoch)
    progress.finish(f"{len(networks)} networks")
