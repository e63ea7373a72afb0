"""Tasks on a Ray cluster (extra `ray`).

What tasks share is put into Ray's object store, from which it travels to each node once. Ray places the tasks; one
whose worker or node is gone is given to Ray again. This process alone reads and writes files.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import logging
import os
import pickle
import platform
import socket
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import torch

from nesbs.cluster.contract import Result, Setting, Shared, Task, Value, Workers, check_deaths
from nesbs.cluster.worker import outcome
from nesbs.errors import NesbsError
from nesbs.version import __version__

WAIT = 5.0  # seconds until an address counts as one that does not answer
PROBE_WAIT = 60.0  # seconds that a node has to say what it runs: its first worker imports torch
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # how a client of gRPC begins
SETTINGS = 4  # the kind of the frame that a server of gRPC answers with
Versions = dict[str, str]

_shared: tuple[object, Any] | None = None  # in a worker: what the last tasks shared, by its name in the object store


@contextlib.contextmanager
def connected(address: str) -> Iterator[None]:
    """Be a driver of the cluster at an address (`auto`: this machine's) inside a `with` block.

    Afterwards none of its workers is left. A connection that this process has already is used and kept.
    """
    ray = library()
    if ray.is_initialized():
        yield
        return
    check_answers(address)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (RuntimeError, OSError, ValueError, AssertionError, ray.exceptions.RayError) as error:
        reason = " ".join(str(error).split())
        advice = ": install the same" if reason.startswith("Version mismatch") else ""  # of Ray or Python
        raise NesbsError(f"--ray {address}: {reason}{advice}") from None
    try:
        check_nodes(ray, versions())
        yield
    finally:
        ray.shutdown()


def library() -> Any:
    """Ray, which sends no usage statistics and leaves CUDA_VISIBLE_DEVICES of tasks without a GPU alone."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise NesbsError("--ray needs ray: pip install 'nesbs[ray]'") from None


def check_answers(address: str) -> None:
    """Raise where nothing at an address answers as Ray does; Ray itself would try for minutes."""
    from ray._private.services import canonicalize_bootstrap_address  # also finds this machine's, for `auto`

    try:
        host, _, port = str(canonicalize_bootstrap_address(address)).rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), timeout=WAIT) as connection:
            connection.sendall(HTTP2)
            answer = connection.recv(9)
        if len(answer) < 4 or answer[3] != SETTINGS:
            raise OSError("what answers is not Ray")
    except (OSError, ValueError) as error:
        reason = "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or error
        advice = "give HOST:PORT as `ray start --head` prints it, or auto"
        if address == "auto":
            reason, advice = "none was started on this machine", "docs/cluster.md says how; --workers N needs none"
        raise NesbsError(f"--ray {address}: there is no Ray cluster ({reason}): {advice}") from None


def versions() -> Versions:
    """What results depend on beside the recipe, of this process: the same names and order everywhere."""
    code = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        code.update(path.read_bytes())
    return {
        "nesbs": f"{__version__} (its code: {code.hexdigest()[:8]})",
        "torch": torch.__version__,
        "Python": platform.python_version(),
        "Ray": library().__version__,
    }


def check_nodes(ray: Any, own: Versions) -> None:
    """Raise where a node of the cluster has another nesbs, torch, Python or Ray than this process, or none."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    probe = ray.remote(max_retries=0, num_cpus=0)(versions)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    asked = [probe.options(scheduling_strategy=On(node["NodeID"], soft=False)).remote() for node in nodes]
    for node, answer in zip(nodes, asked, strict=True):
        where = f"node {node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
        try:
            theirs = ray.get(answer, timeout=PROBE_WAIT)
        except ray.exceptions.GetTimeoutError:
            raise NesbsError(f"{where} of the Ray cluster does not answer: look at `ray status`") from None
        except ray.exceptions.RayTaskError as error:
            if not isinstance(error.cause, ImportError):
                raise
            raise NesbsError(f"{where} of the Ray cluster cannot import nesbs: install it there") from None
        except ray.exceptions.RayError:
            continue  # has just left
        for name, version in own.items():
            if theirs[name] != version:
                raise NesbsError(
                    f"{where} of the Ray cluster has {name} {theirs[name]}, this process {version}: install the same"
                )


def run_on_ray(
    next_task: Callable[[], Task[Shared, Value] | None], shared: Shared, workers: Workers, *, gpu: bool
) -> Generator[Result[Value], None, None]:
    """What `run_tasks` does, on the cluster that this process is connected to."""
    ray = library()
    died = (
        *(ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError),
        ray.exceptions.ObjectLostError,  # a result, with its node
    )
    needs = {"CPU": float(torch.get_num_threads()), "GPU": (workers.gpus_each or 1.0) if gpu else 0.0}
    _check_room(ray, needs, workers)
    remote = ray.remote(_run).options(num_cpus=needs["CPU"], num_gpus=needs["GPU"], max_retries=0)
    stored = ray.put(pickle.dumps((Setting.here(), shared)))
    at_work: dict[Any, tuple[Task[Shared, Value], int]] = {}  # with deaths before
    try:
        while True:
            while len(at_work) < _room(ray, needs, workers) and (task := next_task()) is not None:
                at_work[remote.remote([stored], pickle.dumps(task))] = task, 0
            if not at_work:
                return
            [ended], _ = ray.wait(list(at_work))
            task, deaths = at_work.pop(ended)
            try:
                answer = pickle.loads(ray.get(ended))
            except died as error:
                check_deaths(task, deaths + 1, f"of {type(error).__name__}")
                at_work[remote.remote([stored], pickle.dumps(task))] = task, deaths + 1
                continue
            yield answer.get()
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise NesbsError(f"the Ray cluster failed ({reason}): the same command resumes once it is back") from None
    finally:
        for each in at_work:
            with contextlib.suppress(Exception):  # the cluster may be gone
                ray.cancel(each, force=True)


def _run(stored: list[Any], task: bytes) -> bytes:
    """Run a task, in a worker; what tasks share is unpacked by each worker once."""
    global _shared
    [reference] = stored
    if _shared is None or _shared[0] != reference:
        setting, shared = pickle.loads(library().get(reference))
        setting.apply()
        _shared = reference, shared
    return outcome(pickle.loads(task), _shared[1])


def _nodes(ray: Any) -> list[dict[str, float]]:
    """The resources of each node that is alive."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _room(ray: Any, needs: dict[str, float], workers: Workers) -> int:
    """How many tasks may run at a time: what the nodes have room for now, one at least."""
    room = sum(min(int(node.get(name, 0.0) / need) for name, need in needs.items() if need > 0) for node in _nodes(ray))
    return max(1, room if workers.count is None else min(room, workers.count))


def _check_room(ray: Any, needs: dict[str, float], workers: Workers) -> None:
    """Raise where no node has what a task needs, or fewer GPUs are there than so many workers were to have."""
    nodes = _nodes(ray)
    if not any(node.get("CPU", 0.0) >= needs["CPU"] for node in nodes):
        most = max((node.get("CPU", 0.0) for node in nodes), default=0.0)
        raise NesbsError(
            f"a worker computes with {needs['CPU']:g} threads, and no node of the Ray cluster has more than {most:g} "
            "CPUs: set fewer threads"
        )
    gpus = sum(node.get("GPU", 0.0) for node in nodes)
    asked = needs["GPU"] * (workers.count or 1)
    if asked > gpus or not any(node.get("GPU", 0.0) >= min(needs["GPU"], 1.0) for node in nodes):
        raise NesbsError(
            f"{asked:g} GPUs are asked for, and the Ray cluster has {gpus:g}: see --workers and --gpus-each"
        )
