"""Members trained by several processes: the same bytes, whoever trained which epoch."""

import json

import pytest
import torch
from killed import ForkedWorker
from toys import tiny

from nesbs.ensemble import MemberSettings
from nesbs.errors import DivergedError
from nesbs.runs import member_processes
from nesbs.runs.member_processes import MemberEpoch, MemberTraining, train_in_processes
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
        monkeypatch.setattr("nesbs.cluster.tasks.subprocess.Popen", ForkedWorker)
    run = tiny(tmp_path / "run", changes=[*FIXED, "members.workers=2"])
    run.ensemble()
    assert files_of(run.folder) == files_of(alone.folder)  # no checkpoint is left
    record, other = (
        json.loads((each.folder / "record.json").read_text())["stages"]["members"] for each in (run, alone)
    )
    assert record.pop("workers") == 2
    assert record["losses"] == other["losses"]


def prepared(run):
    """What the members of a run share, and the task of each."""
    settings = MemberSettings.of({**run.recipe.members.model_dump(), "workers": 1})
    shared = MemberTraining(run.space, run.train_images, settings, run.recipe.seed)
    [architecture] = run.recipe.ensemble.architectures
    folder = run.folder / "members"
    return shared, [
        MemberEpoch(index, toy_edges().parse(architecture), index, folder / f"{index}.checkpoint.safetensors")
        for index in range(3)
    ]


def test_a_task_is_one_epoch_and_resumes_from_the_last(alone, tmp_path):
    run = tiny(tmp_path / "run", changes=FIXED)
    shared, tasks = prepared(run)
    assert [tasks[1](shared)[1].number for _ in range(3)] == [1, 2, 2]  # the last has nothing left to do
    tasks[2](shared)
    run.ensemble()
    assert files_of(run.folder) == files_of(alone.folder)


def test_the_member_with_the_most_epochs_left_comes_next(tmp_path):
    shared, tasks = prepared(tiny(tmp_path / "run", changes=FIXED))
    tasks[1](shared)  # has one of its two epochs already, which shows when its next has ended
    told = []
    train_in_processes(tasks, shared, lambda index, epoch: told.append((index, epoch.number)))
    assert told == [(0, 1), (1, 2), (2, 1), (0, 2), (2, 2)]


def test_no_member_is_trained_by_two_at_once(tmp_path, monkeypatch):
    shared, tasks = prepared(tiny(tmp_path / "run", changes=FIXED))

    def two_at_work(next_task, shared, *, workers):
        """Ends the older of two tasks at a time."""
        at_work = [next_task(), next_task()]
        while at_work:
            assert len({task.index for task in at_work}) == len(at_work)
            yield at_work.pop(0)(shared)
            following = next_task()
            at_work += [] if following is None else [following]

    monkeypatch.setattr(member_processes, "run_tasks", two_at_work)
    told = []
    train_in_processes(tasks, shared, lambda index, epoch: told.append((index, epoch.number)))
    assert sorted(told) == [(index, number) for index in range(3) for number in (1, 2)]


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
    shared, tasks = prepared(run)
    with pytest.raises(DivergedError, match="training member 0: the loss is not a number at epoch "):
        train_in_processes(tasks, shared, lambda index, epoch: None)
