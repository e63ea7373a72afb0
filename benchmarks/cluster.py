"""Two Ray nodes on this machine: `make cluster-demo`, and how much quicker two workers are than one.

python -m benchmarks.cluster [RECIPE]        compare with and without Ray, a node killed half-way: the same table
python -m benchmarks.cluster --speed [--json FILE]   a pool by one worker and by two; Ray's start and its cost a task
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.timing import machine
from nesbs import files
from nesbs.cluster import Workers, run_tasks
from nesbs.cluster.on_ray import connected, library
from nesbs.compare.pool import Pool
from nesbs.rivals import uniform_pool
from nesbs.runs import Run, load_recipe

METHODS = "urs,nes-rs,deep"
POOL = 24  # networks of which the speed is measured: enough that the start of processes counts little
SPEED = ["members.epochs=6", "data.train_limit=2000", "members.cells=1", "members.channels=8", "threads=1"]


class TwoNodes:
    """A cluster of two nodes of one CPU each on this machine; `kill_one` ends the second at once."""

    def __init__(self) -> None:
        library()  # says to Ray what it is not to do
        from ray.cluster_utils import Cluster

        small: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_log_monitor": False}
        head = {**small, "include_dashboard": False, "no_monitor": True}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._second = self._cluster.add_node(**small)
        self.address: str = self._cluster.address

    def kill_one(self) -> None:
        """End the second node without a word to the first."""
        self._cluster.remove_node(self._second, allow_graceful=False)


@contextlib.contextmanager
def two_nodes() -> Iterator[TwoNodes]:
    """A cluster inside a `with` block; none of its processes is left afterwards."""
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in sys.path)  # for its workers
    cluster = TwoNodes()
    try:
        yield cluster
    finally:
        cluster._cluster.shutdown()


def compare(recipe: str, folder: Path, *options: str, meanwhile: Callable[[], None] | None = None) -> None:
    """Run the comparison in a process of its own; `meanwhile` is called when the first networks of it are trained."""
    command = [sys.executable, "-m", "nesbs", "compare", recipe, "--methods", METHODS, "--set", "threads=1"]
    with subprocess.Popen([*command, "--out", str(folder), *options], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if meanwhile is not None and any(folder.rglob("costs.json")):
                meanwhile()
                meanwhile = None
            time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"nesbs compare {' '.join(options)} ended with code {process.returncode}")
    if meanwhile is not None:
        raise SystemExit("it ended before a node could be killed")


def without_seconds(value: Any) -> Any:
    """A record without what was measured by a clock."""
    if isinstance(value, dict):
        return {name: without_seconds(each) for name, each in value.items() if "seconds" not in name}
    return [without_seconds(each) for each in value] if isinstance(value, list) else value


def compared(folder: Path) -> Any:
    """A comparison's record, less its seconds."""
    return without_seconds(json.loads((folder / "comparison.json").read_text()))


def demo(recipe: str, *options: str) -> None:
    """Compare without Ray, then on two nodes of which one is killed; the records must be the same."""
    with tempfile.TemporaryDirectory() as scratch:
        alone, on_ray = Path(scratch) / "alone", Path(scratch) / "on-ray"
        print(f"nesbs compare {recipe} --methods {METHODS}, in one process", flush=True)
        compare(recipe, alone, *options)
        with two_nodes() as cluster:

            def kill() -> None:
                print("half-way: one of the two nodes is killed", flush=True)
                cluster.kill_one()

            print(f"the same with --ray {cluster.address}, on two nodes", flush=True)
            compare(recipe, on_ray, "--ray", cluster.address, *options, meanwhile=kill)
        print((on_ray / "comparison.md").read_text())
        same = compared(alone) == compared(on_ray)
    print("without Ray the table is the same, but for its seconds" if same else "WITHOUT RAY THE TABLE IS ANOTHER")
    raise SystemExit(0 if same else 1)


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds that a function takes, and seconds that CPUs worked for it, in other processes too."""
    started, before = time.perf_counter(), sum(os.times()[:4])
    work()
    return time.perf_counter() - started, sum(os.times()[:4]) - before


def speed(out: Path | None = None) -> None:
    """Print the seconds of a pool by one worker and by two, and what Ray costs; also written as JSON."""
    torch.set_num_threads(1)
    record: dict[str, Any] = {"machine": {**machine(), "cores": os.cpu_count()}, "networks": POOL, "pool": []}
    with tempfile.TemporaryDirectory() as scratch:
        for count in (1, 2):
            run = Run.create(Path(scratch) / str(count), load_recipe("smoke", SPEED), workers=Workers(count))
            pool = Pool(run, run.data.search_valid, images="search_train")
            some = uniform_pool(run.space, POOL, generator=torch.Generator().manual_seed(0))
            wall, cpu = timed(partial(pool.train, some))
            record["pool"].append({"workers": count, "seconds": wall, "cpu_seconds": cpu})
            print(f"{POOL} networks by {count}: {wall:.1f} s, {cpu:.1f} s of CPUs", flush=True)
    one, two = record["pool"]
    ratios = [two[name] / one[name] for name in ("seconds", "cpu_seconds")]
    print("two workers against one: {:.2f} of the time, {:.2f} of the CPUs' time".format(*ratios))
    record["ray"] = ray_costs()
    if out is not None:
        files.write_json(out, record)


def ray_costs(tasks: int = 200) -> dict[str, float]:
    """Seconds that two Ray nodes take to start, a driver to connect, and a task that does nothing."""
    started = time.perf_counter()
    with two_nodes() as cluster:
        start, began = time.perf_counter() - started, time.perf_counter()
        with connected(cluster.address):
            connect = time.perf_counter() - began
            for count in (2, tasks):  # the first ones also start the workers
                left = iter([partial(pow, 1)] * count)  # next to no work
                results = run_tasks(partial(next, left, None), 0, workers=Workers(None, on_ray=True))
                took, _ = timed(partial(list, results))
    print(f"two Ray nodes start in {start:.1f} s; connecting and checking versions: {connect:.1f} s")
    print(f"{tasks} tasks that do nothing: {took:.2f} s, {1000 * took / tasks:.1f} ms each")
    return {"start_seconds": start, "connect_seconds": connect, "tasks": tasks, "task_seconds": took / tasks}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("recipe", nargs="?", default="smoke", help="to compare on two nodes")
    parser.add_argument("--seeds", default="3", help="of the comparison")
    parser.add_argument("--speed", action="store_true", help="measure instead")
    parser.add_argument("--json", type=Path, help="with --speed: also write the figures here")
    chosen = parser.parse_args(arguments)
    if chosen.speed:
        speed(chosen.json)
    else:
        demo(chosen.recipe, "--seeds", chosen.seeds)


if __name__ == "__main__":
    main()
