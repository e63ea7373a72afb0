"""A captured network is the network: logits and gradients, in whatever order they are asked for."""

import pytest
import torch
from torch import nn

from nesbs.attacks import Pgd
from nesbs.attacks.captured import BEFORE, LARGEST, CapturedModel

GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS:UserWarning"),  # torch's, of its thread for gradients
]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=GPU)])
def network(request, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)]
    return nn.Sequential(*layers).to(request.param).eval().requires_grad_(False)


def images_of(count, network):
    return torch.rand(count, 3, 8, 8, device=next(network.parameters()).device)


def captured(network, *, count=5):
    """A model that has seen enough batches to be captured."""
    made = CapturedModel(network)
    for _ in range(BEFORE):
        made(images_of(count, network))
    return made


def with_gradient(model, images):
    images = images.clone().requires_grad_()
    logits = model(images)
    return images, logits, torch.linspace(-1, 1, logits.numel(), device=images.device).view_as(logits)


def test_logits_and_gradients_are_the_networks(network):
    made = captured(network)
    for count in (5, 11, 16, 3):  # one size, filled up with what earlier batches left
        ours, theirs = (
            with_gradient(model, images) for images in [images_of(count, network)] for model in (made, network)
        )
        torch.testing.assert_close(ours[1], theirs[1])
        back = [torch.autograd.grad(logits, images, slope)[0] for images, logits, slope in (ours, theirs)]
        torch.testing.assert_close(*back)
        assert float(back[0].abs().max()) > 0
    [size] = made._sizes.values()
    assert size.calls == 4  # it was the graph that answered


def test_an_earlier_batch_keeps_its_logits_and_its_gradient(network):
    made = captured(network)
    first, second = images_of(5, network), images_of(6, network)
    images, logits, slope = with_gradient(made, first)
    made(second)
    torch.testing.assert_close(logits, network(first))
    expected, plain, _ = with_gradient(network, first)
    for factor in (1, 2):  # twice from one forward pass
        [back] = torch.autograd.grad(logits, images, factor * slope, retain_graph=True)
        torch.testing.assert_close(back, torch.autograd.grad(plain, expected, factor * slope, retain_graph=True)[0])


def test_large_batches_and_rare_sizes_are_not_captured(network):
    made = CapturedModel(network)
    for _ in range(BEFORE):
        made(images_of(5, network))
    for _ in range(BEFORE + 2):
        made(images_of(LARGEST + 1, network))
    assert not made._sizes


def test_a_network_sees_one_size_before_it_is_captured_and_then():
    """A GPU computes another size by other kernels, whose rounding AutoAttack takes for chance."""
    network, seen = nn.Sequential(nn.Flatten(), nn.Linear(192, 5)).requires_grad_(False), []
    made = CapturedModel(lambda images: (seen.append(len(images)), network(images))[1])
    for _ in range(BEFORE + 2):
        ours, theirs = (with_gradient(model, torch.full((5, 3, 8, 8), 0.5)) for model in (made, network))
        torch.testing.assert_close(ours[1], theirs[1])
        back = [torch.autograd.grad(logits, images, slope)[0] for images, logits, slope in (ours, theirs)]
        torch.testing.assert_close(*back)
    assert set(seen) == {16}


def test_a_network_that_sees_nothing_has_no_gradient():
    made = CapturedModel(lambda images: torch.zeros(len(images), 5))
    images = torch.rand(5, 3, 8, 8, requires_grad=True)
    for _ in range(BEFORE + 2):
        assert not made(images).requires_grad


def test_an_attack_finds_the_same_images(network):
    images, labels = images_of(20, network), torch.arange(20, device=next(network.parameters()).device) % 5
    attack = Pgd(epsilon=0.1, step_size=0.02, steps=10)
    ours, plain = (attack.perturb(model, images, labels) for model in (CapturedModel(network), network))
    torch.testing.assert_close(ours, plain)
    assert float((ours - images).abs().max()) == pytest.approx(0.1)
