"""Every setting: bounded on both sides, and a wrong value is one line that names it."""

from operator import attrgetter

import pytest

from nesbs.attacks.settings import AttackSettings
from nesbs.errors import NesbsError
from nesbs.records import Recipe
from nesbs.runs.quality import QualitySettings
from nesbs.settings import Settings, keys

MODELS = (Recipe, AttackSettings, QualitySettings)  # whatever a user can set
EVERY = [pytest.param(model, key, id=f"{model.__name__}-{key}") for model in MODELS for key in keys(model)]


def of(model, key, value):
    """The settings with one of them set, and its value among them."""
    values = value
    for name in reversed(key.split(".")):
        values = {name: values}
    return attrgetter(key)(model.of(values))


def numbers(schema):
    """Every number in a JSON schema, also those of lists and of choices."""
    if isinstance(schema, list):
        return [number for part in schema for number in numbers(part)]
    if not isinstance(schema, dict):
        return []
    inner = [part for name, part in schema.items() if name not in ("default", "enum", "const")]
    return ([schema] if schema.get("type") in ("integer", "number") else []) + numbers(inner)


SCHEMAS = {model: model.model_json_schema() for model in MODELS}


def numbers_of(model, key):
    """Every number in a setting: its own, or one in a list."""
    whole, own = SCHEMAS[model], SCHEMAS[model]
    for name in key.split("."):
        own = own["properties"][name]
        own = whole["$defs"][own["$ref"].rpartition("/")[2]] if "$ref" in own else own
    return numbers(own)


@pytest.mark.parametrize(("model", "key"), EVERY)
def test_every_number_has_a_lower_and_an_upper_bound(model, key):
    for number in numbers_of(model, key):
        assert {"minimum", "exclusiveMinimum"} & set(number), number
        assert {"maximum", "exclusiveMaximum"} & set(number), number


HUGE = 1 << 40_000  # Python refuses to write it out
CYCLE = []
CYCLE.append(CYCLE)
BOMB = ["x"]
for _ in range(40):  # as YAML's aliases make it: small in memory, endless on paper
    BOMB = [BOMB] * 9
ODD = {
    **{str(value): value for value in (None, True, False, -1, 0, 1.5, 10**30, -(10**30), 1e-300, 1e300, "", "1e999")},
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": -float("inf"),
    "huge": HUGE,
    "long": "x" * 5000,
    "empty list": [],
    "list": [1, 2],
    "bad list": [None, "a"],
    "truths": [True, False],
    "mapping": {"a": 1},
    "numbered": {1: 2},
    "cycle": CYCLE,
    "bomb": BOMB,
    "escape": "\x1b[31m",
    "nul": "\0",
    "half": "\ud800",
}


@pytest.mark.parametrize(("model", "key"), EVERY)
def test_an_odd_value_is_taken_or_refused_in_a_line(model, key):
    for value in ODD.values():
        try:
            of(model, key, value)
        except NesbsError as error:
            text = str(error)
            assert text.startswith((key, key.partition(".")[0])), text
            assert text.isprintable(), text
            assert len(text) < 600, text
            assert "instance of" not in text


@pytest.mark.parametrize(("model", "key"), EVERY)
def test_nothing_that_is_no_number_passes_for_one(model, key):
    bounded = numbers_of(model, key)
    if not bounded:
        return
    for name in ("nan", "inf", "-inf", "huge", "1e+300", str(10**30), "truths", "mapping", "bomb"):
        with pytest.raises(NesbsError, match=key):
            of(model, key, ODD[name])
    if not key.endswith("compile"):
        for truth in (True, False):
            with pytest.raises(NesbsError, match=r"should be a number \(YAML reads yes, no, on and off as true and"):
                of(model, key, truth)
    if all(number["type"] == "integer" for number in bounded):
        with pytest.raises(NesbsError, match=key):
            of(model, key, 1.5)


@pytest.mark.parametrize("section", [name for name in Recipe.model_fields if name not in ("seed", "threads")])
@pytest.mark.parametrize("value", [3, None, [], True, "x"], ids=str)
def test_a_section_must_hold_settings(section, value):
    with pytest.raises(NesbsError, match=rf"{section}: input should be settings, such as \{{name: value\}}, found"):
        Recipe.of({section: value})


def test_whole_numbers_may_be_written_with_a_point():
    assert Recipe.of({"supernet": {"epochs": 3.0}, "seed": 1e3}) == Recipe.of({"supernet": {"epochs": 3}, "seed": 1000})


def test_many_complaints_stay_a_line():
    with pytest.raises(NesbsError, match=r"; and 90 more$") as raised:
        Recipe.of({f"x{number}": 1 for number in range(100)})
    assert "\n" not in str(raised.value)
    with pytest.raises(NesbsError, match=r"unknown setting \\x1b\[31m") as raised:
        Recipe.of({"\x1b[31m" + "y" * 1000: 1})
    assert len(str(raised.value)) < 3000


def test_settings_of_several_kinds_keep_their_truth_values():
    class Oven(Settings):
        warm: bool | int = 3

    assert Oven.of({"warm": True}).warm is True
