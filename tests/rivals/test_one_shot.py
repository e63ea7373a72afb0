"""One-shot methods: each finds what was planted, keeps to its own rule, and resumes."""

import importlib
import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nesbs import metrics, rng
from nesbs.data import SearchValid
from nesbs.data.split import make_split
from nesbs.posterior import Posterior
from nesbs.rivals import SearchRequest, darts, enas, gdas, rsps, setn, snas, uniform_pool
from nesbs.rivals.darts import derive, hyper_gradient, open_gates
from nesbs.rivals.enas import Controller
from nesbs.rivals.learner import Ascent, Learner, live_path
from nesbs.spaces import nasbench201, toy_edges, toy_pairs
from nesbs.supernet import Estimator, Supernet, SupernetSettings, build_supernet, content_order

SMALL = SupernetSettings(epochs=2, cells=1, channels=2, batch_size=16, crop=0, flip=False, skip_dead=True)
SEARCHES = {
    "darts": darts,
    "darts second order": partial(darts, second_order=True),
    "gdas": gdas,
    "setn": setn,
    "enas": enas,
    "snas": snas,
}


def test_a_dead_path_is_taken_where_there_is_no_other(noise):
    space, drawn = toy_edges(), []
    dead = next(path for path in space if space.is_dead(path))
    request = SearchRequest(space, noise.search_train, noise.search_valid, SMALL)
    alone = live_path(request, lambda: (drawn.append(1), dead)[1])
    assert alone == dead
    assert len(drawn) == 100
    live = next(path for path in space if not space.is_dead(path))
    paths = iter([dead, dead, live])
    assert live_path(request, lambda: next(paths)) == live


class Planted(nn.Module):
    """Stands in for a supernet: the nearer an architecture is to the planted one, the surer it is of the label.

    A label is the colour of its image.
    """

    def __init__(self, space, target):
        super().__init__()
        self.space = space
        self.target = space.gates(self.chosen(space, target))
        self.scale = nn.Parameter(torch.ones(()))
        self.normalise = nn.Identity()

    def check_data(self, channels, classes):
        """Any images will do."""

    @staticmethod
    def chosen(space, architecture):
        index = torch.tensor(space.encode(architecture))
        width = max(len(variable.choices) for variable in space.variables)
        return F.one_hot(index.clamp_min(0), width).float() * (index >= 0)[:, None]

    def forward(self, images, architecture):
        return self.mixture(images, self.space.gates(self.chosen(self.space, architecture)))

    def mixture(self, images, gates):
        labels = (images[:, 0, 0, 0] * 255 / 50).round().long()
        good = (gates * self.target).sum() / self.target.sum()
        doubt = torch.linspace(0, 1, len(labels))[:, None]  # the first images are easy, the last need all of it
        return self.scale * 8 * (good - doubt) * F.one_hot(labels, 3).float()

    mixture_of_open = mixture


def coloured(count):
    labels = torch.arange(count) % 3
    images = (labels[:, None, None, None] * 50).expand(-1, 1, 8, 8).to(torch.uint8)
    return make_split(images.contiguous(), labels, ("a", "b", "c"), source="colours")


@pytest.fixture
def planted(monkeypatch):
    """Puts a planted architecture in the place of every supernet; returns it."""

    def plant(space, target):
        def build(*_, **__):
            return Supernet(space, Planted(space, target))

        monkeypatch.setattr("nesbs.rivals.request.build_supernet", build)
        return target

    return plant


@pytest.mark.parametrize("make", [toy_edges, toy_pairs])
@pytest.mark.parametrize("name", SEARCHES)
def test_the_planted_architecture_is_found(name, make, planted):
    space, train = make(), coloured(96)
    target = planted(space, space.sample(3, generator=torch.Generator().manual_seed(5))[2])
    assert target != space.architecture([0] * len(space.variables))  # what nothing learned ends with
    steps = {"gdas": 25, "snas": 25}.get(name, 15)
    settings = SMALL.model_copy(update={"epochs": steps, "skip_dead": False, "learning_rate": 1e-3})
    # Judging more at the end would find it without learning anything: few are drawn.
    more = {"samples": 3} if name in ("setn", "enas") else {}
    rate = 0.01 if name == "enas" else 0.1
    held_out = SearchValid(**vars(train))
    found = SEARCHES[name](SearchRequest(space, train, held_out, settings, learning_rate=rate, **more))
    assert found.architecture == target


def test_gdas_cools_from_its_first_epoch_to_its_last(noise, monkeypatch):
    module = importlib.import_module("nesbs.rivals.gdas")  # the package has the function under this name
    seen, original = [], module.straight_through
    monkeypatch.setattr(module, "straight_through", lambda f, tau: (seen.append(tau), original(f, tau))[1])
    settings = SMALL.model_copy(update={"epochs": 3})
    gdas(SearchRequest(toy_edges(), noise.search_train, noise.search_valid, settings))
    assert list(dict.fromkeys(seen)) == pytest.approx([10, 5.05, 0.1])


def test_second_order_agrees_with_finite_differences():
    weight, alpha = torch.tensor([0.7], requires_grad=True), torch.tensor([0.3], requires_grad=True)

    def train_loss(a):
        return ((weight - a.sin() * 2) ** 2 + 0.3 * weight * a**2).sum()

    def valid_loss(a):
        return ((weight * 1.5 - 1) ** 2 + 0.1 * a * weight).sum()

    step_size = 0.2
    found = hyper_gradient(train_loss, valid_loss, [weight], alpha, step_size)

    def after_a_step(a):
        (slope,) = torch.autograd.grad(train_loss(a), weight)
        moved = weight.detach().double() - step_size * slope.double()
        return float((moved * 1.5 - 1) ** 2 + 0.1 * a.double() * moved)

    reach = 1e-2
    with_more, with_less = (after_a_step(alpha.detach() + sign * reach) for sign in (1, -1))
    expected = (with_more - with_less) / (2 * reach)
    assert float(found) == pytest.approx(expected, rel=2e-3)
    first = hyper_gradient(train_loss, valid_loss, [weight], alpha, 0.0)
    assert abs(float(first) - expected) > 0.1 * abs(expected)  # the first order is another number
    assert weight.tolist() == pytest.approx([0.7])  # put back


def test_darts_opens_every_edge_and_keeps_the_strongest(random):
    space = toy_pairs()
    posterior = Posterior(space, torch.randn(Posterior(space).logits.shape, generator=random))
    gates = open_gates(posterior)
    torch.testing.assert_close(gates.sum(-1), torch.ones(gates.shape[:-1]))  # every input of every node, once
    architecture = derive(posterior)
    for kind, cell in enumerate(architecture.cells):
        for target, node in enumerate(cell, start=2):
            places = {source: space.edges.index((target, source)) for source in range(target)}
            strength = {source: float(gates[kind, place].max()) for source, place in places.items()}
            assert {source for _, source in node} == set(sorted(strength, key=strength.get)[-2:])
            for op, source in node:
                assert op == space.operations[int(gates[kind, places[source]].argmax())]
    edges = Posterior(nasbench201(), torch.randn(6, 5, generator=random))
    assert derive(edges) == edges.mode()


def test_rsps_keeps_ten_by_one_batch_and_the_best_by_all(noise):
    space, split = toy_edges(), noise.search_valid
    supernet = build_supernet(space, split, SMALL, seed=0)
    found = rsps(SearchRequest(space, noise.search_train, split, samples=27, batch_size=16, seed=3), supernet)
    drawn = uniform_pool(space, 27, generator=rng.generator(3, "rsps"))

    def errors(images, architectures):
        predicted = Estimator(supernet, images, batch_size=16).log_probs(architectures)
        return dict(zip(architectures, metrics.error(predicted, images.labels).tolist(), strict=True))

    first = errors(split.subset(content_order(split)[:16]), drawn)
    finalists = sorted(drawn, key=first.__getitem__)[:10]
    whole = errors(split, finalists)
    assert whole[found.architecture] == min(whole.values())
    assert found.architecture in finalists
    everything = errors(split, drawn)
    assert found.supernet is supernet
    assert everything[found.architecture] >= min(everything.values())


def test_setn_trains_uniform_paths_whatever_its_evaluator_says(noise, monkeypatch):
    space, seen = toy_edges(), []
    original = Supernet.forward

    def forward(self, images, architecture):
        if torch.is_grad_enabled():
            seen.append(architecture)
        return original(self, images, architecture)

    monkeypatch.setattr(Supernet, "forward", forward)
    settings = SMALL.model_copy(update={"epochs": 75, "batch_size": 22, "skip_dead": False})
    setn(SearchRequest(space, noise.search_train, noise.search_valid, settings, learning_rate=1.0, samples=5))
    # The evaluator, at such a rate, is certain soon; what is trained stays uniform.
    assert len(seen) >= 150
    counts = torch.stack([torch.tensor(space.encode(path)) for path in seen])
    for edge in range(3):
        shares = counts[:, edge].bincount(minlength=3) / len(seen)
        assert float((shares - 1 / 3).abs().max()) < 0.13


def test_the_controllers_probabilities_are_those_of_its_draws(random):
    space = toy_pairs()
    torch.manual_seed(0)
    controller = Controller(space)
    with torch.no_grad():
        picks, log_prob, entropy = controller(4000, random)
    assert picks.shape == (4000, len(space.variables))
    # Entropy is the mean of −log p, since decisions without a part count in neither.
    assert float(entropy.mean()) == pytest.approx(float(-log_prob.mean()), abs=0.1)
    plays = torch.tensor([[choice >= 0 for choice in space.encode(space.architecture(row))] for row in picks.tolist()])
    assert not bool(plays.all())
    assert len({space.architecture(row) for row in picks.tolist()}) > 500


def test_adam_is_that_of_the_authors_of_darts(noise):
    ascent = Ascent.of_darts(lambda _: None)
    assert (ascent.learning_rate, ascent.momentum, ascent.weight_decay) == (3e-4, 0.5, 1e-3)
    learner = Learner(build_supernet(toy_edges(), noise.search_train, SMALL, seed=0))
    logits = torch.zeros(3, 3, requires_grad=True)
    adam = torch.optim.Adam([logits], lr=0.05, maximize=True, betas=(0.5, 0.999), weight_decay=1e-3)
    random = torch.Generator().manual_seed(0)
    for _ in range(3):
        logits.grad = torch.randn(3, 3, generator=random)
        learner.climb(logits.grad, 0.05, momentum=ascent.momentum, weight_decay=ascent.weight_decay)
        adam.step()
    torch.testing.assert_close(learner.logits, logits.detach())


def test_the_second_order_looks_a_step_of_training_ahead(noise, monkeypatch):
    sizes = []

    def hyper_gradient(train_loss, valid_loss, weights, alpha, step_size):
        sizes.append(step_size)
        return torch.zeros_like(alpha)

    monkeypatch.setitem(darts.__globals__, "hyper_gradient", hyper_gradient)
    darts(SearchRequest(toy_edges(), noise.search_train, noise.search_valid, SMALL), second_order=True)
    # As long as the training's own step, which goes down by a cosine over all batches of the images it learns from.
    total = SMALL.epochs * (len(noise.search_train) // SMALL.batch_size)
    cosine = [SMALL.learning_rate * (1 + math.cos(math.pi * step / total)) / 2 for step in range(total)]
    assert sizes == pytest.approx(cosine)


def test_the_second_order_does_not_drown_in_low_precision(noise):
    """Central differences of rounded losses are none: its search is in float32 whatever the supernet's precision is."""

    def weights(second_order, precision):
        settings = SMALL.model_copy(update={"precision": precision})
        request = SearchRequest(toy_edges(), noise.search_train, noise.search_valid, settings)
        return torch.cat([each.flatten() for each in darts(request, second_order=second_order).supernet.parameters()])

    assert torch.equal(weights(True, "bfloat16"), weights(True, "float32"))
    assert not torch.equal(weights(False, "bfloat16"), weights(False, "float32"))


@pytest.mark.parametrize("name", ["darts second order", "gdas", "enas"])
def test_a_stop_loses_nothing(name, noise, tmp_path):
    class StopError(Exception):
        pass

    def stop(epoch):
        if epoch.number == 1:
            raise StopError

    def search(**more):
        return SEARCHES[name](SearchRequest(toy_edges(), noise.search_train, noise.search_valid, SMALL, **more))

    whole, checkpoint = search(), tmp_path / "state.safetensors"
    with pytest.raises(StopError):
        search(checkpoint=checkpoint, on_epoch=stop)
    resumed = search(checkpoint=checkpoint)
    assert resumed.architecture == whole.architecture
    pairs = zip(whole.supernet.parameters(), resumed.supernet.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
