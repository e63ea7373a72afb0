"""The version, written once: read by the package and by its build, not from package metadata."""

__version__ = "0.1.0"
