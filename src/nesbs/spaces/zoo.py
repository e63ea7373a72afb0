"""The zoo: published architectures by name, kept in `zoo.yaml`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

import yaml

from nesbs.errors import NesbsError, did_you_mean, expect
from nesbs.spaces.architecture import Architecture
from nesbs.spaces.darts import darts
from nesbs.spaces.nasbench201 import nasbench201

SPACES = {"darts": darts, "nasbench201": nasbench201}


@dataclass(frozen=True)
class Entry:
    """A published architecture: where it was published, its size, its text in its space; `zoo.yaml` explains each."""

    source: str
    size: float
    text: str
    space: str = "darts"  # whose networks it is trained in; the cells of some lie outside the space itself
    published: float | None = None
    note: str = ""

    @property
    def architecture(self) -> Architecture:
        """The entry as an architecture."""
        return SPACES[self.space]().parse(self.text)

    @property
    def checked(self) -> str:
        """What its size was held against."""
        return self.note if self.published is None else f"published as {self.published}"


class Zoo(Mapping[str, Architecture]):
    """Architectures by name: `zoo["darts-v2"]`; `zoo.entry(name)` also has source, size and space."""

    @cached_property
    def _entries(self) -> dict[str, Entry]:
        values = yaml.safe_load((resources.files("nesbs") / "spaces" / "zoo.yaml").read_text(encoding="utf-8"))
        return {name: _entry(**value) for name, value in values.items()}

    def entry(self, name: str) -> Entry:
        """Text, source, size and space of one."""
        expect(name, str, "name must be the name of a published cell")
        if name not in self._entries:
            raise NesbsError(f"no cell {name} in the zoo: {did_you_mean(name, self._entries)}")
        return self._entries[name]

    def __getitem__(self, name: str) -> Architecture:
        return self.entry(name).architecture

    def get(self, name: str, default: Any = None) -> Any:
        """The architecture of a name, or `default` where there is none."""
        return self.entry(name).architecture if name in self else default

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _entry(
    *, normal: str = "", reduce: str = "", outputs: list[list[int]] | None = None, robnet: str = "", **known: Any
) -> Entry:
    """An entry of the file, in which cells are written shorter than in the text of an architecture."""
    cells = []
    for kind, cell, out in zip(("normal", "reduce"), (normal, reduce), outputs or (None, None), strict=True):
        edges = [(op, int(source)) for op, source in (edge.split("~") for edge in cell.split())]
        cells.append(f"{kind}={edges}" + ("" if out is None else f" {kind}_concat={out}"))
    return Entry(**{"text": f"robnet={robnet.split()}" if robnet else " ".join(cells), **known})


zoo = Zoo()
