"""MC DropPath (after Gal and Ghahramani, 2016; paper, sec. 4): one network that drops paths when it predicts, too.

    p(y|x) = 1/M Σ_m softmax(f(x; mask_m)),   mask_m: each edge of each cell is dropped with probability p

Edges that hand their input on unchanged are never dropped, and what remains is divided by 1 − p, as in training.
"""

import torch
from torch import Tensor

from nesbs.data import Split
from nesbs.ensemble.members import BATCH_SIZE
from nesbs.errors import NesbsError
from nesbs.rivals.settings import RivalSettings
from nesbs.spaces import Member

DEFAULT = RivalSettings()


@torch.no_grad()
def mc_droppath(
    member: Member,
    split: Split,
    *,
    probability: float = 0.01,
    passes: int = DEFAULT.passes,
    generator: torch.Generator,
    batch_size: int = BATCH_SIZE,
) -> Tensor:
    """Logits of every pass for all images of a split, (passes, images, classes); `generator` lives on the CPU.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> data = load_dataset("fashion-mini", test_limit=10)
    >>> member = toy_edges().network(list(toy_edges())[-1], in_channels=1, channels=4, cells=1).eval()
    >>> mc_droppath(member, data.test, passes=3, generator=torch.Generator().manual_seed(0)).shape
    torch.Size([3, 10, 10])
    """
    if not 0 <= probability < 1:
        raise NesbsError(f"mc-droppath: the probability must be at least 0 and below 1, found {probability}")
    if passes < 1:
        raise NesbsError(f"mc-droppath: passes must be 1 or more, found {passes}")
    member.eval()
    logits = []
    for _ in range(passes):
        parts = []
        for index in torch.arange(len(split), device=split.device).split(batch_size):
            remains = torch.rand(*member.network.drop_paths, len(index), generator=generator) >= probability
            drop = (remains / (1 - probability)).to(split.device)
            parts.append(member.outputs(split.pixels(index), drop=drop)[0])
        logits.append(torch.cat(parts))
    return torch.stack(logits)
