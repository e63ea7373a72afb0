"""Every setting has the default and the range that the page of settings says."""

import json

import pytest
from documents import ROOT, table

from nesbs.attacks import AttackSettings
from nesbs.attacks.autoattack import AutoAttack
from nesbs.attacks.carlini_wagner import CarliniWagner
from nesbs.attacks.fgsm import Fgsm
from nesbs.attacks.pgd import Pgd
from nesbs.data import DataSettings
from nesbs.deploy.distil import DistilSettings
from nesbs.ensemble import EnsembleSettings, LimitSettings, MemberSettings, SearchSettings
from nesbs.evaluation import EvaluationSettings
from nesbs.posterior import PosteriorSettings
from nesbs.records.recipe import Recipe
from nesbs.rivals import RivalSettings
from nesbs.runs.quality import QualitySettings
from nesbs.samplers import SamplerSettings
from nesbs.settings import Settings
from nesbs.spaces import SpaceSettings
from nesbs.supernet import SupernetSettings

SECTIONS = {
    "data": DataSettings,
    "space": SpaceSettings,
    "supernet": SupernetSettings,
    "posterior": PosteriorSettings,
    "sampler": SamplerSettings,
    "search": SearchSettings,
    "search.limits": LimitSettings,
    "ensemble": EnsembleSettings,
    "members": MemberSettings,
    "evaluation": EvaluationSettings,
    "rivals": RivalSettings,
    "attack": AttackSettings,
    "fgsm": Fgsm,
    "pgd": Pgd,
    "cw": CarliniWagner,
    "autoattack": AutoAttack,
    "autoattack8": AttackSettings().autoattack8,
    "quality": QualitySettings,
    "distil": DistilSettings,
}
BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
COUNTS = {"minItems": "at least", "maxItems": "at most"}


def values(schema):
    """What a setting may be, in words, from its JSON schema."""
    if "anyOf" in schema:
        return " or ".join(values(one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{one}`" for one in schema.get("enum", [schema.get("const")]))
    bounds = [f"{sign} {schema[key]:g}" for key, sign in BOUNDS.items() if key in schema]
    if schema.get("type") == "array":
        inner = schema.get("items") or schema.get("prefixItems", [{}])[0]
        counts = [f"{word} {schema[key]}" for key, word in COUNTS.items() if key in schema]
        return f"list of {', '.join([values(inner), *counts])}"
    return ", ".join([schema.get("type", "any"), *bounds])


def page_of(model):
    """A section's settings as a table in Markdown."""
    lines = ["| setting | default | values | |", "| --- | --- | --- | --- |"]
    defaults = (model() if isinstance(model, type) else model).model_dump(mode="json")
    for name, schema in model.model_json_schema()["properties"].items():
        if "$ref" not in schema:  # a section of its own
            cells = [f"`{name}`", f"`{json.dumps(defaults[name])}`", values(schema), schema.get("description", "")]
            lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return "\n".join(lines)


@pytest.mark.parametrize("section", SECTIONS)
def test_defaults_and_ranges_are_those_of_the_page(section):
    page = (ROOT / "docs" / "settings.md").read_text()
    assert table(page, section) == page_of(SECTIONS[section]), "write it again: python tests/test_settings.py"


def test_every_section_of_a_recipe_has_its_table():
    assert {name: type(part) for name, part in Recipe() if isinstance(part, Settings)}.items() <= SECTIONS.items()


if __name__ == "__main__":
    page = ROOT / "docs" / "settings.md"
    text = page.read_text()
    for section, model in SECTIONS.items():
        start, end = text.split(f"<!-- {section} table -->\n")
        text = f"{start}<!-- {section} table -->\n{page_of(model)}\n{end[end.index('<!-- end -->') :]}"
    page.write_text(text)
