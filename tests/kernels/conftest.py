"""Where kernels are tested: on a GPU, or on a CPU in Triton's interpreter."""

import pytest
import torch

from nesbs import kernels


@pytest.fixture
def device(monkeypatch):
    """Where kernels can run here."""
    monkeypatch.setattr(kernels, "INTERPRETED", True)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture
def large_blocks(monkeypatch, device):
    """In the interpreter the number of programs is what takes time."""
    if device.type == "cpu":
        monkeypatch.setattr("nesbs.kernels.fused.PIXELS", 1024)
        monkeypatch.setattr("nesbs.kernels.fused.VALUES", 2**17)
        monkeypatch.setattr("nesbs.kernels.pair_cell.BLOCK", 512)
