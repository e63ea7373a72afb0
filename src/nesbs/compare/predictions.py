"""What a method's networks say about the test images: (members, images, classes), each method in its own way."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nesbs import rng
from nesbs.compare.pool import Pool
from nesbs.ensemble import Ensemble
from nesbs.rivals import mc_droppath, snapshot
from nesbs.rivals.snapshot import cycles
from nesbs.runs.run import Run
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator
from nesbs.training import Epoch


def predicted(run: Run, pool: Pool, architectures: Sequence[Architecture]) -> Tensor:
    """Logits of trained networks, or with the supernet's weights."""
    test = run.data.test
    if run.recipe.rivals.measure == "supernet":
        estimator = Estimator(run.supernet(), test, batch_size=run.recipe.search.batch_size)
        return estimator.log_probs(architectures).double()
    ensemble = Ensemble(pool.members(architectures))
    return ensemble.predict(test, batch_size=run.recipe.evaluation.batch_size).double()


def passes(run: Run, pool: Pool, architectures: Sequence[Architecture]) -> Tensor:
    """Logits of one network that drops paths, a pass for a member."""
    [member] = pool.members(architectures)
    return mc_droppath(
        member,
        run.data.test,
        probability=run.recipe.rivals.drop_path,
        passes=run.recipe.rivals.passes,
        generator=rng.generator(run.recipe.seed, "rivals", "mc-droppath"),
        batch_size=run.recipe.evaluation.batch_size,
    ).double()


def snapshots(run: Run, pool: Pool, architectures: Sequence[Architecture]) -> Tensor:
    """Logits of the snapshots of one training, which is made where it is missing."""
    size = run.recipe.ensemble.size
    lengths = [share.epochs for share in cycles(run.recipe.members, size)]
    with run.stage("snapshot", sum(lengths)) as stage:

        def heard(cycle: int, epoch: Epoch) -> None:
            stage.write()
            stage.advance(sum(lengths[:cycle]) + epoch.number, f"cycle {cycle + 1}, loss {epoch.loss:.3f}")

        ensemble = snapshot(
            run.space,
            architectures[0],
            run.train_images,
            run.recipe.members,
            size=size,
            seed=run.recipe.seed,
            folder=run.folder / "snapshot",
            on_epoch=heard,
        )
    return ensemble.predict(run.data.test, batch_size=run.recipe.evaluation.batch_size).double()
