"""Where kernels are tested: on a GPU, or on a CPU in Triton's interpreter."""

import sys

import pytest
import torch


@pytest.fixture(autouse=True)
def _untraced_kernels(monkeypatch):
    """Inside the interpreter nothing is ours: following it line by line for coverage takes three times as long."""
    if torch.cuda.is_available():
        return
    from triton.runtime.interpreter import GridExecutor

    run = GridExecutor.__call__

    def untraced(*arguments, **named):
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return run(*arguments, **named)
        finally:
            sys.settrace(tracer)

    monkeypatch.setattr(GridExecutor, "__call__", untraced)


@pytest.fixture
def device(monkeypatch):
    """Where kernels can run here."""
    monkeypatch.setattr("nesbs.kernels.support.INTERPRETED", True)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    """Products of float32 in float32: on a GPU both ways would round them to TF32, and ReLU cut off other pixels."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture
def close(device):
    """Asserts that two tensors are equal but for rounding, which BatchNorm of small batches magnifies."""
    share = 1e-4 if device.type == "cpu" else 1e-3

    def check(one, two):
        torch.testing.assert_close(one, two, rtol=share, atol=share * float(two.detach().abs().max()))

    return check


@pytest.fixture
def large_blocks(monkeypatch, device):
    """In the interpreter the number of programs is what takes time."""
    if device.type == "cpu":
        monkeypatch.setattr("nesbs.kernels.edge_cell.PIXELS", 1024)
        monkeypatch.setattr("nesbs.kernels.edge_cell.VALUES", 2**17)
        monkeypatch.setattr("nesbs.kernels.pair_cell.BLOCK", 512)
