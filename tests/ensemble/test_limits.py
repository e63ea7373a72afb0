"""Limits hold in proposals and in what is chosen; an impossible one is refused with the smallest that is possible."""

import itertools
from collections import Counter

import pytest
import torch

from nesbs.ensemble import Limits, LimitSettings, decide, forward_select
from nesbs.errors import NesbsError
from nesbs.posterior import Posterior
from nesbs.records.operation_times import OperationTimesRecord
from nesbs.runs.recipe import load_recipe
from nesbs.runs.resumable_run import Run
from nesbs.samplers import MonteCarlo, NoEnsembleError, Proposal, SvgdRd, Uniform
from nesbs.spaces import Milliseconds, OperationTimes, TimedCosts, darts, nasbench201, toy_edges, toy_pairs

IMAGE = (3, 8, 8)


def costs_of(space):
    cells = 3 if "normal" in space.kinds else 1
    return TimedCosts(space, lambda one: space.network(one, channels=4, cells=cells), IMAGE)


COSTS = {make: costs_of(make()) for make in (toy_edges, toy_pairs, nasbench201, darts)}


def random(seed=0):
    return torch.Generator().manual_seed(seed)


def value_of(costs, architecture, kind):
    if kind == "latency":
        return costs.times.predicted(costs, architecture)
    return getattr(costs(architecture), kind)


def limits_at(costs, kind, share, per, size=3):
    """The limits that so large a share of the space's networks is within; of the whole ensemble, `size` times that."""
    values = sorted(value_of(costs, one, kind) for one in costs.space.sample(400, generator=random(7)))
    bound = values[int(share * len(values))] * (size if per == "ensemble" else 1)
    return Limits(LimitSettings(**{kind: bound, "per": per}), costs, size), bound


def within(costs, ensemble, kind, bound, per):
    values = [value_of(costs, one, kind) for one in ensemble]
    return (sum(values) if per == "ensemble" else max(values)) <= bound


@pytest.mark.parametrize(
    ("make", "kind", "per"),
    [
        (nasbench201, "parameters", "member"),
        (nasbench201, "latency", "member"),
        (nasbench201, "multiply_adds", "ensemble"),
    ],
)
def test_a_thousand_proposals_are_within_a_limit_that_binds(make, kind, per):
    costs = COSTS[make]
    if kind == "latency":
        costs.times = times_of(costs)
    limits, bound = limits_at(costs, kind, 0.4, per)
    exceeded = 0
    for sampler, rounds in [(MonteCarlo(), 600), (Uniform(), 360), (SvgdRd(delta=(0.0, 0.5), steps=2), 20)]:
        posterior = Posterior(costs.space)
        drawn = sampler.propose(posterior, size=3, rounds=rounds, allowed=limits, generator=random())
        assert len(drawn) == rounds * (2 if sampler.name == "svgd-rd" else 1)
        assert all(within(costs, one.architectures, kind, bound, per) for one in drawn)
        free = sampler.propose(posterior, size=3, rounds=rounds // 20, generator=random())
        exceeded += sum(not within(costs, one.architectures, kind, bound, per) for one in free)
    assert exceeded > 20  # of 50


def test_members_are_drawn_from_the_posterior_on_condition_that_the_limits_hold():
    space, costs = toy_edges(), COSTS[toy_edges]
    posterior = Posterior(space, torch.randn(3, 3, generator=random(1)))
    limits, bound = limits_at(costs, "parameters", 0.3, "member")
    inside = [one for one in space if costs(one).parameters <= bound]
    assert 0 < len(inside) < len(space)
    wanted = posterior.log_prob(inside).softmax(0)
    drawn = MonteCarlo().propose(posterior, size=2, rounds=1500, duplicates="allow", allowed=limits, generator=random())
    counted = Counter(member for one in drawn for member in one.architectures)
    assert set(counted) <= set(inside)
    shares = torch.tensor([counted[one] / 3000 for one in inside])
    assert float((shares - wanted).abs().sum() / 2) < 0.05


def test_particles_become_the_nearest_draw_within_the_limits_and_stay_where_they_are_within():
    costs = COSTS[nasbench201]
    limits, _ = limits_at(costs, "parameters", 0.5, "member")
    posterior, sampler = Posterior(costs.space), SvgdRd(delta=0.5, steps=5)
    free = sampler.propose(posterior, size=3, rounds=20, generator=random())
    held = sampler.propose(posterior, size=3, rounds=20, allowed=limits, generator=random())
    differ = []
    for before, after in zip(free, held, strict=True):
        for one, other in zip(before.architectures, after.architectures, strict=True):
            assert one == other or not limits((one,))
            if one != other:
                changed = zip(costs.space.encode(one), costs.space.encode(other), strict=True)
                differ.append(sum(mine != theirs for mine, theirs in changed))
    # Two random architectures differ on 4.8 of 6 edges.
    assert differ
    assert sum(differ) / len(differ) < 3


def test_limits_that_the_posterior_never_meets_end_with_an_error(monkeypatch):
    monkeypatch.setattr("nesbs.samplers.proposals.LIMIT_TRIES", 1000)
    logits = torch.zeros(3, 3)
    logits[:, 2] = 30.0  # convolutions everywhere
    least = COSTS[toy_edges](next(iter(toy_edges()))).parameters
    limits = Limits(LimitSettings(parameters=least), COSTS[toy_edges], 2)
    with pytest.raises(NoEnsembleError, match=r"none of 1,000 architectures .* within search.limits: raise the limits"):
        MonteCarlo().propose(Posterior(toy_edges(), logits), size=2, rounds=1, allowed=limits, generator=random())


@pytest.mark.parametrize("kind", ["parameters", "multiply_adds"])
def test_what_is_chosen_under_a_limit_for_the_ensemble_is_the_best_within_it(kind):
    space, costs = list(toy_edges()), COSTS[toy_edges]
    value = {one: getattr(costs(one), kind) for one in space}

    def score(ensembles):  # the costlier, the better
        return torch.tensor([-float(sum(value[one] for one in ensemble)) / len(ensemble) for ensemble in ensembles])

    least = min(value.values())
    bound = max(value.values()) + 2 * least + 10  # the costliest leaves room for two of the cheapest
    limits = Limits(LimitSettings(**{kind: bound, "per": "ensemble"}), costs, 3)
    groups = [group for group in itertools.combinations(space, 3) if sum(value[one] for one in group) <= bound]
    drawn = [Proposal(group, 1) for group in groups[::7]]
    best = max(sum(value[one] for one in one.architectures) for one in drawn)
    for method in ("rounds", "forward"):
        members, *_ = decide(drawn, score, method, limits=limits)
        assert sum(value[one] for one in members) <= bound
        assert sum(value[one] for one in members) >= best
    assert max(value[one] for one in decide(drawn, score, "forward", limits=limits)[0]) <= bound - 2 * least


def test_forward_selection_leaves_room_for_the_members_to_come():
    ordered = sorted(toy_edges(), key=lambda one: COSTS[toy_edges](one).parameters)
    costs = [COSTS[toy_edges](one).parameters for one in ordered]
    pool = [ordered[0], ordered[13], ordered[-1]]
    limits = Limits(LimitSettings(parameters=costs[-1] + costs[0], per="ensemble"), COSTS[toy_edges], 2)
    assert limits.places([[one] for one in pool]) == [0, 1, 2]
    tight = Limits(LimitSettings(parameters=costs[-1] + costs[0] - 1, per="ensemble"), COSTS[toy_edges], 2)
    assert tight.places([[one] for one in pool]) == [0, 1]
    assert tight.places([[pool[0], pool[1]], [pool[0], pool[2]]]) == [0]
    assert tight.places([[one] for one in pool[1:]]) == []  # the cheapest two are too costly


def test_forward_selection_gives_up_a_member_that_leaves_no_room_under_two_limits():
    pool = list(toy_edges())[:5]
    limits = Limits(LimitSettings(parameters=10, multiply_adds=10, per="ensemble"), COSTS[toy_edges], 2)
    # For the best alone there would be room beside one of (1, 1), which nobody is.
    limits._known = dict(zip(pool, [(9.0, 9.0), (1.0, 9.0), (9.0, 1.0), (5.0, 5.0), (5.0, 5.0)], strict=True))

    def score(ensembles):  # the earlier in the pool, the better
        return torch.tensor([sum(pool.index(one) for one in ensemble) / len(ensemble) for ensemble in ensembles])

    members, loss = forward_select(pool, 2, score, counted=limits.places)
    assert (members, loss) == ([pool[1], pool[2]], 1.5)
    with pytest.raises(NoEnsembleError, match="no 2 of 3 candidates were found to be within search.limits"):
        forward_select([pool[0], pool[1], pool[3]], 2, score, counted=limits.places)


@pytest.mark.parametrize("make", [toy_edges, toy_pairs])
@pytest.mark.parametrize("kind", ["parameters", "multiply_adds"])
def test_the_smallest_that_is_possible_is_that_of_the_whole_space(make, kind):
    costs = COSTS[make]
    least = min(getattr(costs(one), kind) for one in make())
    for per, size in (("member", 1), ("ensemble", 4)):
        Limits(LimitSettings(**{kind: least * size, "per": per}), costs, 4).check()
        with pytest.raises(NesbsError, match=rf"search.limits.{kind}=.* impossible: .* has {least * size:,} "):
            Limits(LimitSettings(**{kind: least * size - 1, "per": per}), costs, 4).check()


def test_a_run_under_an_impossible_limit_is_refused_before_there_is_a_folder(tmp_path):
    recipe = load_recipe("toy", ["search.limits.parameters=100", "search.limits.per=ensemble"])
    assert recipe.search.limits == LimitSettings(parameters=100, per="ensemble")
    with pytest.raises(NesbsError, match="impossible: the smallest ensemble of 2 of space"):
        Run.create(tmp_path / "run", recipe)
    assert not (tmp_path / "run").exists()


def times_of(costs):
    """Times that are made up: a millisecond for a convolution, a tenth for everything else."""
    some = costs.space.sample(400, generator=random())
    shapes = {shape for one in some for shape in costs.shapes(one)}
    table = {shape: Milliseconds(*[1.0 if "conv" in shape[0] else 0.1] * 3) for shape in shapes}
    return OperationTimes("cpu", Milliseconds(2.0, 2.0, 2.0), 1.0, table)


def test_a_latency_is_the_sum_of_operations_and_limits_it_as_costs_do():
    costs = costs_of(toy_edges())
    costs.times = times_of(costs)
    *_, convolutions = toy_edges()
    assert costs.times.predicted(costs, convolutions) == pytest.approx(2 + 9)  # three in each of three cells
    limits = Limits(LimitSettings(latency=2.5), costs, 2)
    drawn = MonteCarlo().propose(Posterior(toy_edges()), size=2, rounds=500, allowed=limits, generator=random())
    members = [one for proposal in drawn for one in proposal.architectures]
    assert len(members) == 1000
    assert max(costs.times.predicted(costs, one) for one in members) <= 2.5
    with pytest.raises(NesbsError, match=r"search.limits.latency=1 .* smallest network .* predicted to take 2.000 ms"):
        Limits(LimitSettings(latency=1), costs, 2).check()
    record = OperationTimesRecord.of(costs.times)
    assert OperationTimesRecord.from_json(record.to_json()).times() == costs.times
    assert OperationTimesRecord.from_json({"device": "cpu"}).times() is None


LATENCY = [
    *("space.name=toy-edges", "supernet.cells=1", "supernet.epochs=1", "data.train_limit=60", "data.size=12"),
    *("supernet.batch_size=20", "posterior.steps=2", "sampler.name=uniform", "members.cells=1", "search.rounds=3"),
]


def test_operations_are_timed_once_in_a_run_and_the_chosen_are_timed_whole(tmp_path, monkeypatch):
    measured = []

    def measure(costs, device):
        assert not list(tmp_path.glob("*/recipe.yaml")), "timed after the run began"
        measured.append(device)
        return times_of(costs)

    monkeypatch.setattr(OperationTimes, "measured", measure)
    run = Run.create(tmp_path / "run", load_recipe("toy", [*LATENCY, "search.limits.latency=1000"], threads=1))
    assert OperationTimesRecord.find(run.folder).times() == run.costs.members.times
    chosen = run.selection().architectures
    record = OperationTimesRecord.find(run.folder)
    assert [row.architecture for row in record.chosen] == [str(one) for one in chosen]
    assert all(0 < row.lower <= row.median <= row.upper for row in record.chosen)
    again = Run.open(run.folder)
    again.limits().check()
    assert again.costs.members.times == record.times()
    assert measured == ["cpu"]
    predicted = [value_of(run.costs.members, one, "latency") for one in chosen]
    assert [row.predicted for row in record.chosen] == predicted
    # The same search under a limit that it has just exceeded.
    bound = max(predicted) - 0.01
    (tmp_path / "run" / "recipe.yaml").rename(tmp_path / "before.yaml")
    tight = Run.create(tmp_path / "tight", load_recipe("toy", [*LATENCY, f"search.limits.latency={bound}"], threads=1))
    assert max(value_of(tight.costs.members, one, "latency") for one in tight.selection().architectures) <= bound


def test_real_operations_are_timed():
    costs = costs_of(toy_edges())
    times = OperationTimes.measured(costs, "cpu")
    assert {operation for operation, *_ in times.operations} == {"skip_connect", "nor_conv_3x3"}
    assert all(0 < one.lower <= one.median <= one.upper for one in times.operations.values())
