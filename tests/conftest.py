"""Shared by all tests: one thread, so that nothing waits for a busy core, and small data made on the spot."""

import gc
import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, and for the commands that tests start

import pytest
import torch

if not torch.cuda.is_available():  # before anything imports Triton: kernels are tested in its interpreter
    os.environ["TRITON_INTERPRET"] = "1"

from nesbs.data import Dataset, load_dataset
from nesbs.data.split import make_split

torch.set_num_threads(1)  # also for fixtures that outlive a test
gc.set_threshold(50_000, 20, 20)  # in place of 700, 10, 10: tests make many small things that need no collector


def pytest_collection_finish():
    """Take what is loaded by now out of the collector's sight: it would be looked through again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _always_the_same():
    """Whatever ran before: one thread, and the same random weights."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def random():
    return torch.Generator().manual_seed(0)


@pytest.fixture
def shapes_alone(monkeypatch):
    """Networks are built without drawing their weights: half of the time, where sizes are all that is asked for."""
    for kind in (torch.nn.modules.conv._ConvNd, torch.nn.Linear, torch.nn.BatchNorm2d):
        monkeypatch.setattr(kind, "reset_parameters", lambda self: None)


@pytest.fixture(scope="session")
def mini() -> Dataset:
    """A few hundred real images, at half their size."""
    return load_dataset("fashion-mini", train_limit=300, test_limit=100, size=16)


@pytest.fixture(scope="session")
def noise() -> Dataset:
    """64 + 32 random grey images 8×8 of three classes: for tests of plumbing, in milliseconds."""
    g = torch.Generator().manual_seed(0)

    def split(count, like=None):
        images = torch.randint(0, 256, (count, 1, 8, 8), generator=g, dtype=torch.uint8)
        return make_split(images, torch.arange(count) % 3, ("a", "b", "c"), source="noise", like=like)

    train = split(64)
    return Dataset("noise", train, split(32, train))
