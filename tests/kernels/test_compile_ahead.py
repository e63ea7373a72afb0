"""Kernels are compiled side by side, once for each version, and nothing runs meanwhile."""

import pytest
import torch

from nesbs.kernels.compile_ahead import compile_ahead


def test_every_version_of_a_kernel_is_compiled_once_and_none_is_run(device, monkeypatch):
    if device.type == "cuda":
        pytest.skip("asks what would be compiled")
    from nesbs.kernels import edge_programs as programs

    compiled = []

    def warmup(self, *arguments, grid, **named):
        compiled.append((self.fn.__name__, arguments[0], named["C"]))

    monkeypatch.setattr(type(programs.moments), "warmup", warmup)
    sums = torch.zeros(1, 1, 2, 16)

    def work():
        for pixels in (32, 48):  # 16 divides both: one version
            for dtype in (torch.float32, torch.bfloat16):
                rows = torch.ones(1, pixels, 16, dtype=dtype)
                programs.moments[1, 1](rows, sums, 1, pixels, C=16, BLOCK=16)

    compile_ahead(work)
    assert sorted(compiled, key=str) == [("moments", torch.bfloat16, 16), ("moments", torch.float32, 16)]
    assert float(sums.abs().max()) == 0
    work()  # afterwards they run
    assert sums.flatten().tolist() == [48.0] * 32
