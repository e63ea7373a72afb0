"""How the page of the API shows docstrings: examples as code, settings by their descriptions."""

from __future__ import annotations

import ast
import re
from typing import Any

from griffe import Attribute, Docstring, ExprCall, ExprKeyword, Extension, Object

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n.*\S.*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """A docstring with a fence around each of its examples."""
    return EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)


class Examples(Extension):
    """Fences the examples of everything, and lets `Field(default, description=…)` speak for a setting."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for each object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_attribute(self, *, attr: Attribute, **_: Any) -> None:
        """Called for each attribute that was read."""
        if isinstance(attr.value, ExprCall) and str(attr.value.function) == "Field":
            default, *options = attr.value.arguments
            for option in options:
                # A plain text comes as it stands in the source; one that is computed comes as an expression.
                if isinstance(option, ExprKeyword) and option.name == "description" and isinstance(option.value, str):
                    attr.docstring = Docstring(ast.literal_eval(option.value), parent=attr)
            attr.value = default
