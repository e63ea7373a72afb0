"""The ensemble methods: hand-worked selections, an evolution that ages, DropPath that does nothing at 0, cycles."""

import math

import pytest
import torch
from spaces_differences import edges_changed

from nesbs.data import load_dataset
from nesbs.ensemble import MemberSettings, ensemble_losses, forward_select, train_ensemble
from nesbs.errors import NesbsError
from nesbs.evaluation import evaluate
from nesbs.rivals import deep, evolve, mc_droppath, mutate, nes_re, nes_rs, single_best, snapshot, uniform_pool, urs
from nesbs.rivals.snapshot import cycles
from nesbs.spaces import EdgeSpace, darts, nasbench201, toy_edges, toy_pairs, zoo
from nesbs.training import learning_rate

SPACE = toy_edges()
A, B, C, D = list(SPACE)[:4]
# The probability that each network gives the label of each of two images.
TABLE = {A: (0.6, 0.6), B: (0.9, 0.3), C: (0.3, 0.9), D: (0.55, 0.55)}
SMALL = MemberSettings(epochs=3, cells=1, channels=2, batch_size=16, crop=0, learning_rate=0.05)


def score(ensembles):
    """The loss of mean probabilities, by the table."""
    predictions = torch.tensor([[[p, 1 - p] for p in row] for row in TABLE.values()]).log()
    known = list(TABLE)
    labels = torch.zeros(2, dtype=torch.int64)
    return torch.stack(
        [ensemble_losses(predictions, labels, torch.tensor([[known.index(m) for m in e]]))[0] for e in ensembles]
    )


def loss(*probabilities):
    return -sum(math.log(p) for p in probabilities) / len(probabilities)


def test_forward_select_equals_selections_worked_by_hand():
    # Alone: A −ln 0.6 = 0.511, B and C 0.655, D 0.598. A first. With A: B (0.75, 0.45) 0.543, C the same by
    # symmetry, D (0.575, 0.575) 0.553: B, the first of equals. With A, B: C (0.6, 0.6) 0.511, D (0.683, 0.483)
    # 0.554. The best pair, B and C at (0.6, 0.6), is never looked at: greedy begins with the best alone.
    for size, members, probabilities in (
        (1, [A], (0.6, 0.6)),
        (2, [A, B], (0.75, 0.45)),
        (3, [A, B, C], (0.6, 0.6)),
        (4, [A, B, C, D], (0.5875, 0.5875)),
    ):
        found, at = forward_select([D, A, B, C], size, score)
        assert found == members
        assert at == pytest.approx(loss(*probabilities))
        assert nes_rs([D, A, B, C], size, score).architectures == tuple(members)
    chosen = nes_rs([D, A, B, C], 2, score)
    assert dict(chosen.candidates)[D] == pytest.approx(loss(0.55, 0.55))
    assert chosen.loss == pytest.approx(loss(0.75, 0.45))
    with pytest.raises(NesbsError, match="needs as many different candidates, found 2"):
        nes_rs([A, B, A], 3, score)


def test_urs_keeps_the_best_round_and_single_best_the_best_network():
    # Rounds (A, B) 0.543 and (D, C) (0.425, 0.725) 0.589; a fifth architecture makes no round.
    assert urs([D, C, A, B, D], 2, score).architectures == (A, B)
    assert len(urs([D, C, A, B, D], 2, score).candidates) == 4
    assert urs([D, C], 2, score).loss == pytest.approx(loss(0.425, 0.725))
    assert single_best([D, C, A, B], score).architectures == (A,)
    with pytest.raises(NesbsError, match="holds no ensemble of 3: raise rivals.pool"):
        urs([A, B], 3, score)


def test_a_pool_is_different_architectures_and_grows_at_its_end(random):
    pool = uniform_pool(SPACE, 20, generator=random)
    assert len(set(pool)) == 20
    assert uniform_pool(SPACE, 5, generator=torch.Generator().manual_seed(0)) == pool[:5]
    with pytest.raises(NesbsError, match="larger than space toy-edges .27.: lower rivals.pool"):
        uniform_pool(SPACE, 28, generator=random)


@pytest.mark.parametrize("make", [toy_edges, toy_pairs, nasbench201, darts])
def test_a_child_differs_by_one_mutation_or_none(make, random):
    space = make()
    seen = {"none": 0, "operation": 0, "input": 0}
    for parent in space.sample(300, generator=random):
        child = mutate(space, parent, generator=random)
        assert space.parse(str(child)) == child
        seen[edges_changed(parent, child)] += 1
    kinds = 3 if space.inputs == 2 else 2
    assert seen["input"] > 0 or kinds == 2
    assert all(abs(count - 300 / kinds) < 60 for count in seen.values() if count)


def conv_share(ensembles):
    """Few convolutions are bad; ensembles gain nothing."""
    return torch.tensor([-min(str(member).count("conv") for member in ensemble) / 1.0 for ensemble in ensembles])


def test_the_population_ages_and_children_come_from_the_selected(random):
    space = nasbench201()
    start = uniform_pool(space, 6, generator=random)
    queue, known = list(start), set(start)
    births = list(evolve(space, start, conv_share, budget=40, parents=2, generator=random))
    for birth in births:
        able, _ = forward_select(queue, min(2, len(set(queue))), conv_share)
        assert birth.parent in able
        assert edges_changed(birth.parent, birth.child) != "input"
        assert birth.died == queue.pop(0)  # the oldest, however good
        queue.append(birth.child)
        assert birth.population == tuple(queue)
        known.add(birth.child)
    assert len(known) == 40  # the budget counts different architectures, and is spent
    best = max(start, key=lambda architecture: str(architecture).count("conv"))
    assert str(births[-1].parent).count("conv") > str(best).count("conv")


def test_evolution_finds_what_is_best_and_ends_in_a_space_known_whole(random):
    start = uniform_pool(SPACE, 4, generator=random)
    found = nes_re(SPACE, start, 2, conv_share, budget=1000, parents=2, generator=random)
    assert str(found.architectures[0]).count("conv") == 3
    assert len(found.candidates) <= len(SPACE)
    # ForwardSelect sees all that were ever judged, also those that left the population.
    assert set(start) <= {architecture for architecture, _ in found.candidates}


@pytest.fixture(scope="module")
def trained(noise):
    architecture = SPACE.parse("|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|")
    return snapshot(SPACE, architecture, noise.train, SMALL, size=3, seed=1)


def test_mc_droppath_at_probability_0_is_the_network(trained, noise, random):
    network = trained.members[-1]
    plain = trained.predict(noise.test)[-1]
    passes = mc_droppath(network, noise.test, probability=0.0, passes=2, generator=random, batch_size=7)
    torch.testing.assert_close(passes, plain.expand(2, -1, -1))
    dropped = mc_droppath(network, noise.test, probability=0.5, passes=3, generator=random)
    assert not torch.allclose(dropped[0], dropped[1])
    with pytest.raises(NesbsError, match="below 1, found 1"):
        mc_droppath(network, noise.test, probability=1.0, generator=random)
    with pytest.raises(NesbsError, match="passes must be 1 or more, found 0"):
        mc_droppath(network, noise.test, passes=0, generator=random)


def test_mc_droppath_drops_as_often_as_it_is_told_and_scales_what_it_keeps(trained, noise, random, monkeypatch):
    network, seen = trained.members[-1], []
    plain = network.outputs

    def outputs(images, *, drop):
        seen.append(drop)
        return plain(images, drop=drop)

    monkeypatch.setattr(network, "outputs", outputs)
    mc_droppath(network, noise.test, probability=0.25, passes=20, generator=random)
    drops = torch.stack(seen)  # (passes, cells, edges, images): every edge and image on its own
    assert drops.shape == (20, 3, 3, len(noise.test))
    assert torch.equal(drops.unique(), torch.tensor([0, 1 / 0.75]))
    assert float((drops == 0).double().mean()) == pytest.approx(0.25, abs=0.02)


def test_snapshots_are_the_ends_of_cycles_of_one_training(trained, noise):
    assert [cycle.epochs for cycle in cycles(SMALL.model_copy(update={"epochs": 8}), 3)] == [3, 3, 2]
    first, *later = cycles(SMALL.model_copy(update={"epochs": 6, "warm_up": 5}), 3)
    assert [first.warm_up, *(cycle.warm_up for cycle in later)] == [1, 0, 0]
    assert learning_rate(later[0], 0, 4) == SMALL.learning_rate  # each begins at the highest again
    one = snapshot(SPACE, trained.architectures[0], noise.train, SMALL.model_copy(update={"epochs": 1}), size=1, seed=1)
    for mine, theirs in zip(one.members[0].parameters(), trained.members[0].parameters(), strict=True):
        assert torch.equal(mine, theirs)
    weights = [next(member.network.stem.parameters()) for member in trained.members]
    assert not torch.equal(weights[0], weights[1])
    # Later cycles go on from earlier ones: they are nearer to each other than to another beginning.
    other = snapshot(SPACE, trained.architectures[0], noise.train, SMALL, size=3, seed=2)
    away = next(other.members[0].network.stem.parameters())
    assert (weights[0] - weights[1]).norm() < (weights[0] - away).norm()
    with pytest.raises(NesbsError, match="3 cycles need as many epochs, found members.epochs=2"):
        cycles(SMALL.model_copy(update={"epochs": 2}), 3)


def test_snapshots_resume(trained, noise, tmp_path):
    class StopError(Exception):
        pass

    def stop(cycle, epoch):
        if cycle == 1:
            raise StopError

    arguments = (SPACE, trained.architectures[0], noise.train, SMALL)
    with pytest.raises(StopError):
        snapshot(*arguments, size=3, seed=1, folder=tmp_path, on_epoch=stop)
    resumed = snapshot(*arguments, size=3, seed=1, folder=tmp_path)
    for mine, theirs in zip(resumed.state_dict().values(), trained.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{cycle}.safetensors" for cycle in range(3)]


def test_a_deep_ensemble_is_one_architecture_and_many_beginnings():
    assert deep(zoo["darts-v2"], 3).architectures == (zoo["darts-v2"],) * 3
    data = load_dataset("fashion-mini", train_limit=100, test_limit=50)
    ensemble = train_ensemble(SPACE, deep(list(SPACE)[-1], 2).architectures, data.train, epochs=1, cells=1, channels=2)
    assert evaluate(ensemble, data.test).disagreement > 0


def test_a_mutation_leaves_alone_what_has_no_other_choice():
    space = EdgeSpace("one", nodes=3, operations=("nor_conv_3x3",))
    [parent] = space
    assert {mutate(space, parent, generator=torch.Generator().manual_seed(seed)) for seed in range(8)} == {parent}
