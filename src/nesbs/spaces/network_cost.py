"""What the networks of a space cost, without building each of them.

A network is a fixed part (stem, reductions, head) and the operations on the edges of its cells. An operation costs the
same on every edge that starts from an input of a kind of cell, and the same on every edge that starts from a node. So a
few networks that are built give the cost of all. Where a space is not like that, or the width of a network depends on
its architecture, each network is built.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor, nn

from nesbs import rng
from nesbs.spaces.architecture import Architecture, Cell
from nesbs.spaces.choice_cell import ChoiceCell
from nesbs.spaces.network_size import layer_products, parameters
from nesbs.spaces.outside_cells import OutsideArchitecture
from nesbs.spaces.space import Member, Space

Part = tuple[int, bool, str]  # (kind of cell, whether the edge starts from one of its inputs, operation)
Shape = tuple[str, tuple[int, int, int], int]  # (operation, (channels, height, width) that it takes, stride)


@dataclass(frozen=True)
class NetworkCost:
    """What a network, or a part of one, costs: parameters, and multiply-adds for one image."""

    parameters: int = 0
    multiply_adds: int = 0


class NetworkCosts:
    """Costs of a space's networks, as `build` makes them, for one image (channels, height, width).

    Without `additive`, where networks differ in more than their operations, each network is built.

    >>> from nesbs.spaces import nasbench201
    >>> space = nasbench201()
    >>> costs = NetworkCosts(space, space.network, (3, 32, 32))
    >>> costs(space.parse("|nor_conv_3x3~0|+|none~0|none~1|+|none~0|none~1|skip_connect~2|"))  # nothing arrives
    NetworkCost(parameters=316346, multiply_adds=7783040)
    """

    def __init__(
        self,
        space: Space,
        build: Callable[[Architecture], Member],
        image: tuple[int, int, int],
        *,
        additive: bool = True,
    ) -> None:
        self.space, self.image = space, image
        self._make = build
        self._fixed: NetworkCost | None = None
        self._parameters: dict[Part, int] = {}
        self._products: dict[Part, int] = {}  # of parts that have been run
        self._shapes: dict[Part, Counter[Shape]] = {}
        self._adds_up = additive
        self._known: dict[Architecture, NetworkCost] = {}

    def __call__(self, architecture: Architecture) -> NetworkCost:
        """Return what the network of an architecture costs, without an auxiliary tower as in `network_size`."""
        if architecture not in self._known:
            self._known[architecture] = self._cost(architecture)
        return self._known[architecture]

    def shapes(self, architecture: Architecture) -> Counter[Shape]:
        """Return how often the network of an architecture runs each operation on each shape."""
        if not self._sums(architecture):
            return Counter(shape for _, shape in _operations(self.build(architecture), self.space, self.image)[1])
        counted: Counter[Shape] = Counter()
        for part in self._parts(self.space.live(architecture)):
            counted.update(self._shapes[part])
        return counted

    def build(self, architecture: Architecture) -> Member:
        """Build the network of an architecture, with weights that are random and always the same."""
        with rng.seeded(0, "network cost"):
            return self._make(architecture)

    def _cost(self, architecture: Architecture) -> NetworkCost:
        if not self._sums(architecture):
            member = self.build(architecture)
            return NetworkCost(parameters(member), sum(layer_products(member, self.image).values()))
        assert self._fixed is not None
        return NetworkCost(
            self._fixed.parameters + sum(self._parameters[part] for part in self._parts(architecture.cells)),
            self._fixed.multiply_adds
            + sum(self._products[part] for part in self._parts(self.space.live(architecture))),
        )

    def _parts(self, cells: Iterable[Cell]) -> list[Part]:
        """The operations of cells, each with the kind of its cell and where its edge starts."""
        edges = ((kind, edge) for kind, cell in enumerate(cells) for node in cell for edge in node)
        return [(kind, source < self.space.inputs, op) for kind, (op, source) in edges if op != "none"]

    def _sums(self, architecture: Architecture) -> bool:
        """Whether the cost is a sum of parts; parts that are not known are learned from the network itself."""
        if isinstance(architecture, OutsideArchitecture) or not self._adds_up:
            return False
        every, live = self._parts(architecture.cells), self._parts(self.space.live(architecture))

        def known() -> bool:
            return all(part in self._parameters for part in every) and all(part in self._products for part in live)

        if self._fixed is None or not known():
            self._learn(self.build(architecture))
        return self._adds_up and known()

    def _learn(self, member: Member) -> None:
        """Take the costs of its operations from a network; what is left is fixed, and must be the same in all."""
        modules, runs = _operations(member, self.space, self.image)
        products = layer_products(member, self.image)
        counts: dict[tuple[Part, str], list[int]] = {}  # of one edge in all cells of a kind
        for (part, edge), module in modules:
            sizes = counts.setdefault((part, edge), [0, 0])
            sizes[0] += sum(parameter.numel() for parameter in module.parameters())
            sizes[1] += sum(products[layer] for layer in module.modules())
        run = {place for place, _ in runs}
        for (part, edge), (size, product) in counts.items():
            self._adds_up &= self._parameters.setdefault(part, size) == size
            if (part, edge) in run:
                self._adds_up &= self._products.setdefault(part, product) == product
                self._shapes[part] = Counter(shape for place, shape in runs if place == (part, edge))
        inside = [sum(sizes[axis] for sizes in counts.values()) for axis in (0, 1)]
        fixed = NetworkCost(parameters(member) - inside[0], sum(products.values()) - inside[1])
        self._adds_up &= fixed == (self._fixed or fixed)
        self._fixed = fixed


Place = tuple[Part, str]  # an operation on an edge, such as "2_0"


def _operations(
    member: Member, space: Space, image: tuple[int, int, int]
) -> tuple[list[tuple[Place, nn.Module]], list[tuple[Place, Shape]]]:
    """The operations that a network holds, by their places, and the shapes of those that an image runs through."""
    modules: list[tuple[Place, nn.Module]] = []
    for cell in (module for module in member.modules() if isinstance(module, ChoiceCell)):
        for edge, choices in cell.edges.items():
            assert isinstance(choices, nn.ModuleDict)
            starts_from_input = int(edge.partition("_")[2]) < space.inputs
            modules += [(((cell.kind, starts_from_input, op), edge), module) for op, module in choices.items()]
    runs: list[tuple[Place, Shape]] = []

    def noting(place: Place) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def note(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            channels, height, width = inputs[0].shape[1:]
            runs.append((place, (place[0][2], (channels, height, width), height // output.shape[2])))

        return note

    hooks = [module.register_forward_hook(noting(place)) for place, module in modules]
    try:
        layer_products(member, image)
    finally:
        for hook in hooks:
            hook.remove()
    return modules, runs
