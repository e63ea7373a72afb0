"""The command: one function a command, whose docstring is its help."""

from nesbs.cli.commands import main

__all__ = ["main"]
