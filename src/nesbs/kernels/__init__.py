"""Kernels for a GPU, written in Triton: many paths of a cell at once, BatchNorm, depthwise convolutions."""

from __future__ import annotations

import torch
from torch import Tensor

from nesbs.kernels.support import power_of_two, usable


def batch_norm(x: Tensor, batches: int, affine: Tensor | None = None, running: Tensor | None = None) -> Tensor | None:
    """BatchNorm of several batches in a row, each by itself; None where no kernel can.

    Offset and scale `affine` and running averages of mean and variance `running`, which are changed, are
    (batches, two, channels); without them neither has any part in it.
    """
    if not (usable(x.device) and power_of_two(x.shape[1]) and x.dtype in (torch.float32, torch.bfloat16)):
        return None
    from nesbs.kernels.edge_cell import FusedBatchNorm  # needs Triton

    out: Tensor = FusedBatchNorm.apply(x, batches, affine, running)
    return out
