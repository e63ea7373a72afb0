"""The resolved recipe: every setting of every stage, each with its default; `recipe.yaml` in a run folder."""

import copy
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any, Self

import yaml
from pydantic import Field, ValidationError

from nesbs import files
from nesbs.data import DataSettings
from nesbs.ensemble import EnsembleSettings, MemberSettings, SearchSettings
from nesbs.errors import NesbsError, named
from nesbs.evaluation import EvaluationSettings
from nesbs.posterior import PosteriorSettings
from nesbs.rivals import RivalSettings
from nesbs.samplers import SamplerSettings
from nesbs.settings import MAX_SEED, Settings
from nesbs.spaces import SpaceSettings
from nesbs.supernet import SupernetSettings

RECIPE = "recipe.yaml"  # its name in a run folder


class Recipe(Settings):
    """An experiment, whole: what is not said has its stage's default."""

    seed: int = Field(0, ge=0, le=MAX_SEED)
    threads: int | None = Field(None, ge=1, le=1024, description="of the CPU; by default as many as there are")
    data: DataSettings = DataSettings()
    space: SpaceSettings = SpaceSettings()
    supernet: SupernetSettings = SupernetSettings()
    posterior: PosteriorSettings = PosteriorSettings()
    sampler: SamplerSettings = SamplerSettings()
    search: SearchSettings = SearchSettings()
    ensemble: EnsembleSettings = EnsembleSettings()
    members: MemberSettings = MemberSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    rivals: RivalSettings = RivalSettings()

    @classmethod
    def lenient(cls, values: Mapping[str, Any]) -> Self:
        """The recipe for showing it: a setting that is unknown or of another kind has its default.

        >>> Recipe.lenient({"seed": 3, "space": None, "members": {"epochs": "many", "cells": 5}}).members.cells
        5
        """
        left = copy.deepcopy(dict(values))
        while True:
            try:
                return cls.model_validate(left)
            except ValidationError as error:
                # All places first: a setting that has several complaints is taken out once.
                for place in {_place(left, entry["loc"]) for entry in error.errors()}:
                    _remove(left, place)

    def to_yaml(self) -> str:
        """The recipe with every default written out."""
        quick = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # the same text in a tenth of the time
        return yaml.dump(self.model_dump(mode="json"), Dumper=quick, sort_keys=False, allow_unicode=True)

    def additions(self) -> tuple[str, ...]:
        """What is ours on top of the paper's method, as short phrases; empty where the recipe is the paper's alone.

        What the paper leaves open (sizes, epochs, the weight of the evidence) does not count.

        >>> Recipe.of({"posterior": {"estimator": "straight-through"}}).additions()
        ()
        >>> Recipe.of({"search": {"method": "forward"}}).additions()
        ('leave-one-out gradients for the posterior', 'forward selection over all candidates')
        """
        supernet, posterior, apart = self.supernet, self.posterior, self.search.apart
        limits = self.search.limits.bounds
        parts = {
            f"groups of paths in the supernet's training (supernet.paths={supernet.paths})": supernet.paths != "one",
            "no dead architectures in the supernet's training": supernet.skip_dead,
            "leave-one-out gradients for the posterior": posterior.estimator == "leave-one-out",
            f"rank shares of {posterior.reference} reference architectures as evidence": posterior.reference > 0,
            "untrained networks in the evidence": posterior.untrained > 0,
            "a share of labels taken for random": posterior.noise > 0,
            f"the best of {posterior.starts} fits of the posterior": posterior.starts > 1,
            "ensembles drawn uniformly, without the posterior": self.sampler.name == "uniform",
            f"a relaxed posterior of variance {self.sampler.variance}": self.sampler.variance is not None,
            "forward selection over all candidates": self.search.method == "forward",
            f"ensembles judged by other than their loss (search.judge={self.search.judge})": self.search.judge
            != "likelihood",
            "the most probable of the ensembles that held-out images do not tell apart": self.search.noise > 0,
            f"members that differ on {100 * apart:g} % of their edges (search.apart)": apart > 0,
            f"limits of what members cost (search.limits: {', '.join(limits)})": bool(limits),
        }
        searched = self.ensemble.architectures is None
        return tuple(phrase for phrase, is_used in parts.items() if searched and is_used)

    def differences(self, other: Self) -> list[str]:
        """The dotted keys in which two recipes differ."""
        mine, others = flatten(self.model_dump(mode="json")), flatten(other.model_dump(mode="json"))
        return [key for key in mine if mine[key] != others[key]]


def _place(values: dict[str, Any], location: tuple[int | str, ...]) -> tuple[str, ...]:
    """The sections and the name of a setting; a location may continue into a setting's own value."""
    first, *rest = location or (next(iter(values)),)  # settings that do not go together: one after the other
    inner = values.get(str(first))
    within = rest and isinstance(inner, dict) and rest[0] in inner
    return (str(first), *(_place(inner, tuple(rest)) if within and inner else ()))


def _remove(values: dict[str, Any], place: tuple[str, ...]) -> None:
    """Take a setting out of nested sections."""
    *sections, name = place
    for section in sections:
        values = values.get(section, {})  # one that was taken out as a whole has nothing left
    values.pop(name, None)


class _Loader(yaml.SafeLoader):
    """YAML's safe reader, which also refuses a key that is there twice and, before it reads on, too many brackets."""

    def fetch_flow_collection_start(self, TokenClass: type[yaml.Token]) -> None:
        if self.flow_level > files.MAX_DEPTH:  # the reader's time grows with the square of their number
            raise RecursionError
        super().fetch_flow_collection_start(TokenClass)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if (key.tag, key.value) in seen:
                twice = f"{named(key.value)} is there twice"
                raise yaml.constructor.ConstructorError(problem=twice, problem_mark=key.start_mark)
            seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


def read_yaml(text: str, source: str) -> Any:
    """The plain data in a YAML text; where there are none, a `NesbsError` names the source.

    >>> read_yaml("{epochs: 3, epochs: 4}", "the recipe")
    Traceback (most recent call last):
    nesbs.errors.NesbsError: the recipe is not valid YAML at line 1: epochs is there twice
    """
    try:
        return copy.deepcopy(_plain_data(text))
    except yaml.YAMLError as error:
        mark, about = getattr(error, "problem_mark", None), isinstance(error, yaml.constructor.ConstructorError)
        line = f" at line {mark.line + 1}" if mark is not None else ""
        reason = f": {getattr(error, 'problem', '')}" if about else ""
    except (RecursionError, NesbsError):
        line, reason = "", ": it is nested too deeply"
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError):
        line, reason = "", ": a number or a date in it is none"
    raise NesbsError(f"{source} is not valid YAML{line}{reason}")


@lru_cache(maxsize=32)  # a folder's recipe is read by every stage, and a page of YAML takes 20 ms
def _plain_data(text: str) -> Any:
    values = yaml.load(text, _Loader)
    files.check_depth(values)
    return values


def parse_yaml(text: str, source: str) -> dict[str, Any]:
    """A recipe's mapping; anything else is a `NesbsError` that names the source."""
    values = read_yaml(text, f"recipe {source}")
    if values is None:
        raise NesbsError(f"recipe {source} is empty: `nesbs recipes demo` shows a whole one")
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise NesbsError(f"recipe {source} must be sections with settings, found {type(values).__name__}")
    return values


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested sections as dotted keys.

    >>> flatten({"seed": 0, "supernet": {"epochs": 3}})
    {'seed': 0, 'supernet.epochs': 3}
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat.update(flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value})
    return flat
