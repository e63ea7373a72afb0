"""Members trained by several processes: the same bytes, whoever trained which epoch."""

import json
import platform
from dataclasses import replace

import pytest
import torch
from killed import ForkedWorker
from toys import tiny

from nesbs import files
from nesbs.cluster import Result, Workers
from nesbs.errors import DivergedError, NesbsError
from nesbs.runs import by_workers
from nesbs.runs.by_workers import EpochTask, MemberTraining, Network, Trainings, train_by_workers
from nesbs.spaces import toy_edges

FIXED = [
    "ensemble.architectures=['|nor_conv_3x3~0|+|none~0|nor_conv_3x3~1|']",
    "ensemble.size=3",
    "evaluation.uniform=false",
]


def files_of(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "members").iterdir())}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A run whose members this process has trained."""
    run = tiny(tmp_path_factory.mktemp("alone") / "run", changes=FIXED)
    run.ensemble()
    return run


def test_two_processes_train_members_of_the_same_bytes(alone, tmp_path, monkeypatch):
    if not torch.cuda.is_available():  # which cannot be forked
        monkeypatch.setattr("nesbs.cluster.processes.subprocess.Popen", ForkedWorker)
    run = tiny(tmp_path / "run", changes=[*FIXED, "members.workers=2"])
    run.ensemble()
    assert files_of(run.folder) == files_of(alone.folder)  # no checkpoint is left
    record, other = (
        json.loads((each.folder / "record.json").read_text())["stages"]["members"] for each in (run, alone)
    )
    assert record.pop("workers") == 2
    assert record["losses"] == other["losses"]


def prepared(run):
    """The three members of a run, to be trained by workers; the tasks of their next epochs, and what these share."""
    shared = MemberTraining(run.space, run.train_images, run.recipe.members, run.recipe.seed)
    architecture = toy_edges().parse(run.recipe.ensemble.architectures[0])
    folder = run.folder / "members"
    networks = [Network(folder / f"{name}.checkpoint.safetensors", architecture, name) for name in range(3)]
    return [(shared, network) for network in networks], Trainings((shared,), "cpu")


def next_epoch(networks, shared, index):
    """Train one network's next epoch and keep its state; the epoch."""
    network = networks[index][1]
    state = network.checkpoint.read_bytes() if network.checkpoint.is_file() else None
    trained = EpochTask(index, 0, network, state)(shared)
    files.write_bytes(network.checkpoint, trained.state)
    [epoch] = trained.epochs
    assert epoch.peak_memory > 2**20 or not epoch.seconds  # of this process, unless nothing was left to train
    return epoch


def test_a_task_is_one_epoch_and_resumes_from_the_last(alone, tmp_path):
    run = tiny(tmp_path / "run", changes=FIXED)
    networks, shared = prepared(run)
    assert [next_epoch(networks, shared, 1).number for _ in range(3)] == [1, 2, 2]  # the last has nothing left to do
    next_epoch(networks, shared, 2)
    run.ensemble()
    assert files_of(run.folder) == files_of(alone.folder)


def test_on_a_gpu_a_task_has_as_many_epochs_as_some_minutes_hold(tmp_path, monkeypatch):
    networks, shared = prepared(tiny(tmp_path / "run", changes=FIXED))
    monkeypatch.setattr(Trainings, "placed", shared.kinds)
    task = EpochTask(0, 0, networks[0][1], None)
    assert [epoch.number for epoch in task(replace(shared, device="cuda")).epochs] == [1, 2]
    monkeypatch.setattr(by_workers, "GPU_SECONDS", 0.0)
    assert [epoch.number for epoch in task(replace(shared, device="cuda")).epochs] == [1]


def test_the_member_with_the_most_epochs_left_comes_next(tmp_path):
    networks, shared = prepared(tiny(tmp_path / "run", changes=FIXED))
    next_epoch(networks, shared, 1)  # has one of its two epochs already
    told = []
    train_by_workers(networks, Workers(), lambda index, epoch, node: told.append((index, epoch.number, node)))
    here = platform.node()
    assert told == [(0, 1, here), (2, 1, here), (0, 2, here), (1, 2, here), (2, 2, here)]


def test_no_member_is_trained_by_two_at_once(tmp_path, monkeypatch):
    networks, _ = prepared(tiny(tmp_path / "run", changes=FIXED))

    def two_at_work(next_task, shared, *, workers, gpu):
        """Ends the older of two tasks at a time."""
        at_work = [next_task(), next_task()]
        while at_work:
            assert len({task.index for task in at_work}) == len(at_work)
            yield Result(at_work.pop(0)(shared), "")
            following = next_task()
            at_work += [] if following is None else [following]

    monkeypatch.setattr(by_workers, "run_tasks", two_at_work)
    told = []
    train_by_workers(networks, Workers(2), lambda index, epoch, node: told.append((index, epoch.number)))
    assert sorted(told) == [(index, number) for index in range(3) for number in (1, 2)]


def test_images_go_to_a_device_once_however_many_trainings_share_them(tmp_path, monkeypatch):
    _, shared = prepared(tiny(tmp_path / "run", changes=FIXED))
    split, moved = shared.kinds[0].split, []
    monkeypatch.setattr(type(split), "to", lambda self, device: (moved.append(device), replace(self))[1])
    one, other = Trainings((shared.kinds[0], replace(shared.kinds[0], seed=1)), "cpu").placed
    assert moved == ["cpu"]
    assert one.split is other.split


def test_a_diverging_member_is_named(tmp_path):
    run = tiny(
        tmp_path / "run",
        changes=[
            *FIXED,
            "members.learning_rate=1e6",
            "members.weight_decay=1e6",
            "members.clip=null",
            "members.epochs=9",
        ],
    )
    networks, _ = prepared(run)
    with pytest.raises(DivergedError, match="training member 1: the loss is not a number at epoch "):
        train_by_workers(networks, Workers(), lambda *_: None)


def test_a_damaged_checkpoint_is_named_as_it_lies_in_the_run_folder(tmp_path):
    networks, _ = prepared(tiny(tmp_path / "run", changes=FIXED))
    path = networks[0][1].checkpoint
    files.write_bytes(path, b"not a checkpoint")
    with pytest.raises(NesbsError, match=f"{path} is not a whole safetensors file"):
        train_by_workers(networks, Workers(), lambda *_: None)
