"""The command: one function a command; its docstring is its help."""

from nesbs.cli.entry_point import app, main
