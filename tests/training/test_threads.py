"""Threads: as many as are asked for, also by libraries that torch does not tell."""

import subprocess
import sys

import torch

from nesbs.training.threads import use_threads

# A process of its own, whose OpenMP has the threads of all cores: CPU seconds a second while convolutions run.
BUSY = """
import sys, time
import torch
from nesbs.training.threads import use_threads
use_threads(int(sys.argv[1]))
images = torch.zeros(64, 8, 20, 20).to(memory_format=torch.channels_last)
layer = torch.nn.Conv2d(8, 8, 3, padding=1).to(memory_format=torch.channels_last)
with torch.no_grad():
    layer(images)
    began, worked = time.perf_counter(), time.process_time()
    while time.perf_counter() < began + 0.3:
        layer(images)
print((time.process_time() - worked) / (time.perf_counter() - began))
"""


def test_one_thread_is_one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    ended = subprocess.run([sys.executable, "-c", BUSY, "1"], capture_output=True, text=True, check=True)
    assert float(ended.stdout) < 1.1  # two where a library takes every core


def test_torch_is_told():
    use_threads(3)
    assert torch.get_num_threads() == 3
