"""The DARTS space, whose networks also take published cells from outside it."""

from torch import nn

from nesbs.errors import NesbsError
from nesbs.spaces.architecture import Architecture, Cell, expect_text
from nesbs.spaces.operations import Norm, member_norm
from nesbs.spaces.outside_cells import OutsideArchitecture, distinguish_repeats, is_outside_text, parse_outside
from nesbs.spaces.pairs import PairSpace


class DartsSpace(PairSpace):
    """The DARTS space, whose networks also take published cells from outside it (`OutsideArchitecture`)."""

    def parse(self, text: str) -> Architecture:
        """Read genotype lists as `PairSpace` does; with `normal_concat` or as `robnet` they may lie outside."""
        expect_text(text)
        if not is_outside_text(text):
            return super().parse(text)
        outside = parse_outside(text)
        return super().parse(text) if self._inside(outside) else outside

    def _inside(self, outside: OutsideArchitecture) -> bool:
        return (
            outside.kinds == self.kinds
            and outside.outputs == super().output_states(outside)
            and all(len(cell) == self.nodes for cell in outside.cells)
            and all(node[0][1] != node[1][1] for cell in outside.cells for node in cell)
            and all(op in self.operations for cell in outside.cells for node in cell for op, _ in node)
        )

    def encode(self, architecture: Architecture) -> tuple[int, ...]:
        """As `PairSpace` does; a cell from outside is refused."""
        if isinstance(architecture, OutsideArchitecture):
            raise NesbsError(f"this cell lies outside space {self.name}: it can be trained, not searched")
        return super().encode(architecture)

    def check_member(self, architecture: Architecture) -> None:
        """Raise where an architecture cannot be trained: those of the space and published cells can."""
        if not isinstance(architecture, OutsideArchitecture):
            self.check(architecture)

    def live(self, architecture: Architecture) -> tuple[Cell, ...]:
        """The cells without the edges that carry nothing."""
        return architecture.live if isinstance(architecture, OutsideArchitecture) else super().live(architecture)

    def paths(self, architecture: Architecture) -> tuple[Cell, ...]:
        """The live cells, with two names for an operation that a node applies twice to one input."""
        live = self.live(architecture)
        return tuple(map(distinguish_repeats, live)) if isinstance(architecture, OutsideArchitecture) else live

    def kinds_of(self, architecture: Architecture) -> tuple[str, ...]:
        """What its cells are called."""
        return architecture.kinds if isinstance(architecture, OutsideArchitecture) else self.kinds

    def output_states(self, architecture: Architecture) -> tuple[tuple[int, ...], ...]:
        """The states that leave each cell."""
        if isinstance(architecture, OutsideArchitecture):
            return architecture.outputs
        return super().output_states(architecture)

    def cell_norm(self, architecture: Architecture) -> Norm:
        """BatchNorm inside a member's cells; RobNet's has no weights."""
        affine = not isinstance(architecture, OutsideArchitecture) or architecture.affine
        return member_norm if affine else lambda channels: nn.BatchNorm2d(channels, affine=False)


def darts() -> DartsSpace:
    """The DARTS space: two cells of four nodes, seven operations, about 10^18 architectures.

    >>> f"{len(darts()):.2e}"
    '1.08e+18'
    """
    operations = (
        "max_pool_3x3",
        "avg_pool_3x3",
        "skip_connect",
        "sep_conv_3x3",
        "sep_conv_5x5",
        "dil_conv_3x3",
        "dil_conv_5x5",
    )
    # Members as DARTS evaluates them, the supernet as the paper searches (app. B.1).
    return DartsSpace("darts", 4, operations, member_size=(20, 36), supernet_size=(8, 16))


def toy_pairs() -> PairSpace:
    """The DARTS shape with two nodes and two operations: 2,304 architectures, small enough to enumerate.

    >>> len(toy_pairs())
    2304
    """
    return PairSpace("toy-pairs", 2, ("skip_connect", "sep_conv_3x3"), member_size=(3, 4), supernet_size=(3, 4))
