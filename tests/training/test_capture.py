"""Capturing work as a CUDA graph, as far as it can be seen without a GPU."""

import gc
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from nesbs.training.capture import capture_graph


@pytest.fixture
def imitated_gpu(monkeypatch):
    """`torch.cuda` as far as capturing needs it: the work is simply done."""
    for name, found in {
        "Stream": lambda: SimpleNamespace(wait_stream=lambda other: None),
        "current_stream": lambda: None,
        "stream": lambda stream: nullcontext(),
        "synchronize": lambda: None,
        "CUDAGraph": lambda: SimpleNamespace(replay=None, pool=lambda: None),
        "graph": lambda graph, **how: nullcontext(),
    }.items():
        monkeypatch.setattr(torch.cuda, name, found)


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_no_garbage_is_collected_while_a_graph_is_captured(imitated_gpu, ends):
    """A graph that nobody holds any more may be among it, and a GPU frees none while it captures another."""
    collects = []

    def work():
        collects.append(gc.isenabled())
        if ends == "badly" and len(collects) == 2:
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory") if ends == "badly" else nullcontext():
        capture_graph(work)
    assert collects == [True, False]  # the warm-up, and the capture
    assert gc.isenabled()
