"""The templates beside this module: everything escaped, the filters of `formats`, one script under a hash."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from nesbs.report import formats
from nesbs.report.glossary import anchor

BASE64 = re.compile(r"[A-Za-z0-9+/]+=*")


def is_base64(text: str | None) -> bool:
    """Whether a text from a record is nothing but base64, so that it may stand in a picture's address."""
    return text is not None and BASE64.fullmatch(text) is not None


def rendered(template: str, values: Mapping[str, Any]) -> str:
    """A template with its values as text; the same values give the same bytes."""
    return _environment().get_template(template).render(values)


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nesbs.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    numbers = (formats.percent, formats.share, formats.decimal, formats.signed, formats.short, formats.count)
    for filter_ in (*numbers, formats.size, formats.duration, formats.memory, anchor):
        environment.filters[filter_.__name__] = filter_
    # The page's policy lets this script run and no other, whatever a record may hold.
    script = resources.files("nesbs.report").joinpath("page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    environment.globals.update(script=Markup(script), script_hash=f"sha256-{digest}")
    return environment
