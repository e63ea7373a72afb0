"""Budget curves: each point is the method's own choice within its budget, found once."""

import pytest
from toys import COMPARED_SET as SET
from toys import StopError, Stopping, call
from toys import compared_recipe as recipe

from nesbs import files, metrics
from nesbs.compare.curves import CurveGrid, _earlier, by_table, curves
from nesbs.compare.harness import CurveHarness, Point
from nesbs.compare.methods import METHODS
from nesbs.ensemble import forward_select, scorer
from nesbs.errors import NesbsError
from nesbs.posterior import Posterior
from nesbs.records import CurvesRecord
from nesbs.report import curves_as_markdown, draw_curves
from nesbs.runs.resumable_run import Run
from nesbs.samplers import Proposal
from nesbs.spaces import duplicates
from nesbs.supernet import Estimator

GRID = CurveGrid(
    ["nesbs", "nesbs-mc", "urs", "nes-rs", "nes-re", "single-best"],
    budgets=(1, 4, 12),
    sizes=(2, 3),
    temperatures=(1.0, 5.0),
    deltas=(0.0, 1.0),
)


def table_of(value):
    return curves_as_markdown(CurvesRecord.from_json(value))


def whole_recipe():
    return recipe("sampler.delta=0.5", "sampler.steps=20")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("curves") / "run"
    with pytest.raises(StopError):
        curves(whole_recipe(), folder, GRID, seeds=2, progress=Stopping("curves", 20))
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for method in map(METHODS.get, GRID.methods):
            patch.setattr(method, "within", noting(found, method.within))
        value = curves(whole_recipe(), folder, GRID, seeds=2).to_json()
    return folder, value, found


def noting(points, within):
    def noted(harness, point):
        points.append(point)
        return within(harness, point)

    return noted


def find(harness, point):
    return METHODS[point.method].within(harness, point)


def point(value, method, size, budget, temperature=None, delta=None):
    wanted = (method, size, budget, temperature, delta)
    keys = ("method", "size", "budget", "temperature", "delta")
    [one] = [entry for entry in value["points"] if tuple(entry[key] for key in keys) == wanted]
    return one


def test_a_stop_loses_no_point(drawn):
    _, value, found = drawn
    each = len(value["points"])
    assert each == (2 * 2 + 4) * 3 * 2 + 2 * 2 * 2  # τ for two methods; sizes × τ × δ
    assert len(found) == 2 * each - 21  # what was found before the stop was kept


def test_points_are_the_methods_own_choices_measured_on_the_test_images(drawn):
    folder, value, _ = drawn
    run = Run.open(folder / "seed-1")
    harness = CurveHarness(run, 12)
    size = run.recipe.search.batch_size
    valid, test = (Estimator(run.supernet(), part, batch_size=size) for part in (run.data.search_valid, run.data.test))
    for budget in (4, 12):
        greedy, _ = forward_select(harness.pool[:budget], 3, scorer(valid))
        seen = point(value, "nes-rs", 3, budget)["seeds"][1]
        assert seen["architectures"] == [str(architecture) for architecture in greedy]
        expected = metrics.error(metrics.average(test.log_probs(greedy)), run.data.test.labels)
        assert seen["error"] == pytest.approx(float(expected))
    losses = metrics.nll(valid.log_probs(harness.pool[:4]), run.data.search_valid.labels)
    best = str(harness.pool[int(losses.argmin())])
    assert point(value, "single-best", 2, 4)["seeds"][1]["architectures"] == [best]


def test_a_table_measures_the_members_that_it_holds(drawn):
    _, value, _ = drawn
    record = CurvesRecord.from_json(value)
    texts = [text for one in record.points for outcome in one.seeds for text in outcome.architectures or ()]
    kept = sorted(set(texts))[1:]  # one architecture is not in the table
    accuracies = {text: 50.0 + place for place, text in enumerate(kept)}
    found = by_table(record, accuracies, "bench.csv, valid")
    assert found.held == sum(text in accuracies for text in texts) / len(texts) < 1
    for before, after in zip(record.points, found.points, strict=True):
        assert (after.mean["error"], after.difference) == (before.mean["error"], before.difference)
        for outcome in after.seeds:
            known = [accuracies[text] for text in outcome.architectures or () if text in accuracies]
            assert outcome.accuracy == (pytest.approx(sum(known) / len(known)) if known else None)
    urs, own = (point(found.to_json(), *which) for which in (("urs", 2, 12), ("nesbs", 2, 12, 1.0)))
    means = [sum(one["accuracy"] for one in each["seeds"]) / 2 for each in (urs, own)]
    assert urs["mean"]["accuracy"]["mean"] == pytest.approx(means[0])
    assert urs["by_table"]["mean"] == pytest.approx(means[0] - means[1])
    compared = [one for one in found.points if one.by_table is not None and one.delta is None]
    assert {one.method for one in compared} == {*GRID.methods} - {"nesbs"}
    assert {one.temperature for one in compared if one.method == "nesbs-mc"} == {1.0, 5.0}
    for one in compared:  # with the reference at the point's own τ, or at the first
        beside = point(found.to_json(), "nesbs", one.size, one.budget, one.temperature or 1.0)
        means = [each["mean"]["accuracy"]["mean"] for each in (one.to_json(), beside)]
        assert one.by_table.mean == pytest.approx(means[0] - means[1])
    plain, both = curves_as_markdown(record), curves_as_markdown(found)
    assert "accuracy" not in plain.lower()
    assert "| n = 2, budget, accuracy |" in both
    assert f"{means[0]:.2f}" in both
    assert "from bench.csv, valid; it holds" in both
    assert "– where it holds none under some seed" in both
    assert len(draw_curves(found)) > 1.5 * len(draw_curves(record))  # as many panels again


def test_seeds_can_draw_from_one_supernet(drawn):
    folder, value, _ = drawn
    grid = CurveGrid(["nesbs", "urs"], budgets=(4,), sizes=(2,))
    shared = curves(whole_recipe(), folder, grid, seeds=2, one_supernet=True).to_json()
    first, second = point(shared, "urs", 2, 4)["seeds"]
    assert first == point(value, "urs", 2, 4)["seeds"][0]  # the first seed has its own
    run = Run.open(folder / "seed-0")
    own = CurveHarness(run, 4).with_seed(1)
    assert own.pool == CurveHarness(Run.open(folder / "seed-1"), 4).pool != CurveHarness(run, 4).pool
    found = find(own, Point("urs", 2, 4))
    assert second == {"seed": 1, **own.measure(found).to_json()}
    assert second["architectures"] == [str(each) for each in found]
    stages = files.read_json(run.folder / "record.json")["stages"]
    assert [cost["supernet"] for cost in shared["seconds"]] == [stages["supernet"]["seconds"], None]
    assert shared["seconds"][1]["points"] == stages["curves-1"]["seconds"] > 0
    assert "All seeds draw from the supernet" in table_of(shared)
    said = table_of(value)
    mean = sum(cost["supernet"] for cost in value["seconds"]) / 2
    assert f"supernet 2 × {mean:.1f} s" in said


def test_budgets_asked_for_later_are_of_one_draw_with_the_others(tmp_path):
    def drawn_to(name, *budgets):
        grid = CurveGrid(["nesbs", "nesbs-mc", "urs"], budgets, sizes=(2,))
        return curves(whole_recipe(), tmp_path / name, grid, seeds=1).to_json()

    drawn_to("grown", 4, 8)
    grown = drawn_to("grown", 4, 8, 32)
    fresh = drawn_to("fresh", 8, 32)
    again = drawn_to("fresh", 4, 8)
    found = {
        (entry["method"], entry["budget"]): entry["seeds"] for value in (fresh, again) for entry in value["points"]
    }
    assert {(entry["method"], entry["budget"]): entry["seeds"] for entry in grown["points"]} == found


def test_a_larger_budget_never_chooses_worse_by_what_it_judges(drawn):
    folder, value, _ = drawn
    run = Run.open(folder / "seed-0")
    score = CurveHarness(run, 12).score
    for method in ("nesbs", "nesbs-mc", "urs", "single-best"):
        temperature = 1.0 if method.startswith("nesbs") else None
        chosen = [point(value, method, 2, budget, temperature)["seeds"][0]["architectures"] for budget in (4, 12)]
        small, large = score([[run.space.parse(text) for text in texts] for texts in chosen]).tolist()
        assert large <= small + 1e-9


def test_what_was_drawn_can_be_chosen_from_greedily(drawn):
    folder, value, _ = drawn
    run = Run.open(folder / "seed-0")
    asked = Point("nesbs-mc", 2, 12, 1.0)
    best = find(CurveHarness(run, 12), asked)
    run.recipe = run.recipe.model_copy(update={"search": run.recipe.search.model_copy(update={"method": "forward"})})
    harness = CurveHarness(run, 12)
    found = find(harness, asked)
    [proposals] = harness.drawn.values()
    candidates = list(dict.fromkeys(each for proposal in proposals for each in proposal.architectures))
    greedy, loss = forward_select(candidates, 2, harness.score)
    bar = float(harness.score([best])[0])
    assert found == (tuple(greedy) if loss < bar else best)
    assert "greedily" in table_of({**value, "search": "forward"})
    assert "greedily" not in table_of(value)
    assert "nesbs and nesbs-mc here are the paper's method plus ours: " in table_of(value)


def test_a_budget_without_an_ensemble_has_no_point(drawn):
    _, value, _ = drawn
    assert point(value, "urs", 2, 1)["mean"]["error"] is None
    assert point(value, "nesbs", 3, 1, 1.0)["mean"]["error"] is None
    assert point(value, "single-best", 3, 1)["mean"]["error"]["mean"] > 0
    assert point(value, "single-best", 3, 1)["difference"] is None


def test_the_posterior_is_tempered_and_delta_set(drawn, monkeypatch):
    folder, _, _ = drawn
    harness = CurveHarness(Run.open(folder / "seed-0"), 12)
    seen = []

    def propose(self, posterior, *, size, rounds, **_):
        assert isinstance(posterior, Posterior)
        seen.append((posterior.temperature, self.delta, size, rounds))
        pool = harness.pool
        return [Proposal(tuple(pool[i * size : (i + 1) * size]), i + 1) for i in range(rounds)]

    monkeypatch.setattr("nesbs.samplers.SvgdRd.propose", propose)
    found = find(harness, Point("nesbs", 3, 6, 5.0, -0.5))
    assert seen == [(5.0, -0.5, 3, 4)]  # rounds of the largest budget are drawn, those of the point's judged
    assert set(found) <= set(harness.pool[:6])
    assert duplicates(found) == 0


def test_monte_carlo_judges_as_many_ensembles_as_the_grid_of_delta(drawn, monkeypatch):
    folder, _, _ = drawn
    run = Run.open(folder / "seed-0")
    run.recipe = recipe("sampler.delta=[0.0, 0.5, 1.0]", "sampler.steps=20")
    harness = CurveHarness(run, 20)
    counts = []

    def counted(proposals, score, method, noise, **_):
        counts.append(len(proposals))
        return proposals[0].architectures, 0.0, proposals[0], []

    monkeypatch.setattr("nesbs.compare.posterior_search.decide", counted)
    for budget in (6, 20):  # the larger has room for ten ensembles of two, and for three of each δ
        for method in ("nesbs", "nesbs-mc"):
            find(harness, Point(method, 2, budget, 1.0))
    assert counts == [3, 3, 9, 9]
    assert find(harness, Point("nesbs-mc", 2, 5, 1.0)) is find(harness, Point("nesbs", 2, 5, 1.0)) is None


def test_the_table_marks_differences_that_exclude_zero(drawn):
    _, value, _ = drawn
    table = table_of(value)
    assert "n = 3, budget" in table
    assert "n = 2, δ" in table
    marked = {**value, "points": [dict(entry) for entry in value["points"]]}
    for entry in marked["points"]:
        if entry["method"] == "urs" and entry["budget"] == 12 and entry["size"] == 2:
            entry["difference"] = {"mean": -0.1, "low": -0.2, "high": -0.05, "verdict": "lower"}
        else:
            entry["difference"] = None
    [row] = [line for line in table_of(marked).splitlines() if "↓" in line and line.startswith("|")]
    assert row.startswith("| urs")
    assert draw_curves(CurvesRecord.from_json(value)) == draw_curves(CurvesRecord.from_json(value))


def test_the_command_draws_curves(drawn, capsys):
    folder, _, _ = drawn
    more = ["--seeds", "2", "--set", "sampler.delta=0.5", "--set", "sampler.steps=20"]
    assert call("compare", "toy", "--methods", "urs", "--budgets", "4,12", "--out", folder, *SET, *more) == 0
    assert "n = 2, budget" in capsys.readouterr().out
    assert {entry["method"] for entry in files.read_json(folder / "curves.json")["points"]} == {"nesbs", "urs"}
    assert (folder / "curves.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budgets", "4,x"], "--budgets takes whole numbers"),
        (["--budgets", "0"], "--budgets lie between 1 and 100,000"),
        (["--budgets", "4", "--budget", "4"], "take one"),
        (["--budgets", "2,4", "--sizes", "9,5"], "--budgets: 4 is less than one ensemble of 5: raise it"),
        (["--budgets", "4", "--temperatures", "0"], "--temperatures lie between"),
        (["--budgets", "4", "--deltas", "nan"], "--deltas takes numbers"),
        (["--sizes", "3"], "--sizes goes with --budgets"),
        (["--one-supernet"], "--one-supernet goes with --budgets"),
        (["--budgets", "4", "--methods", "deep"], "deep needs a training of its own"),
    ],
)
def test_nonsense_is_refused(arguments, message, tmp_path, capsys):
    assert call("compare", "toy", "--methods", "urs", "--out", tmp_path / "run", *SET, *arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_deltas_need_svgd(tmp_path):
    with pytest.raises(NesbsError, match="--deltas are those of svgd-rd; sampler monte-carlo has none"):
        curves(recipe("sampler.name=monte-carlo"), tmp_path / "run", CurveGrid(["nesbs"], (4,), deltas=(1.0,)), seeds=1)
    assert not (tmp_path / "run").exists()


def test_points_of_something_else_are_named(tmp_path):
    files.write_json(tmp_path / "curves.json", {"a": None})
    with pytest.raises(NesbsError, match=r"curves.json is not what `nesbs curves` writes: remove it"):
        _earlier(tmp_path / "curves.json", 4)


def test_a_value_given_twice_is_one_point():
    """Else its seeds would count twice, and intervals be too narrow."""
    once = CurveGrid(["nesbs", "urs"], budgets=[8], sizes=[2], temperatures=[1.0], deltas=[0.5])
    twice = CurveGrid(["nesbs", "urs"], budgets=[8, 8], sizes=[2, 2], temperatures=[1, 1.0], deltas=[0.5, 0.5])
    assert twice.points(recipe()) == once.points(recipe())
