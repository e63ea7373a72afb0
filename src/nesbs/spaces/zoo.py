"""The zoo: published cells of the DARTS space, by name.

Every four-node cell over the seven operations that its authors published as code. `size` is the number of
parameters in millions of the evaluation network (20 cells, 36 channels, 10 classes, no auxiliary tower);
a test counts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nesbs.errors import NesbsError, did_you_mean
from nesbs.spaces.architecture import Architecture
from nesbs.spaces.darts import darts


@dataclass(frozen=True)
class Entry:
    """A published architecture: its name, where it was published, its size, its two cells.

    A cell is `operation~input` for each edge, two a node; inputs 0 and 1 are the outputs of the two cells
    before.
    """

    name: str
    source: str
    size: float
    normal: str
    reduce: str

    @property
    def architecture(self) -> Architecture:
        """The entry as a point of the DARTS space."""
        lists = [
            [(op, int(source)) for op, source in (edge.split("~") for edge in cell.split())]
            for cell in (self.normal, self.reduce)
        ]
        return darts().parse(f"normal={lists[0]} reduce={lists[1]}")


class Zoo(Mapping[str, Architecture]):
    """Architectures by name: `zoo["darts-v2"]`; `zoo.entry(name)` also knows source and size."""

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


ENTRIES = (
    Entry(
        "darts-v1",
        "quark0/darts@f276dd3 cnn/genotypes.py",
        3.17,
        "sep_conv_3x3~1 sep_conv_3x3~0 skip_connect~0 sep_conv_3x3~1 "
        "skip_connect~0 sep_conv_3x3~1 sep_conv_3x3~0 skip_connect~2",
        "max_pool_3x3~0 max_pool_3x3~1 skip_connect~2 max_pool_3x3~0 "
        "max_pool_3x3~0 skip_connect~2 skip_connect~2 avg_pool_3x3~0",
    ),
    Entry(
        "darts-v2",
        "quark0/darts@f276dd3 cnn/genotypes.py, second order",
        3.35,
        "sep_conv_3x3~0 sep_conv_3x3~1 sep_conv_3x3~0 sep_conv_3x3~1 "
        "sep_conv_3x3~1 skip_connect~0 skip_connect~0 dil_conv_3x3~2",
        "max_pool_3x3~0 max_pool_3x3~1 skip_connect~2 max_pool_3x3~1 "
        "max_pool_3x3~0 skip_connect~2 skip_connect~2 max_pool_3x3~1",
    ),
    Entry(
        "gdas",
        "D-X-Y/AutoDL-Projects@f46486e xautodl/nas_infer_model/DXYs/genotypes.py",
        3.37,
        "skip_connect~0 skip_connect~1 skip_connect~0 sep_conv_5x5~2 "
        "sep_conv_3x3~3 skip_connect~0 sep_conv_5x5~4 sep_conv_3x3~3",
        "sep_conv_5x5~0 sep_conv_3x3~1 sep_conv_5x5~2 sep_conv_5x5~1 "
        "dil_conv_5x5~2 sep_conv_3x3~1 sep_conv_5x5~0 sep_conv_5x5~1",
    ),
    Entry(
        "p-darts",
        "chenxin061/pdarts@b880e87 genotypes.py PDARTS",
        3.43,
        "skip_connect~0 dil_conv_3x3~1 skip_connect~0 sep_conv_3x3~1 "
        "sep_conv_3x3~1 sep_conv_3x3~3 sep_conv_3x3~0 dil_conv_5x5~4",
        "avg_pool_3x3~0 sep_conv_5x5~1 sep_conv_3x3~0 dil_conv_5x5~2 "
        "max_pool_3x3~0 dil_conv_3x3~1 dil_conv_3x3~1 dil_conv_5x5~3",
    ),
    Entry(
        "pc-darts",
        "yuhuixu1993/PC-DARTS@b74702f genotypes.py",
        3.63,
        "sep_conv_3x3~1 skip_connect~0 sep_conv_3x3~0 dil_conv_3x3~1 "
        "sep_conv_5x5~0 sep_conv_3x3~1 avg_pool_3x3~0 dil_conv_3x3~1",
        "sep_conv_5x5~1 max_pool_3x3~0 sep_conv_5x5~1 sep_conv_5x5~2 "
        "sep_conv_3x3~0 sep_conv_3x3~3 sep_conv_3x3~1 sep_conv_3x3~2",
    ),
    Entry(
        "pc-darts-imagenet",
        "yuhuixu1993/PC-DARTS@b74702f genotypes.py",
        3.72,
        "skip_connect~1 sep_conv_3x3~0 sep_conv_3x3~0 skip_connect~1 "
        "sep_conv_3x3~1 sep_conv_3x3~3 sep_conv_3x3~1 dil_conv_5x5~4",
        "sep_conv_3x3~0 skip_connect~1 dil_conv_5x5~2 max_pool_3x3~1 "
        "sep_conv_3x3~2 sep_conv_3x3~1 sep_conv_5x5~0 sep_conv_3x3~3",
    ),
    Entry(
        "sdarts-rs",
        "xiangning-chen/SmoothDARTS@d3dbfed sota/cnn/genotypes.py c10_s5_random",
        3.61,
        "sep_conv_3x3~1 sep_conv_3x3~0 sep_conv_5x5~1 skip_connect~0 "
        "sep_conv_3x3~3 skip_connect~1 sep_conv_3x3~1 dil_conv_3x3~2",
        "max_pool_3x3~0 sep_conv_3x3~1 skip_connect~2 max_pool_3x3~0 "
        "dil_conv_5x5~3 max_pool_3x3~0 sep_conv_3x3~2 sep_conv_5x5~3",
    ),
    Entry(
        "sdarts-adv",
        "xiangning-chen/SmoothDARTS@d3dbfed sota/cnn/genotypes.py c10_s5_pgd",
        3.34,
        "sep_conv_3x3~0 sep_conv_3x3~1 sep_conv_3x3~1 skip_connect~0 "
        "sep_conv_5x5~0 dil_conv_3x3~3 dil_conv_3x3~4 skip_connect~0",
        "max_pool_3x3~0 sep_conv_5x5~1 skip_connect~2 max_pool_3x3~0 "
        "skip_connect~3 skip_connect~2 skip_connect~2 sep_conv_5x5~4",
    ),
    Entry(
        "snas-mild",
        "shuyao95/Understanding-NAS@4f49d9b genotypes.py",
        2.66,
        "sep_conv_3x3~0 sep_conv_3x3~1 skip_connect~0 dil_conv_3x3~1 "
        "skip_connect~0 skip_connect~1 skip_connect~0 sep_conv_3x3~1",
        "max_pool_3x3~0 max_pool_3x3~1 skip_connect~2 max_pool_3x3~1 "
        "max_pool_3x3~1 skip_connect~2 dil_conv_5x5~2 max_pool_3x3~0",
    ),
    Entry(
        "darts-minus",
        "Meituan-AutoML/DARTS-@adb81a8 src/eval/genotypes.py, one of five searches on CIFAR-10",
        3.45,
        "sep_conv_3x3~0 sep_conv_5x5~1 sep_conv_3x3~1 dil_conv_3x3~2 "
        "skip_connect~1 sep_conv_3x3~0 skip_connect~1 sep_conv_3x3~0",
        "sep_conv_3x3~0 max_pool_3x3~1 skip_connect~2 max_pool_3x3~0 "
        "skip_connect~2 skip_connect~3 skip_connect~2 skip_connect~3",
    ),
    Entry(
        "darts-minus-1",
        "Meituan-AutoML/DARTS-@adb81a8 src/eval/genotypes.py, one of five searches on CIFAR-10",
        3.63,
        "sep_conv_3x3~0 dil_conv_5x5~1 sep_conv_3x3~0 sep_conv_3x3~1 "
        "dil_conv_5x5~1 sep_conv_3x3~0 skip_connect~1 sep_conv_3x3~0",
        "sep_conv_3x3~1 max_pool_3x3~0 skip_connect~2 max_pool_3x3~1 "
        "skip_connect~2 skip_connect~3 skip_connect~2 skip_connect~3",
    ),
    Entry(
        "darts-minus-2",
        "Meituan-AutoML/DARTS-@adb81a8 src/eval/genotypes.py, one of five searches on CIFAR-10",
        3.74,
        "sep_conv_5x5~1 sep_conv_3x3~0 sep_conv_3x3~0 sep_conv_3x3~1 "
        "skip_connect~1 sep_conv_5x5~0 sep_conv_3x3~0 skip_connect~1",
        "sep_conv_3x3~1 sep_conv_3x3~0 skip_connect~2 max_pool_3x3~1 "
        "skip_connect~2 skip_connect~3 skip_connect~2 skip_connect~3",
    ),
    Entry(
        "darts-minus-3",
        "Meituan-AutoML/DARTS-@adb81a8 src/eval/genotypes.py, one of five searches on CIFAR-10",
        3.44,
        "sep_conv_3x3~0 sep_conv_3x3~1 sep_conv_3x3~0 sep_conv_3x3~1 "
        "sep_conv_3x3~0 dil_conv_5x5~1 skip_connect~1 skip_connect~0",
        "max_pool_3x3~0 max_pool_3x3~1 skip_connect~2 sep_conv_5x5~0 "
        "skip_connect~3 skip_connect~2 skip_connect~3 skip_connect~2",
    ),
    Entry(
        "darts-minus-4",
        "Meituan-AutoML/DARTS-@adb81a8 src/eval/genotypes.py, one of five searches on CIFAR-10",
        3.45,
        "sep_conv_3x3~0 sep_conv_5x5~1 sep_conv_3x3~1 sep_conv_3x3~0 "
        "skip_connect~1 dil_conv_3x3~0 skip_connect~1 sep_conv_5x5~0",
        "max_pool_3x3~0 max_pool_3x3~1 max_pool_3x3~0 skip_connect~2 "
        "skip_connect~2 skip_connect~3 skip_connect~2 skip_connect~3",
    ),
    Entry(
        "darts-minus-c100",
        "Meituan-AutoML/DARTS-@adb81a8 src/eval/genotypes.py, one of four searches on CIFAR-100",
        3.37,
        "dil_conv_5x5~0 dil_conv_3x3~1 sep_conv_3x3~1 dil_conv_3x3~0 "
        "dil_conv_5x5~0 dil_conv_3x3~1 sep_conv_3x3~1 dil_conv_5x5~0",
        "max_pool_3x3~0 sep_conv_5x5~1 skip_connect~2 sep_conv_5x5~0 "
        "skip_connect~2 skip_connect~3 skip_connect~2 skip_connect~3",
    ),
    Entry(
        "darts-minus-c100-1",
        "Meituan-AutoML/DARTS-@adb81a8 src/eval/genotypes.py, one of four searches on CIFAR-100",
        3.42,
        "sep_conv_3x3~1 dil_conv_3x3~0 dil_conv_5x5~1 dil_conv_5x5~0 "
        "dil_conv_5x5~1 dil_conv_3x3~0 sep_conv_3x3~1 sep_conv_3x3~0",
        "avg_pool_3x3~1 avg_pool_3x3~0 avg_pool_3x3~1 skip_connect~2 "
        "skip_connect~2 avg_pool_3x3~1 skip_connect~2 skip_connect~3",
    ),
    Entry(
        "darts-minus-c100-2",
        "Meituan-AutoML/DARTS-@adb81a8 src/eval/genotypes.py, one of four searches on CIFAR-100",
        3.24,
        "dil_conv_3x3~0 sep_conv_3x3~1 dil_conv_3x3~0 sep_conv_5x5~1 "
        "sep_conv_3x3~1 dil_conv_3x3~0 skip_connect~1 dil_conv_3x3~0",
        "avg_pool_3x3~1 skip_connect~0 skip_connect~2 avg_pool_3x3~1 "
        "skip_connect~2 skip_connect~3 skip_connect~2 skip_connect~3",
    ),
    Entry(
        "darts-minus-c100-3",
        "Meituan-AutoML/DARTS-@adb81a8 src/eval/genotypes.py, one of four searches on CIFAR-100",
        3.36,
        "dil_conv_5x5~0 sep_conv_5x5~1 sep_conv_3x3~0 skip_connect~1 "
        "sep_conv_3x3~1 sep_conv_3x3~0 skip_connect~1 dil_conv_3x3~0",
        "sep_conv_3x3~1 sep_conv_3x3~0 skip_connect~2 avg_pool_3x3~0 "
        "skip_connect~2 skip_connect~3 skip_connect~2 skip_connect~3",
    ),
)

zoo = Zoo(ENTRIES)
