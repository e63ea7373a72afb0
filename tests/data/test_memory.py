"""Memory: a data set is held once, and training does not add to it epoch by epoch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BYTES = 60_000 * 3072

CHILD = """
import json, os, sys
import torch
from nesbs.data import load_dataset
from nesbs.ensemble import MemberSettings, build_member, member_training
from nesbs.spaces import nasbench201
from nesbs.runs.stage_progress import peak_memory, reset_peak_memory
from nesbs.training import side_by_side

torch.set_num_threads(1)

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

space = nasbench201()
architecture = space.parse("|none~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|")
settings = MemberSettings(epochs=6, cells=1, channels=1, batch_size=100)

def train(split, on_epoch=None):
    member = build_member(space, architecture, split, settings, seed=0, name=0)
    side_by_side([member_training(member, split, settings, seed=0, name=0, on_epoch=on_epoch)])

train(load_dataset(train_limit=200, test_limit=10, size=32).train)  # libraries are loaded, pools are filled
reset_peak_memory()
before = resident()
data = load_dataset("cifar10", root=sys.argv[1])
parts = data.search_train, data.search_valid
loaded = peak_memory("cpu")
seen = []
train(data.train.subset(torch.arange(0, len(data.train), 50)), lambda epoch: seen.append(resident()))
shape, compiler = list(data.train.stored.shape), "torch._dynamo" in sys.modules
print(json.dumps({"before": before, "loaded": loaded, "epochs": seen, "shape": shape, "compiler": compiler}))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux to measure peak memory")
def test_cifar10_of_the_real_size_is_held_once(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    random = np.random.default_rng(0)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        records = random.integers(0, 256, (10_000, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(10_000) % 10
        records.tofile(folder / f"{name}.bin")
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        capture_output=True,
        text=True,
        # Blocks of 1 MiB and more go back to the system when they are freed: what is measured is what is held.
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "MALLOC_MMAP_THRESHOLD_": str(2**20)},
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["shape"] == [50_000, 3, 32, 32]
    assert not found["compiler"]  # training does not import torch's compiler, which takes seconds
    assert found["loaded"] - found["before"] <= 1.3 * BYTES
    assert found["loaded"] - found["before"] >= 0.9 * BYTES  # the measure sees the data at all
    # Kept from epoch to epoch, an epoch's images would add 12 MB as bytes in these four epochs, 49 MB as floats.
    assert max(found["epochs"][-2:]) - max(found["epochs"][1:3]) < 10 * 2**20
    assert max(found["epochs"]) - found["before"] <= 1.15 * BYTES  # the data, the network and a batch
