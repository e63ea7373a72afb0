"""How long a step of a network takes: measured on some networks, scaled to others by their multiply-adds.

The package holds the times of an NVIDIA H200 (`step_times.json`, from results/benchmarks); `python -m benchmarks --json
FILE` measures those of another machine. Scaling is an estimate: a GPU that small networks leave idle takes less.
"""

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

import torch
from torch import nn

from nesbs import files
from nesbs.errors import NesbsError
from nesbs.records.step_times import StepRecord, StepTimeRecord, StepTimesRecord
from nesbs.spaces import Member, get_space, multiply_adds, named_architecture

# The architectures whose steps are timed, and which stand for those that a search will choose.
STANDS_IN = {
    "nasbench201": "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|",
    "darts": "darts-v2",
}
NetworkKey = tuple[str, str | None, int | None, int | None, str]  # space, architecture, cells, channels, stem


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step and of what comes before the first; the measured step it is taken from, multiplied by what."""

    seconds: float
    prepare_seconds: float
    source: str
    factor: float
    measured: bool  # whether it is that step itself


class StepTimes:
    """Step times of one machine.

    >>> times = StepTimes.recorded()
    >>> wanted = times.steps("member")[0].step
    >>> time = times.of(wanted)
    >>> time.source, time.factor, round(1000 * time.seconds, 2)
    ('member, NAS-Bench-201, batch 256', 1.0, 4.85)
    >>> round(times.of(wanted.replace(channels=32)).factor, 1)  # four times the multiply-adds
    4.0
    """

    def __init__(self, record: StepTimesRecord) -> None:
        self._rows = [row for row in record.results or () if row.step is not None and (row.seconds or 0) > 0]
        machine = record.machine or {}
        self.device = machine.get("device", "an unknown device")
        self.about = f"{self.device}, torch {machine.get('torch', 'unknown')}"

    @classmethod
    def recorded(cls) -> "StepTimes":
        """Return those of the H200 inside the package."""
        with resources.as_file(resources.files("nesbs") / "runs" / "step_times.json") as path:
            return cls(StepTimesRecord.read(path))

    @classmethod
    def read(cls, path: Path) -> "StepTimes":
        """Return those of a machine on which `python -m benchmarks --json FILE` was run."""
        times = cls(StepTimesRecord.read(files.expanded(path)))
        if not times.steps("member", "supernet"):
            raise NesbsError(
                f"{path} has no step times: `python -m benchmarks --json FILE` of this version writes such a file"
            )
        return times

    def steps(self, *kinds: str) -> list[StepTimeRecord]:
        """Return what was timed of some kinds."""
        return [row for row in self._rows if row.step is not None and row.step.kind in kinds]

    def of(self, wanted: StepRecord) -> StepTime | None:
        """Return the time of a step: of the measured one most like it, scaled; None where none of its kind is known."""

        def kind(step: StepRecord | None) -> tuple[object, ...]:
            return () if step is None else (step.space, step.paths == "one", step.partial, step.precision)

        known = self.steps(wanted.kind or "")
        unlike = [[a != b for a, b in zip(kind(row.step), kind(wanted), strict=True)] for row in known]
        nearest = [row for row, other in zip(known, unlike, strict=True) if other == min(unlike)]
        factors = [products(wanted) / products(row.step) for row in nearest if row.step is not None]
        if not factors:
            return None
        row, factor = min(zip(nearest, factors, strict=True), key=lambda each: max(each[1], 1 / each[1]))
        # Rows that came later in one process found kernels that were compiled for the first.
        same = [each for each in known if kind(each.step)[:1] == kind(row.step)[:1]]
        prepare = max(each.prepare_seconds or 0.0 for each in same)
        measured = not any(min(unlike)) and abs(factor - 1) < 0.005
        return StepTime((row.seconds or 0.0) * factor, prepare, row.name or "", factor, measured)


def products(step: StepRecord) -> float:
    """Multiply-adds of a step's forward pass, with every path that of the architecture or of the one that stands in."""
    operations = get_space(step.space or "").operations
    dense = len([operation for operation in operations if operation != "none"])
    paths = {"one": 1.0, "fair": len(operations), "dense": dense, "mixed": (len(operations) + dense) / 2}[step.paths]
    each = step.multiply_adds or _products(_key(step), step.classes or 10, step.image or (3, 32, 32))
    return each * (step.images or 1) * paths


@lru_cache(maxsize=64)
def network_bytes(step: StepRecord) -> int:
    """The bytes of a training's checkpoint: weights, their momentum, and buffers."""
    space, classes, inputs = get_space(step.space or ""), step.classes or 10, (step.image or (3,))[0]
    network: nn.Module
    if step.kind == "member":
        network = _member(_key(step), classes, inputs, auxiliary=step.auxiliary)
    else:
        _, _, cells, channels, _ = _key(step)
        assert cells is not None
        assert channels is not None
        network = space.supernet(
            classes=classes, in_channels=inputs, channels=channels, cells=cells, affine=False, partial=step.partial
        )
    buffers = sum(buffer.nbytes for buffer in network.buffers())
    return buffers + 2 * sum(parameter.nbytes for parameter in network.parameters())


def _key(step: StepRecord) -> NetworkKey:
    """What a step's network is built from."""
    cells, channels = (None, None) if step.kind == "member" else get_space(step.space or "").supernet_size
    return step.space or "", step.architecture, step.cells or cells, step.channels or channels, step.stem


@lru_cache(maxsize=64)
def _products(network: NetworkKey, classes: int, image: tuple[int, int, int]) -> int:
    return multiply_adds(_member(network, classes, image[0]), image)


def _member(network: NetworkKey, classes: int, inputs: int, *, auxiliary: bool = False) -> Member:
    name, text, cells, channels, stem = network
    space = get_space(name)
    if text is None and name not in STANDS_IN:
        architecture = space.sample(generator=torch.Generator().manual_seed(0))
    else:
        architecture = named_architecture(space, text or STANDS_IN[name])
    return space.network(
        architecture,
        classes=classes,
        in_channels=inputs,
        channels=channels,
        cells=cells,
        stem=stem,  # type: ignore[arg-type]
        auxiliary=auxiliary,
    )
