"""Members in a run folder: loaded where they have been trained, trained where they have not."""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from nesbs import files
from nesbs.cluster import Workers, elsewhere
from nesbs.cluster.torchrun import processes
from nesbs.data import Split
from nesbs.ensemble import JointStep, MemberSettings, build_member, groups, joint_step, member_training
from nesbs.errors import NesbsError
from nesbs.records import RunRecord
from nesbs.runs.by_workers import MemberTraining, Network, train_by_workers, train_on_all_ranks
from nesbs.runs.folder import MEMBERS
from nesbs.runs.stage_progress import Stage
from nesbs.spaces import Architecture, Member, sizes_of
from nesbs.training import Epoch, Training, side_by_side


def trained_members(
    architectures: Sequence[Architecture],
    shared: MemberTraining,
    *,
    folder: Path,
    stage: Callable[[int], AbstractContextManager[Stage]],
    stems: Sequence[str] | None = None,
    workers: Workers | None = None,
) -> list[Member]:
    """Members 0, 1, … of a folder; `stage` opens the stage of their training, given its number of epochs.

    Each has a file when it is done and a checkpoint until then; `settings.together` of them train side by side, or
    `workers` train them, by default `settings.workers` processes on a CPU. Under torchrun all its processes train one
    member after the other.
    `stems` name files and random streams instead of places: with those of `by_content` another list of architectures
    finds those it shares with an earlier one.
    """
    space, split, settings, seed = shared.space, shared.split, shared.settings, shared.seed
    called: Sequence[str | int] = range(len(architectures)) if stems is None else stems
    paths = [folder / f"{stem}.safetensors" for stem in called]
    networks = [network_in(folder, stem, each) for stem, each in zip(called, architectures, strict=True)]
    members = [
        build_member(space, architecture, split, settings, seed=seed, name=network.name)
        for architecture, network in zip(architectures, networks, strict=True)
    ]
    of = [_of(network, seed) for network in networks]
    losses = {index: _load(members[index], path, of[index]) for index, path in enumerate(paths) if path.is_file()}
    missing = [index for index in range(len(paths)) if index not in losses]
    if not missing:
        return members
    with stage(len(paths) * settings.epochs) as work:
        work.note(**sizes_of(members, (split.channels, *split.size)))
        epochs = dict.fromkeys(losses, settings.epochs)  # finished, of each member

        def on_epoch(index: int, epoch: Epoch, node: str = "") -> None:
            epochs[index] = epoch.number
            work.took_elsewhere(epoch.peak_memory)
            work.write()
            work.figure(f"loss of {called[index]}", epoch.loss, epoch.number)
            note = f"member {index + 1} of {len(paths)}{elsewhere(node)}"
            work.advance(sum(epochs.values()), f"{note}, loss {epoch.loss:.3f}")

        def steps(index: int, joint: JointStep | None) -> Training:
            begin = partial(member_training, checkpoint=_checkpoint(paths[index]), criterion=joint or shared.criterion)
            told = partial(on_epoch, index)
            return begin(members[index], split, settings, seed=seed, name=networks[index].name, on_epoch=told)

        workers = workers or workers_of(split, settings)
        if workers.take(len(missing)):
            work.note(workers=min(workers.count or len(missing), len(missing)))
        # Where others train, each checkpoint then holds a trained member: the training below has nothing left to do.
        _by_others([networks[i] for i in missing], shared, workers, lambda i, *ended: on_epoch(missing[i], *ended))
        for group in groups(missing, settings.together):
            joint = joint_step([members[i] for i in group], split, settings, shared.criterion)
            found = side_by_side([steps(i, joint) for i in group], None if joint is None else joint.run)
            for index, history in zip(group, found, strict=True):
                losses[index] = history
                work.note(losses=[losses[i] for i in sorted(losses)])
                _save(members[index], paths[index], history, of[index])
    return members


def _by_others(
    networks: Sequence[Network], shared: MemberTraining, workers: Workers, on_epoch: Callable[..., None]
) -> None:
    """Let torchrun's processes or workers train members, where there are any."""
    if processes() > 1 and shared.criterion is None:  # what a criterion holds is not sent
        train_on_all_ranks(networks, shared, on_epoch)
    elif workers.take(len(networks)):
        train_by_workers([(shared, network) for network in networks], workers, on_epoch)


def network_in(folder: Path, stem: str | int, architecture: Architecture) -> Network:
    """The member of a folder that is called so, as workers are told of it.

    The first ensemble's members are 0, 1, …; others carry their ensemble's name.
    """
    name = stem if folder.name == MEMBERS else f"{folder.name} {stem}"
    return Network(_checkpoint(folder / f"{stem}.safetensors"), architecture, name)


def copy_members(
    architectures: Sequence[Architecture], stems: Sequence[str], *, source: Path, folder: Path, seed: int
) -> list[list[float]]:
    """Copy trained networks with these file names from one folder to another as its members 0, 1, …; their losses."""
    losses = []
    for place, (stem, architecture) in enumerate(zip(stems, architectures, strict=True)):
        network, member = network_in(source, stem, architecture), network_in(folder, place, architecture)
        path = source / f"{stem}.safetensors"
        tensors, about = files.read_tensors(path, of=_of(network, seed))
        losses.append(list(files.about_json(about, "losses", path)))
        files.write_tensors(folder / f"{place}.safetensors", tensors, **about, of=_of(member, seed))
    return losses


def workers_of(split: Split, settings: MemberSettings) -> Workers:
    """Those that the recipe names: processes on a CPU, else this one, also under torchrun."""
    return Workers(settings.workers if split.device.type == "cpu" and processes() == 1 else 1)


def sizes_in_words(record: RunRecord) -> str:
    """A line for each trained member in a run's record: width, parameters, multiply-adds."""
    sizes = record.stage(MEMBERS)
    rows = zip(sizes.channels or (), sizes.each_parameters, sizes.multiply_adds or (), strict=False)
    return "\n".join(
        f"member {index}: {channels} channels, {count:,} parameters, {(cost or 0) / 1e6:.1f} million multiply-adds"
        for index, (channels, count, cost) in enumerate(rows, start=1)
    )


def _save(member: Member, path: Path, losses: list[float], of: str) -> None:
    """Write a trained member, and remove its checkpoint."""
    about = {"architecture": str(member.architecture), "losses": json.dumps(losses), "of": of}
    files.write_tensors(path, member.state_dict(), **about)
    files.discard(_checkpoint(path))


def _load(member: Member, path: Path, of: str) -> list[float]:
    """Put a trained member's weights into place; the mean loss of every epoch of its training."""
    tensors, about = files.read_tensors(path, next(member.parameters()).device, of=of)
    if about.get("architecture") != str(member.architecture):
        raise NesbsError(f"{path} holds another architecture than was chosen: remove {path.parent.name}/")
    files.load_into(member, tensors, path)
    member.eval()
    files.discard(_checkpoint(path))
    return list(files.about_json(about, "losses", path))


def _of(network: Network, seed: int) -> str:
    """Whose weights a file holds."""
    return f"member {network.name} of seed {seed}"


def _checkpoint(path: Path) -> Path:
    return path.with_suffix(".checkpoint.safetensors")
