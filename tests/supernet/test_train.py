"""Supernet training: only what is in use changes, paths are fair, a kill loses nothing."""

import pytest
import torch
import torch.nn.functional as F
from contracts import SPACES, TOYS
from scipy import stats

from nesbs import files, metrics
from nesbs.errors import NesbsError
from nesbs.spaces import ChoiceCell, darts, nasbench201, toy_edges, toy_pairs
from nesbs.supernet import (
    Estimator,
    SupernetSettings,
    build_supernet,
    count_updates,
    draw_groups,
    draw_paths,
    fair_group,
    train_supernet,
)
from nesbs.supernet.train import draw_epochs, supernet_training
from nesbs.training import Epoch, side_by_side, train

SMALL = {"cells": 3, "channels": 2, "batch_size": 16, "crop": 1}


def used_names(space, supernet, architecture):
    """The parameters in use: those of operations on live edges, and everything outside the cells' choice."""
    everything = [name for name, _ in supernet.named_parameters()]
    names = {name for name in everything if ".edges." not in name}
    cells = space.live(architecture)
    for path, module in supernet.named_modules():
        if isinstance(module, ChoiceCell):
            kind = int(getattr(module, "reduces", False))
            for target, node in enumerate(cells[kind], start=space.inputs):
                for op, source in node:
                    prefix = f"{path}.edges.{target}_{source}.{op}."
                    names |= {name for name in everything if name.startswith(prefix)}
    return names


@pytest.mark.parametrize("paths", ["one", "fair"])
def test_every_step_trains_the_group_that_was_drawn_for_it(paths, noise, monkeypatch):
    settings = SupernetSettings.of({**SMALL, "cells": 1, "epochs": 2, "paths": paths})
    supernet = build_supernet(toy_edges(), noise.search_train, settings, seed=0)
    drawn = draw_epochs(supernet.space, noise.search_train, settings, seed=0)
    seen, losses, cross_entropy = [], [], F.cross_entropy

    def kept(*arguments, **options):
        losses.append(cross_entropy(*arguments, **options))
        return losses[-1]

    monkeypatch.setattr(F, "cross_entropy", kept)
    supernet.register_forward_hook(lambda _, given, __: seen.append(given[1]))
    [means] = side_by_side([supernet_training(supernet, noise.search_train, settings, drawn, seed=0)])
    assert drawn[0] != drawn[1]
    assert seen == [path for epoch in drawn for group in epoch for path in group]
    assert means == pytest.approx(torch.stack(losses).detach().view(2, -1).mean(1).tolist(), rel=1e-5)


@pytest.mark.parametrize("make", SPACES)
@pytest.mark.parametrize("affine", [False, True])
def test_a_step_changes_only_the_parameters_in_use(make, affine, noise):
    space = make()
    settings = {**SMALL, "affine": affine, "batch_size": 64}
    for seed in range(4 if make in TOYS else 2):
        # One epoch is one step here.
        supernet = build_supernet(space, noise.search_train, SupernetSettings.of(settings), seed=seed)
        before = {name: parameter.clone() for name, parameter in supernet.named_parameters()}
        trained = train_supernet(space, noise.search_train, seed=seed, epochs=1, **settings)
        [path] = draw_paths(space, 1, seed=seed, epoch=0, skip_dead=False)
        used = used_names(space, trained, path)
        for name, parameter in trained.named_parameters():
            if name not in used:
                assert torch.equal(parameter, before[name]), name
        changed = {name for name, parameter in trained.named_parameters() if not torch.equal(parameter, before[name])}
        if not space.is_dead(path):
            assert changed == used


def test_a_step_with_partial_channels_changes_only_the_parameters_in_use(noise):
    space = darts()
    settings = {**SMALL, "partial": 2, "batch_size": 64}
    supernet = build_supernet(space, noise.search_train, SupernetSettings.of(settings), seed=1)
    before = {name: parameter.clone() for name, parameter in supernet.named_parameters()}
    trained = train_supernet(space, noise.search_train, seed=1, epochs=1, **settings)
    [path] = draw_paths(space, 1, seed=1, epoch=0, skip_dead=False)
    changed = {name for name, parameter in trained.named_parameters() if not torch.equal(parameter, before[name])}
    assert changed == used_names(space, trained, path)


def test_momentum_and_decay_leave_unused_parameters_alone(noise):
    # Two steps with different paths: what only the first used must not move in the second.
    space = toy_edges()
    settings = SupernetSettings.of({**SMALL, "batch_size": 64, "weight_decay": 0.1, "epochs": 2})
    supernet = build_supernet(space, noise.search_train, settings, seed=0)
    paths = [space.parse(f"|{op}~0|+|none~0|{op}~1|") for op in ("nor_conv_3x3", "skip_connect")]
    states = []

    def loss(batch):
        return F.cross_entropy(supernet(batch.images, paths[batch.epoch]), batch.labels)

    def remember(epoch):
        states.append({name: parameter.detach().clone() for name, parameter in supernet.named_parameters()})

    train(supernet, noise.search_train, loss, settings, seed=0, purpose=("test",), on_epoch=remember)
    first, second = (used_names(space, supernet, path) for path in paths)
    assert first - second
    assert all(torch.equal(states[0][name], states[1][name]) for name in first - second)
    assert not any(torch.equal(states[0][name], states[1][name]) for name in second)


def test_paths_of_training_are_uniform():
    # Over the epochs of one training, on the operations of every edge.
    space = nasbench201()
    paths = [path for epoch in range(100) for path in draw_paths(space, 60, seed=0, epoch=epoch, skip_dead=False)]
    for column in space.encode_all(paths).T:
        assert stats.chisquare(torch.bincount(column, minlength=5).numpy()).pvalue > 0.001 / 6


def test_operations_of_one_edge_get_alike_many_updates():
    space = nasbench201()
    paths = space.sample(6000, generator=torch.Generator().manual_seed(0))
    for edge, counts in count_updates(space, paths).items():
        assert "none" not in counts
        assert stats.chisquare(list(counts.values())).pvalue > 0.001 / 6, edge


def test_updates_are_counted_on_live_paths(noise):
    space = toy_pairs()
    supernet = train_supernet(space, noise.search_train, seed=3, epochs=2, **SMALL)
    paths = [p for e in range(2) for p in draw_paths(space, 2, seed=3, epoch=e, skip_dead=False)]
    total = sum(sum(counts.values()) for counts in supernet.updates.values())
    assert total == len(paths) * 2 * space.nodes * 2  # two cells, two edges a node
    edge = paths[0].cells[0][0][0]
    assert supernet.updates[f"normal {edge[1]}→2"][edge[0]] >= 1


def test_skip_dead_redraws_the_paths_nothing_passes():
    space = toy_edges()
    plain = draw_paths(space, 200, seed=0, epoch=0, skip_dead=False)
    alive = draw_paths(space, 200, seed=0, epoch=0, skip_dead=True)
    assert any(space.is_dead(path) for path in plain)
    assert not any(space.is_dead(path) for path in alive)
    assert [a for a, p in zip(alive, plain, strict=True) if not space.is_dead(p)] == [
        p for p in plain if not space.is_dead(p)
    ]


def test_the_same_seed_gives_the_same_weights(noise):
    one, two, other = (
        train_supernet(toy_edges(), noise.search_train, seed=seed, epochs=2, **SMALL).state_dict() for seed in (0, 0, 1)
    )
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_training_goes_on_from_a_checkpoint_as_if_never_stopped(noise, tmp_path):
    whole = train_supernet(toy_pairs(), noise.search_train, seed=0, epochs=4, **SMALL)
    checkpoint = tmp_path / "checkpoint.safetensors"

    class KilledError(Exception):
        pass

    def kill(epoch: Epoch):
        if epoch.number == 2:
            raise KilledError

    with pytest.raises(KilledError):
        train_supernet(toy_pairs(), noise.search_train, seed=0, epochs=4, checkpoint=checkpoint, on_epoch=kill, **SMALL)
    heard = []
    resumed = train_supernet(
        toy_pairs(), noise.search_train, seed=0, epochs=4, checkpoint=checkpoint, on_epoch=heard.append, **SMALL
    )
    assert [epoch.number for epoch in heard] == [3, 4]
    assert resumed.losses == whole.losses
    assert resumed.updates == whole.updates
    for (name, one), two in zip(whole.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(one, two), name


def test_training_learns(mini):
    settings = {"epochs": 10, "channels": 4, "batch_size": 32, "crop": 0, "skip_dead": True}
    supernet = train_supernet(toy_edges(), mini.search_train, seed=0, **settings)
    assert 0 < supernet.losses[-1] < supernet.losses[0] - 0.3
    log_probs = Estimator(supernet, mini.search_valid).log_probs([list(toy_edges())[-1]])[0]
    assert metrics.error(log_probs, mini.search_valid.labels) < 0.8  # chance is 0.9, give or take 0.03


def test_nan_is_an_error_that_says_where(noise, tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    settings = {**SMALL, "learning_rate": 1e6, "weight_decay": 1e6, "affine": True}
    with pytest.raises(NesbsError, match=r"training supernet: the loss is not a number at epoch \d+, step \d+"):
        train_supernet(nasbench201(), noise.search_train, seed=0, epochs=6, checkpoint=checkpoint, **settings)
    if checkpoint.exists():  # of an epoch before: whole and finite
        assert all(tensor.isfinite().all() for tensor in files.read_tensors(checkpoint)[0].values())


def test_settings_are_checked(noise):
    with pytest.raises(NesbsError, match="unknown setting epoch: did you mean epochs"):
        train_supernet(toy_edges(), noise.search_train, epoch=1)
    with pytest.raises(NesbsError, match="epochs: input should be greater than or equal to 1, found 0"):
        train_supernet(toy_edges(), noise.search_train, epochs=0)


@pytest.mark.parametrize("make", SPACES)
def test_a_fair_group_uses_each_operation_of_each_edge_once(make):
    space = make()
    random = torch.Generator().manual_seed(0)
    for _ in range(20):
        group = fair_group(space, generator=random)
        assert len(group) == len(space.operations)
        if space.inputs == 1:  # every edge is always there
            counts = count_updates(space, [])
            for path in group:
                for target, node in enumerate(path.cells[0], start=1):
                    for op, source in node:
                        counts[f"cell {source}→{target}"][op] = counts[f"cell {source}→{target}"].get(op, 0) + 1
            assert all(set(edge.values()) == {1} for edge in counts.values())


def test_each_architecture_of_a_fair_group_is_uniform():
    space = toy_edges()
    random = torch.Generator().manual_seed(1)
    place = {architecture: i for i, architecture in enumerate(space)}
    counts = torch.zeros(3, len(space))
    for _ in range(1500):
        for row, path in enumerate(fair_group(space, generator=random)):
            counts[row, place[path]] += 1
    assert all(stats.chisquare(row.numpy()).pvalue > 0.001 for row in counts)


def test_fair_training_trains_all_operations_of_an_edge_alike(noise):
    settings = {**SMALL, "epochs": 2, "paths": "fair"}
    supernet = train_supernet(toy_edges(), noise.search_train, seed=0, **settings)
    steps = 2 * max(1, len(noise.search_train) // SMALL["batch_size"])
    # The edge 0→1 is live whenever 1→2 is: counts differ by that alone, the same for both operations on average.
    first = supernet.updates["cell 0→2"]
    assert first == {"skip_connect": steps, "nor_conv_3x3": steps}


def test_dead_paths_of_a_fair_group_are_left_out():
    space = toy_edges()
    groups = draw_groups(space, 50, seed=0, epoch=0, skip_dead=True, paths="fair")
    assert len(groups) == 50
    assert all(group and not any(space.is_dead(path) for path in group) for group in groups)
    assert min(map(len, groups)) < 3


def test_mixed_groups_are_fair_and_dense_in_turn():
    space = nasbench201()
    groups = draw_groups(space, 20, seed=0, epoch=0, skip_dead=False, paths="mixed")
    without = [all("none" not in str(path) for path in group) for group in groups]
    assert without == [False, True] * 10
    assert [len(group) for group in groups] == [5, 4] * 10


@pytest.mark.parametrize("space", [nasbench201(), darts()], ids=["nasbench201", "darts"])
def test_a_dense_group_uses_each_operation_but_none_once(space):
    [group] = draw_groups(space, 1, seed=0, epoch=0, skip_dead=True, paths="dense")
    assert len(group) == len(set(space.operations) - {"none"})
    for cell in range(len(space.kinds)):
        for edges in zip(*(path.cells[cell] for path in group), strict=True):
            used = [op for node in edges for op, _ in node]
            assert "none" not in used
            if space.name == "nasbench201":
                sources = len(edges[0])
                assert sorted(used) == sorted([op for op in space.operations if op != "none"] * sources)


def test_wrong_types_are_told_what_was_expected(noise):
    with pytest.raises(NesbsError, match=r"^split must be a Split such as data.search_train, found a Dataset$"):
        train_supernet(toy_edges(), noise)
    with pytest.raises(NesbsError, match=r"^space must be a Space such as nasbench201\(\), found 'nasbench201'$"):
        train_supernet("nasbench201", noise.search_train)
    supernet = build_supernet(toy_edges(), noise.search_train, SupernetSettings(), seed=0)
    with pytest.raises(NesbsError, match=r"^architecture must be an Architecture, which space.parse .*, found 'none'$"):
        supernet(noise.search_train.pixels(slice(0, 2)), "none")
    with pytest.raises(NesbsError, match=r"^split must be a Split such as data.search_valid, found a Dataset$"):
        Estimator(supernet, noise)


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("fitting", [True, False])
def test_kernels_train_where_they_are_asked_for_and_fit(asked, fitting, noise, monkeypatch):
    objectives = []
    monkeypatch.setattr("nesbs.supernet.train.fits", lambda *_: fitting)
    monkeypatch.setattr("nesbs.supernet.train.training", lambda *given, **_: objectives.append(given[2]))
    settings = SupernetSettings(epochs=1, channels=2, cells=1, record=asked)
    supernet = build_supernet(toy_edges(), noise.search_train, settings, seed=0)
    supernet_training(supernet, noise.search_train, settings, [], seed=0)
    assert (objectives[0].record is not None) == (asked and fitting)
