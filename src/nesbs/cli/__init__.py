"""The command: one function a command; its docstring is its help."""

from nesbs.cli.commands import app, main
