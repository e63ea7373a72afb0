"""Shows the examples inside docstrings as code on the page of the API."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n.*\S.*)*", re.MULTILINE)


def fenced(text: str) -> str:
    r"""A docstring with a fence around each of its examples.

    >>> print(fenced("Twice.\n\n>>> 2 * 3\n6").replace("`", "'"))
    Twice.
    <BLANKLINE>
    '''pycon
    >>> 2 * 3
    6
    '''
    """
    return EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)


class Examples(Extension):
    """Fences the examples of everything that has a docstring."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for each object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
