"""Snapshot ensembles (Huang et al., 2017): n members for the price of training one network.

    for m = 1 … n:  train for 1/n of the epochs, the learning rate falling from its highest to 0 (one cycle)
                    keep a copy of the weights;  the next cycle starts from them

A cycle is a whole training of the one loop, so momentum begins anew with each (a departure without weight at
the end of a cycle, where the learning rate is 0).
"""

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nesbs import files
from nesbs.data import Split
from nesbs.ensemble import Ensemble, MemberSettings, build_member, member_training
from nesbs.errors import NesbsError
from nesbs.spaces import Architecture, Member, Space
from nesbs.training import Epoch, side_by_side


def cycles(settings: MemberSettings, size: int) -> list[MemberSettings]:
    """The settings of each cycle: the epochs shared out evenly, a warm-up in the first cycle alone.

    >>> [cycle.epochs for cycle in cycles(MemberSettings(epochs=11), 3)]
    [4, 4, 3]
    """
    if settings.epochs < size:
        raise NesbsError(f"snapshot: {size} cycles need as many epochs, found members.epochs={settings.epochs}")
    shares = [settings.epochs // size + (cycle < settings.epochs % size) for cycle in range(size)]
    return [
        settings.model_copy(update={"epochs": share, "warm_up": min(settings.warm_up, share - 1) if not cycle else 0})
        for cycle, share in enumerate(shares)
    ]


def snapshot(
    space: Space,
    architecture: Architecture,
    split: Split,
    settings: MemberSettings,
    *,
    size: int,
    seed: int = 0,
    folder: Path | None = None,
    on_epoch: Callable[[int, Epoch], None] | None = None,
) -> Ensemble:
    """Train one network in `size` cycles; the ensemble of what it was at the end of each.

    With a `folder` the snapshots are saved there, and a later call resumes; `on_epoch` gets the cycle and the epoch.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> data = load_dataset("fashion-mini", train_limit=100)
    >>> small = MemberSettings(epochs=2, cells=1, channels=4, batch_size=50)
    >>> len(snapshot(toy_edges(), list(toy_edges())[-1], data.train, small, size=2).members)
    2
    """
    member = build_member(space, architecture, split, settings, seed=seed, name="snapshot")
    taken: list[Member] = []
    for cycle, share in enumerate(cycles(settings, size)):
        path = None if folder is None else folder / f"{cycle}.safetensors"
        checkpoint = None if path is None else path.with_suffix(".checkpoint.safetensors")
        of = f"snapshot {cycle} of seed {seed}"
        if path is not None and path.is_file():
            tensors, _ = files.read_tensors(path, split.device, of=of)
            files.load_into(member, tensors, path)
        else:
            report = None if on_epoch is None else partial(on_epoch, cycle)
            name = f"snapshot {cycle}"
            steps = member_training(member, split, share, seed=seed, name=name, checkpoint=checkpoint, on_epoch=report)
            side_by_side([steps])
            if path is not None:
                files.write_tensors(path, member.state_dict(), architecture=str(architecture), of=of)
        if checkpoint is not None:
            files.discard(checkpoint)
        taken.append(copy.deepcopy(member).eval())
    return Ensemble(taken)
