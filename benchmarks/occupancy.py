"""How many warps of our kernels a processor of an H200 holds at once, and what bounds them; no GPU is needed.

    python -m benchmarks.occupancy --json FILE

The kernels of a cell of NAS-Bench-201 (three members in one step) and of a separable convolution of DARTS are compiled
for an H200 as a training step launches them; registers and shared memory of a program say how many fit.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nesbs import files
from nesbs.kernels import support
from nesbs.kernels.compile_ahead import Launch, launches_of
from nesbs.spaces import nasbench201
from nesbs.spaces.operations import Units, operation
from nesbs.supernet.fused_network import EDGE_CODES

ARCHITECTURE = 90  # NVIDIA's number for an H200
REGISTERS, SHARED, WARPS, PROGRAMS = 65_536, 228 * 1024, 64, 32  # that a processor has, or holds at once
RESERVED = 1024  # bytes of shared memory that the driver takes for a program
POINTERS = {torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.int32: "*i32", torch.int64: "*i64"}


def edge_cell(channels: int, *, images: int = 256, members: int = 3) -> Callable[[], object]:
    """A cell of 3×3 convolutions of several members: forward and backward."""
    from nesbs.kernels.edge_cell import FusedEdgeCell

    space, side, row = nasbench201(), 32 * 16 // channels, 9 * channels**2
    edges = len(space.edges)
    x = torch.empty(members, images, side, side, channels, dtype=torch.bfloat16, requires_grad=True)
    weights = torch.empty(members, edges * row, requires_grad=True)
    codes = torch.full((members, edges), EDGE_CODES["nor_conv_3x3"], dtype=torch.int32)
    affine, running = (torch.empty(edges, members, 2, channels) for _ in range(2))

    def work() -> None:
        out = FusedEdgeCell.apply(x, weights, codes, space.nodes, row, 0, affine.requires_grad_(), running)
        torch.autograd.grad(out, [x, weights, affine], torch.empty_like(out))

    return work


def separable(channels: int, *, images: int = 96) -> Callable[[], object]:
    """A separable 3×3 convolution of DARTS: forward and backward."""
    units = operation("sep_conv_3x3", channels, 1, torch.nn.BatchNorm2d)
    assert isinstance(units, Units)
    units.fused, side = True, 32 * 36 // channels
    x = torch.empty(images, channels, side, side, dtype=torch.bfloat16, requires_grad=True)

    def work() -> None:
        out = units(x)
        torch.autograd.grad(out, [x, *units.parameters()], torch.empty_like(out))

    return work


def compiled(launch: Launch) -> tuple[int, int, int]:
    """Registers a thread, bytes of shared memory and warps of a program."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature: dict[str, str] = {}
    constants: dict[tuple[int], Any] = {}
    attributes: dict[tuple[int], Any] = {}
    for place, parameter in enumerate(launch.program.params):
        named = parameter.name in launch.named
        value = launch.named[parameter.name] if named else launch.arguments[place]
        one = isinstance(value, int) and value == 1 and not parameter.do_not_specialize
        if parameter.is_constexpr or value is None or one:
            signature[parameter.name], constants[place,] = "constexpr", value
        elif isinstance(value, torch.dtype | Tensor):
            signature[parameter.name] = POINTERS[value.dtype if isinstance(value, Tensor) else value]
        else:
            signature[parameter.name] = "fp32" if isinstance(value, float) else "i32"
        aligned = isinstance(value, torch.dtype) or (isinstance(value, int) and value % 16 == 0)
        if aligned and signature[parameter.name] != "constexpr" and not parameter.do_not_specialize:
            attributes[place,] = [["tt.divisibility", 16]]
    options = {name: launch.named[name] for name in ("num_warps", "num_stages") if name in launch.named}
    source = ASTSource(launch.program, signature, constants, attributes)
    kernel = triton.compile(source, target=GPUTarget("cuda", ARCHITECTURE, 32), options=options)
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as opened:
        opened.write(kernel.asm["ptx"])
        opened.flush()
        assembler = [triton.knobs.nvidia.ptxas.path, f"-arch=sm_{ARCHITECTURE}a", "-v", opened.name, "-o", "/dev/null"]
        said = subprocess.run(assembler, capture_output=True, text=True, check=True).stderr
    [registers] = re.findall(r"Used (\d+) registers", said)
    return int(registers), kernel.metadata.shared, kernel.metadata.num_warps


def warps_at_once(registers: int, shared: int, warps: int) -> tuple[int, str]:
    """How many warps a processor holds at once, and what there are no more of.

    >>> warps_at_once(96, 13_824, 4), warps_at_once(46, 61_440, 4), warps_at_once(32, 0, 4)
    ((20, 'registers'), (12, 'shared memory'), (64, 'warps'))
    """
    a_warp = -(-registers * 32 // 256) * 256  # registers are handed out by 256
    programs = {
        "registers": REGISTERS // (a_warp * warps),
        "shared memory": SHARED // (shared + RESERVED),
        "warps": min(PROGRAMS, WARPS // warps),
    }
    bound = min(programs, key=programs.__getitem__)
    return programs[bound] * warps, bound


def measure(works: dict[tuple[str, int], Callable[[], object]]) -> Iterator[dict[str, Any]]:
    """A row for each kernel and width."""
    for (cell, channels), work in works.items():
        seen = set()
        for launch in launches_of(work):
            name = launch.program.fn.__name__
            if name in seen:  # the first stands for those that differ in alignment or in a flag
                continue
            seen.add(name)
            registers, shared, warps = compiled(launch)
            at_once, bound = warps_at_once(registers, shared, warps)
            row = {"cell": cell, "channels": channels, "kernel": name, "registers": registers, "shared": shared}
            yield {**row, "warps": warps, "at_once": at_once, "bound": bound}


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each kernel and width, and write them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--toy", action="store_true", help="one width alone")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    chosen = parser.parse_args(arguments)
    support.INTERPRETED = True  # nothing runs
    edges, pairs = ((16,), ()) if chosen.toy else ((16, 32, 64), (36, 72, 144))
    works = {("NAS-Bench-201", channels): edge_cell(channels) for channels in edges}
    works |= {("DARTS", channels): separable(channels) for channels in pairs}
    rows = []
    for row in measure(works):
        rows.append(row)
        print("{cell:<15}{channels:>4}  {kernel:<12}{registers:>4} registers, {at_once:>2} warps at once".format(**row))
    if chosen.json:
        files.write_json(chosen.json, {"architecture": ARCHITECTURE, "warps": WARPS, "rows": rows})


if __name__ == "__main__":
    main()
