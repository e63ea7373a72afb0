"""The zoo: published architectures by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nesbs.errors import NesbsError, did_you_mean
from nesbs.spaces.architecture import Architecture
from nesbs.spaces.zoo_cells import ENTRIES
from nesbs.spaces.zoo_entry import Entry


class Zoo(Mapping[str, Architecture]):
    """Architectures by name: `zoo["darts-v2"]`; `zoo.entry(name)` also knows source, size and space."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self._entries = {entry.name: entry for entry in entries}

    def entry(self, name: str) -> Entry:
        """Everything known about one."""
        if name not in self._entries:
            raise NesbsError(f"no cell {name} in the zoo: {did_you_mean(name, self._entries)}")
        return self._entries[name]

    def __getitem__(self, name: str) -> Architecture:
        return self.entry(name).architecture

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


zoo = Zoo(ENTRIES)
