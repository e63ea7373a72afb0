"""The templates beside this module: everything escaped, the filters of `formats`, one script under a hash."""

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from nesbs.records.base import StampedRecord
from nesbs.report import formats
from nesbs.report.recipe import changes


def rendered(template: str, values: Mapping[str, Any]) -> str:
    """A template with its values as text; the same values give the same bytes."""
    return _environment().get_template(template).render(values)


def anchor(word: str) -> str:
    """Where in the page a word is explained.

    >>> anchor("Top-5 error"), anchor("δ")
    ('term-top-5-error', 'term-delta')
    """
    plain = {"δ": "delta", "τ": "tau"}.get(word, word.lower())
    return "term-" + re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def code(record: StampedRecord) -> str | None:
    """The code that wrote a record: version, and commit where it ran from a checkout; None where it does not say.

    >>> code(StampedRecord(nesbs="0.1.0", commit="0123456789abcdef", clean=False))
    '0.1.0, commit 0123456789ab with changes that were not committed'
    """
    if record.commit is None:
        return record.nesbs
    uncommitted = {True: " (clean)", False: " with changes that were not committed", None: ""}[record.clean]
    return f"{record.nesbs or formats.NOTHING}, commit {record.commit[:12]}{uncommitted}"


def is_base64(text: str | None) -> bool:
    """Whether a text from a record is nothing but base64, so that it may stand in a picture's address."""
    return text is not None and re.fullmatch("[A-Za-z0-9+/]+=*", text) is not None


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
    for filter_ in (*numbers, formats.size, formats.duration, formats.memory, anchor, changes, code):
        environment.filters[filter_.__name__] = filter_
    environment.tests["base64"] = is_base64
    # The page's policy lets this script run and no other, whatever a record may hold.
    script = resources.files("nesbs.report").joinpath("page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    environment.globals.update(script=Markup(script), script_hash=f"sha256-{digest}")
    return environment
