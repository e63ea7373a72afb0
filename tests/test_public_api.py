"""Public functions list their settings, and refuse arguments of the wrong kind in words."""

import inspect
import math
import typing

import pytest
import torch

import nesbs
from nesbs.data import DataSettings
from nesbs.ensemble import EnsembleSettings, MemberSettings, SearchSettings
from nesbs.evaluation import EvaluationSettings
from nesbs.posterior import PosteriorSettings
from nesbs.samplers import SamplerSettings
from nesbs.spaces import toy_edges
from nesbs.supernet import SupernetSettings

# Each function with the settings it lists, without those that mean nothing to it.
LISTS = [
    (nesbs.load_dataset, DataSettings, set()),
    (nesbs.train_supernet, SupernetSettings, set()),
    (nesbs.fit_posterior, PosteriorSettings, set()),
    (nesbs.search, SearchSettings, set()),
    (nesbs.search, EnsembleSettings, {"architectures"}),
    (
        nesbs.train_ensemble,
        MemberSettings,
        {"images", "workers"},
    ),  # the split says which images; processes belong to runs
    (nesbs.train_ensemble, EnsembleSettings, {"size", "architectures"}),  # the architectures say how many
    (nesbs.Ensemble, EnsembleSettings, {"size", "architectures"}),
    (nesbs.evaluate, EvaluationSettings, set(EvaluationSettings.model_fields) - {"batch_size", "bins"}),
    (nesbs.SvgdRd, SamplerSettings, {"name"}),
    (
        nesbs.sample_svgd_rd,
        SamplerSettings,
        {"name", "variance", "delta"},
    ),  # one δ, not a grid of which the best is kept
]
WIDER = {"name": "str | pathlib.Path", "root": "str | pathlib.Path | None", "delta": "float | Sequence[float]"}


@pytest.mark.parametrize(("function", "settings", "left_out"), LISTS)
def test_settings_are_listed_with_their_types_and_defaults(function, settings, left_out):
    parameters = inspect.signature(function).parameters
    hints = typing.get_type_hints(function.__init__ if function is nesbs.Ensemble else function)
    expected, defaults = typing.get_type_hints(settings), settings()
    for name in settings.model_fields:
        if name in left_out:
            continue
        assert parameters[name].default == getattr(defaults, name), name
        assert name in WIDER or hints[name] == expected[name], name


@pytest.mark.parametrize("name", sorted(set(nesbs.__all__) - {"NesbsError", "__version__", "zoo"}))
def test_nothing_public_takes_keywords_that_it_does_not_list(name):
    kinds = {parameter.kind for parameter in inspect.signature(getattr(nesbs, name)).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


def test_help_shows_the_value_of_a_default():
    assert "epochs: int = 200" in str(inspect.signature(nesbs.train_ensemble))


@pytest.fixture(scope="module")
def supernet(noise):
    return nesbs.train_supernet(toy_edges(), noise.search_train, epochs=1, channels=2, batch_size=16)


@pytest.fixture(scope="module")
def ensemble(noise):
    return nesbs.train_ensemble(toy_edges(), list(toy_edges())[-2:], noise.train, epochs=1, cells=1, channels=2)


def test_data_are_named(noise):
    with pytest.raises(nesbs.NesbsError, match="name must be the name of a data set, .*, found 3"):
        nesbs.load_dataset(3)
    with pytest.raises(nesbs.NesbsError, match="root must be a folder, found 7"):
        nesbs.load_dataset("cifar10", root=7)
    with pytest.raises(nesbs.NesbsError, match="train_limit: input should be a valid integer.*found 'many'"):
        nesbs.load_dataset(train_limit="many")


def test_fitting_takes_a_supernet_and_a_split(supernet, noise):
    with pytest.raises(nesbs.NesbsError, match="split must be a Split such as data.search_valid, found a Dataset"):
        nesbs.fit_posterior(supernet, noise)
    with pytest.raises(nesbs.NesbsError, match="supernet must be a Supernet, which train_supernet returns, found a"):
        nesbs.fit_posterior(toy_edges(), noise.search_valid)
    with pytest.raises(nesbs.NesbsError, match="evidence: .*found nan"):
        nesbs.fit_posterior(supernet, noise.search_valid, evidence=math.nan)


def test_a_posterior_takes_a_space_and_architectures():
    posterior = nesbs.Posterior(toy_edges())
    text = str(next(iter(toy_edges())))
    for number in (3, "nasbench201"):
        with pytest.raises(nesbs.NesbsError, match=rf"space must be a Space such as nasbench201\(\), found '?{number}"):
            nesbs.Posterior(number)
    for wrong in (text, [text], 3):
        with pytest.raises(
            nesbs.NesbsError, match="log_prob takes an Architecture or a list of them; space.parse reads one, found "
        ):
            posterior.log_prob(wrong)
    with pytest.raises(nesbs.NesbsError, match="count must be a whole number, at least 1, found 'three'"):
        posterior.sample("three", generator=torch.Generator())


def test_a_search_takes_what_the_stages_before_it_return(supernet, noise):
    posterior, split = nesbs.Posterior(toy_edges()), noise.search_valid
    for arguments, message in (
        ((3, posterior, split), "supernet must be a Supernet, which train_supernet returns, found 3"),
        ((supernet, supernet, split), "posterior must be a Posterior, which fit_posterior returns, found a Supernet"),
        ((supernet, posterior, noise), "split must be a Split such as data.search_valid, found a Dataset"),
    ):
        with pytest.raises(nesbs.NesbsError, match=message):
            nesbs.search(*arguments)
    for keywords, message in (
        ({"sampler": "svgd-rd"}, r"sampler must be a sampler such as SvgdRd\(delta=0.5\), found 'svgd-rd'"),
        ({"combine": "x"}, "combine: input should be 'probabilities' or 'logits', found 'x'"),
        ({"size": "three"}, "size must be a whole number, found 'three'"),
        ({"method": "best"}, "method: input should be 'rounds' or 'forward', found 'best'"),
    ):
        with pytest.raises(nesbs.NesbsError, match=message):
            nesbs.search(supernet, posterior, split, **keywords)


def test_delta_is_a_number():
    for delta in (math.nan, math.inf, (0.0, math.nan)):
        with pytest.raises(nesbs.NesbsError, match="delta: input should be a (finite|valid) number, found .*(nan|inf)"):
            nesbs.SvgdRd(delta=delta)
        with pytest.raises(nesbs.NesbsError, match="delta must be finite, found"):
            nesbs.sample_svgd_rd(lambda x: x.sum(-1), torch.zeros(2, 1, 1), delta=torch.tensor(delta))
    with pytest.raises(nesbs.NesbsError, match="delta: .*found 'large'"):
        nesbs.SvgdRd(delta="large")
    with pytest.raises(nesbs.NesbsError, match="delta must be a number, or a tensor .*found 'large'"):
        nesbs.sample_svgd_rd(lambda x: x.sum(-1), torch.zeros(1, 1), delta="large")


def test_particles_are_a_tensor():
    with pytest.raises(nesbs.NesbsError, match="start must be a tensor .*found a list"):
        nesbs.sample_svgd_rd(lambda x: x.sum(-1), [[0.0]], delta=0.0)
    with pytest.raises(nesbs.NesbsError, match="steps: input should be greater than or equal to 1, found 0"):
        nesbs.sample_svgd_rd(lambda x: x.sum(-1), torch.zeros(1, 1), delta=0.0, steps=0)


def test_training_takes_a_space_architectures_and_a_split(noise):
    architectures = list(toy_edges())[-2:]
    listed = r"architectures must be a list of Architecture \(space.parse reads one\), found"
    for arguments, message in (
        ((3, architectures, noise.train), r"space must be a Space such as nasbench201\(\), found 3"),
        ((toy_edges(), architectures, noise), "split must be a Split such as data.train, found a Dataset"),
        ((toy_edges(), [str(one) for one in architectures], noise.train), f"{listed} '"),
        ((toy_edges(), str(architectures[0]), noise.train), f"{listed} '"),
        ((toy_edges(), architectures[0], noise.train), f"{listed} an Architecture"),
    ):
        with pytest.raises(nesbs.NesbsError, match=message):
            nesbs.train_ensemble(*arguments, epochs=1)
    with pytest.raises(nesbs.NesbsError, match="combine: .*found 'x'"):
        nesbs.train_ensemble(toy_edges(), architectures, noise.train, combine="x")


def test_an_ensemble_is_networks_and_is_measured_on_a_split(ensemble, noise):
    assert nesbs.Ensemble(ensemble.members[:1]).architectures == ensemble.architectures[:1]
    with pytest.raises(nesbs.NesbsError, match="members must be a list of networks .*found 'one'"):
        nesbs.Ensemble(["one"])
    with pytest.raises(nesbs.NesbsError, match="combine: .*found 'x'"):
        nesbs.Ensemble(list(ensemble.members), combine="x")
    with pytest.raises(nesbs.NesbsError, match="split must be a Split such as data.test, found a Dataset"):
        nesbs.evaluate(ensemble, noise)
    with pytest.raises(nesbs.NesbsError, match="ensemble must be an Ensemble, which train_ensemble returns, found a"):
        nesbs.evaluate(ensemble.members, noise.test)
    with pytest.raises(nesbs.NesbsError, match="unknown setting bin: did you mean bins"):
        nesbs.evaluate(ensemble, noise.test, bin=3)
