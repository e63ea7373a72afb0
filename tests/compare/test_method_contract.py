"""Every method: legal choices, the same from the same seed, resumed after a stop, charged for its stages, in curves."""

import contextlib
import shutil
from types import SimpleNamespace

import pytest
from contracts import METHOD_NAMES
from toys import StopError, Stopping, compared_recipe, without_seconds

from nesbs.compare.harness import CurveHarness, Harness, Point
from nesbs.compare.method import Method
from nesbs.compare.methods import METHODS, REFERENCE, methods_of
from nesbs.compare.one_shot import OneShot
from nesbs.compare.pool_search import PoolSearch
from nesbs.ensemble import Selection
from nesbs.errors import NesbsError
from nesbs.records import RunRecord
from nesbs.runs.resumable_run import Run

SMALL = ("data.train_limit=60", "data.test_limit=20", "rivals.pool=4", "sampler.delta=0.5", "sampler.steps=10")


def harness_in(folder, progress=None):
    return Harness(Run.create(folder, compared_recipe(*SMALL), progress=progress))


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """A run with what methods share: a supernet, its posterior and selection, and candidates trained on their own."""
    folder = tmp_path_factory.mktemp("contract") / "material"
    prepare(folder)
    return folder


def prepare(folder):
    harness = harness_in(folder)
    harness.run.selection()
    harness.judged.train(harness.candidates)


def test_which_methods_train_one_network_in_full():
    one = {name for name, method in METHODS.items() if method.one_network}
    assert one == {
        "mc-droppath",
        "snapshot",
        "single-best",
        "rsps",
        "darts",
        "darts-2nd",
        "gdas",
        "setn",
        "enas",
        "snas",
    }


class Own(Method):
    name, description = "own", "returns what it is told to"

    def __init__(self, chosen):
        self.choose = chosen

    def choose(self, _):
        """Replaced."""


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ([1, 2], "method own must return a Selection, found a list"),
        (Selection.fixed((1,)), "method own chose 1 architectures, not 2: choose as many"),
        (Selection.fixed((1, 2)), r"method own would be charged no seconds of search: name the stages .* in `stages`"),
    ],
)
def test_what_a_method_of_ones_own_returns_is_checked(chosen, message, tmp_path):
    harness = SimpleNamespace(run=SimpleNamespace(folder=tmp_path, record=RunRecord()), size=2)
    own = Own(lambda _: chosen)
    own.stages = ("super-net",)  # no stage has that name
    with pytest.raises(NesbsError, match=message):
        own.selection(harness)
    own.one_network = True
    if chosen == Selection.fixed((1, 2)):
        with pytest.raises(NesbsError, match="method own chose 2 architectures, not 1"):
            own.selection(harness)
    assert not list(tmp_path.rglob("own.*"))


def test_estimates_of_a_pool_are_one_step_of_a_stage_of_the_run():
    stages = []

    def stage(*about, fresh):
        stages.append((*about, fresh))
        return contextlib.nullcontext()

    run = SimpleNamespace(stage=stage, space=None, recipe=SimpleNamespace(seed=0), limits=lambda: None)
    about = {"candidates": (), "size": 1, "score": lambda: None, "out_of_time": None}
    for judge in ("trained", "supernet"):
        harness = SimpleNamespace(run=run, settings=SimpleNamespace(judge=judge), **about)
        assert PoolSearch("x", "", lambda candidates: "chosen").choose(harness) == "chosen"
    assert stages == [("rival x", 1, True)]


def test_one_draw_with_duplicates_is_drawn_again_where_duplicates_are_refused(material, tmp_path, monkeypatch):
    harness = harness_in(shutil.copytree(material, tmp_path / "run"))

    def draws(name, policy):
        run = harness.run
        search = run.recipe.search.model_copy(update={"duplicates": policy})
        monkeypatch.setattr(run, "recipe", run.recipe.model_copy(update={"search": search}))
        return [METHODS[name]._drawn(run, 8, seed) for seed in range(40)]

    for name in ("random", "drawn"):
        assert any(len(set(members)) < 8 for members in draws(name, "allow"))
        assert all(len(set(members)) == 8 for members in draws(name, "refuse"))


def test_a_one_shot_search_is_charged_for_the_architectures_it_judges_at_the_end():
    harness = SimpleNamespace(settings=SimpleNamespace(samples=7))
    charged = {name: method.evaluations(harness) for name, method in METHODS.items() if isinstance(method, OneShot)}
    assert charged == {"rsps": 7, "darts": 0, "darts-2nd": 0, "gdas": 0, "snas": 0, "setn": 7, "enas": 7}


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_a_method_keeps_the_contract(name, material, tmp_path):
    keeps_the_contract(METHODS[name], material, tmp_path)


def check_method(method, folder):
    """The same for a method from elsewhere."""
    prepare(folder / "material")
    keeps_the_contract(method, folder / "material", folder)


def keeps_the_contract(method, material, folder):
    assert "\n" not in method.description
    harness = harness_in(shutil.copytree(material, folder / "whole"))
    chooses_and_predicts(method, harness)
    outcome = method.outcome(harness)
    pays_for_its_stages(method, harness, outcome)
    stopped = shutil.copytree(material, folder / "stopped")
    with contextlib.suppress(StopError):
        method.outcome(harness_in(stopped, Stopping("", 1)))
    resumed = method.outcome(harness_in(stopped))
    assert without_seconds(resumed.to_json()) == without_seconds(
        outcome.to_json()
    )  # also: the same seed, the same choice
    assert method.outcome(harness_in(stopped)) == resumed  # found again, not made again
    has_a_curve_or_says_why_not(method, harness)


def chooses_and_predicts(method, harness):
    space, test = harness.run.space, harness.run.data.test
    method.check(harness.run.recipe, harness.run.data, space)
    selection = method.selection(harness)
    assert selection.architectures
    assert all(space.parse(str(architecture)) == architecture for architecture in selection.architectures)
    logits = method.predict(harness, selection)
    assert logits.shape == (len(logits), len(test), test.classes)
    assert len(logits) in (1, harness.size)
    assert bool(logits.isfinite().all())


def pays_for_its_stages(method, harness, outcome):
    stages = {name: stage["seconds"] for name, stage in harness.run.record.to_json()["stages"].items()}
    a_draw_alone = not method.stages and outcome.evaluations == 0  # may take less than the millisecond that is kept
    assert (0 if a_draw_alone else 1e-3) <= outcome.search_seconds <= sum(stages.values()) + 1e-3
    assert 0 < outcome.training_seconds <= sum(stages.values()) + 1e-3
    assert outcome.search_seconds == round(method.search_seconds(harness), 3)
    assert outcome.evaluations == method.evaluations(harness) >= 0
    own = stages.get(f"rival {method.name}", 0.0)
    assert own <= outcome.search_seconds + 1e-3


def has_a_curve_or_says_why_not(method, harness):
    curve = CurveHarness(harness.run, 8)
    temperature = 1.0 if method.draws_from_posterior else None
    point = Point(method.name, harness.size, 8, temperature)
    if method.own_training:
        for refused in (lambda: method.within(curve, point), lambda: methods_of([method.name], measure="supernet")):
            with pytest.raises(NesbsError, match=f"{method.name} needs a training of its own") as error:
                refused()
            assert "\n" not in str(error.value)
        return
    ensemble = method.within(curve, point)
    assert 1 <= len(ensemble) <= harness.size
    assert all(harness.run.space.parse(str(architecture)) == architecture for architecture in ensemble)
    assert method.within(CurveHarness(harness.run, 8), point) == ensemble
    assert method.within(curve, Point(method.name, harness.size, 0, temperature)) is None
    assert 0 <= curve.measure(ensemble).error <= 1


def test_the_reference_is_the_first_of_all_methods():
    assert next(iter(METHODS)) == REFERENCE
    assert all(METHODS[name].name == name for name in METHODS)
