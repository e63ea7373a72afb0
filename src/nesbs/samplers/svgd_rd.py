"""Algorithm 3: Stein variational gradient descent with regularised diversity (SVGD-RD).

The target arrives as a function, so nothing here depends on architectures. With an RBF kernel the
update is SVGD with its repulsion scaled by 1 + δ: δ = 0 is SVGD, δ = −1 has no repulsion, δ < −1 attracts.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from nesbs.errors import NesbsError, expect
from nesbs.samplers.settings import DEFAULT, SamplerSettings
from nesbs.settings import checked_keywords
from nesbs.training import capture_graph

LogDensity = Callable[[Tensor], Tensor]  # (…, dims) → (…); need not be normalised


@checked_keywords
def sample_svgd_rd(
    log_density: LogDensity,
    start: Tensor,
    *,
    delta: float | Tensor = 0.0,  # plain SVGD
    steps: int = DEFAULT.steps,
    step_size: float = DEFAULT.step_size,
    momentum: float = DEFAULT.momentum,
    bandwidth: float | None = DEFAULT.bandwidth,
    record: bool = False,
) -> Tensor:
    """Move particles towards high density and apart from each other; (particles, dims) to (particles, dims).

    `start` is not modified. More axes in front are independent runs in one computation: start (…, particles,
    dims) with `delta` a number or (…). The other defaults are the paper's, app. B.4 (`SamplerSettings`).
    `bandwidth` fixes the kernel's h; by default it follows the median rule at every step. With `record` a GPU runs
    each step in one launch; `log_density` must then not wait for the host.

    >>> target = lambda x: -0.5 * (x - 3).square().sum(-1)
    >>> sample_svgd_rd(target, torch.zeros(1, 2), delta=0.5, steps=200)
    tensor([[3.0000, 3.0000]])
    """
    SamplerSettings.of({"steps": steps, "step_size": step_size, "momentum": momentum, "bandwidth": bandwidth})
    expect(log_density, Callable, "log_density must be a function")  # type: ignore[arg-type]
    expect(start, Tensor, "start must be a tensor (…, particles, dims)")
    if start.ndim < 2 or start.numel() == 0 or not start.is_floating_point():
        found = f"{start.dtype} {tuple(start.shape)}"
        raise NesbsError(f"start must be floats (…, particles, dims), one particle or more, found {found}")
    if not bool(start.isfinite().all()):
        raise NesbsError("start must be finite: some of its particles are nowhere")
    expect(delta, (int, float, Tensor), "delta must be a number, or a tensor with one for each run")
    x = start.detach().clone()
    velocity = torch.zeros_like(x)
    # On the device once: a step copies nothing from the host.
    delta = torch.as_tensor(delta, dtype=x.dtype, device=x.device)
    if delta.ndim and delta.shape != start.shape[:-2]:
        raise NesbsError(f"delta must be one number or {tuple(start.shape[:-2])}, found {tuple(delta.shape)}")
    if not bool(delta.isfinite().all()):
        raise NesbsError(f"delta must be finite, found {delta.tolist()}")
    h = None if bandwidth is None else torch.as_tensor(bandwidth, dtype=x.dtype, device=x.device)

    def step() -> None:
        velocity.copy_(momentum * velocity + update(log_density, x, delta, h))
        x.copy_(x + step_size * velocity)

    run = capture_graph(step, [x, velocity]).replay if record and x.device.type == "cuda" else step
    for _ in range(steps):
        run()
    if not bool(x.isfinite().all()):
        raise NesbsError(f"the particles of SVGD-RD left all bounds: lower the step size ({step_size}) or delta")
    return x


def update(
    log_density: LogDensity, x: Tensor, delta: float | Tensor, bandwidth: float | Tensor | None = None
) -> Tensor:
    """Compute Algorithm 3, line 3, at every particle of x (…, particles, dims):

    φ(x_i) = 1/n Σ_j  k(x_j, x_i) ∇_{x_j} log p(x_j) + ∇_{x_j} k(x_j, x_i) − δ ∇_{x_i} k(x_j, x_i)
    """
    n = x.shape[-2]
    delta = torch.as_tensor(delta, dtype=x.dtype, device=x.device)[..., None, None]
    scores = score(log_density, x)
    squared = (x[..., :, None, :] - x[..., None, :, :]).square().sum(-1)  # (…, j, i): ‖x_j − x_i‖²
    h = median_bandwidth(squared) if bandwidth is None else torch.as_tensor(bandwidth).to(x)
    k = (-squared / h[..., None, None]).exp()  # k(x_j, x_i), the same as k(x_i, x_j)
    driven = k @ scores  # Σ_j k(x_j, x_i) ∇ log p(x_j)
    # Σ_j ∇_{x_j} k(x_j, x_i) = −2/h Σ_j k(x_j, x_i) (x_j − x_i), and Σ_j ∇_{x_i} k(x_j, x_i) is its negative.
    grad_j = -2 / h[..., None, None] * (k @ x - k.sum(-1, keepdim=True) * x)
    grad_i = -grad_j
    return (driven + grad_j - delta * grad_i) / n


def score(log_density: LogDensity, x: Tensor) -> Tensor:
    """Return ∇ log p at every particle, the shape of x."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        density = log_density(leaf)
        if not isinstance(density, Tensor) or density.shape != x.shape[:-1] or not density.requires_grad:
            raise NesbsError(
                "log_density must return a tensor with one number for each particle, (…, dims) to (…), that depends on "
                "the particles by torch's operations"
            )
        (gradient,) = torch.autograd.grad(density.sum(), leaf)
    return gradient


def median_bandwidth(squared: Tensor) -> Tensor:
    """Return h = median of the squared distances over pairs i < j, divided by log(n + 1); (…, n, n) to (…).

    A constant of the step: no gradient flows through it. One particle has no pairs; any h serves.
    """
    n = squared.shape[-1]
    if n == 1:
        return torch.ones_like(squared[..., 0, 0])
    first, second = torch.triu_indices(n, n, 1, device=squared.device)
    pairs = squared.detach()[..., first, second].sort(-1).values
    middle = (pairs[..., (pairs.shape[-1] - 1) // 2] + pairs[..., pairs.shape[-1] // 2]) / 2
    return (middle / math.log(n + 1)).clamp_min(1e-12)
