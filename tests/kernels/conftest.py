"""Where kernels are tested: on a GPU, or on a CPU in Triton's interpreter."""

import pytest
import torch

from nesbs import kernels


@pytest.fixture
def device(monkeypatch):
    """Where kernels can run here."""
    monkeypatch.setattr(kernels, "INTERPRETED", True)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
