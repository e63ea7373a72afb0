"""How long an answer takes on this machine: each member and the ensemble, in torch and in onnxruntime.

From bytes at the networks' size to the answer; reading and resizing files is not in it. All are timed in turn, again
and again, so that a slow moment of the machine meets all of them.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nesbs.deploy.classifier import Classifier
from nesbs.deploy.exporting import input_shape
from nesbs.deploy.onnx_model import has_extra, onnx_model, part, session, traced
from nesbs.deploy.whole_model import INPUT, OUTPUTS, WholeModel, WithMembers, scaled
from nesbs.errors import expect_whole
from nesbs.records.latency import LatencyRecord, LatencyRow

WARM_UP = 2  # repetitions that are not counted
ENSEMBLE = "ensemble"
Call = Callable[[], object]
Key = tuple[str, str, str, int]  # runtime, device, model, batch


def measure_latency(
    classifier: Classifier, *, batches: Sequence[int] = (1, 64), repeats: int = 30, with_onnx: bool | None = None
) -> LatencyRecord:
    """Time a classifier on its device for batches of these sizes, and return medians and quartiles in milliseconds.

    onnxruntime is timed beside torch, on the CPU and with as many threads, where the extra `export` is installed
    (`with_onnx=None`) or where it is asked for.

    >>> from nesbs.data.conversion import ArrayView
    >>> from nesbs.ensemble import Ensemble
    >>> from nesbs.spaces import toy_edges
    >>> network = toy_edges().network(next(iter(toy_edges())), classes=2, in_channels=1, cells=1)
    >>> classifier = Classifier(Ensemble([network]).eval(), ArrayView("L", (8, 8)), ("cat", "dog"))
    >>> record = measure_latency(classifier, batches=[4], repeats=3, with_onnx=False)
    >>> [(row.runtime, row.model, row.batch, row.lower <= row.median <= row.upper) for row in record.rows]
    [('torch', 'member 1', 4, True), ('torch', 'ensemble', 4, True)]
    """
    expect_whole(repeats, "repeats")
    for batch in batches:
        expect_whole(batch, "a batch")
    shape, random = input_shape(classifier), np.random.default_rng(0)
    images = {batch: random.integers(0, 256, (batch, *shape), dtype=np.uint8) for batch in batches}
    calls = _torch_calls(classifier, images)
    if has_extra() if with_onnx is None else with_onnx:
        calls |= _onnx_calls(classifier, images)
    rows = [
        LatencyRow(runtime=runtime, device=device, model=model, batch=batch, **_quartiles(times))
        for (runtime, device, model, batch), times in timed(calls, repeats).items()
    ]
    return LatencyRecord(
        machine=machine(_device(classifier)),
        threads=torch.get_num_threads(),
        torch=torch.__version__,
        onnxruntime=_onnxruntime_version() if any(row.runtime == "onnxruntime" for row in rows) else None,
        repeats=repeats,
        rows=tuple(rows),
    )


def timed(calls: Mapping[Key, Call], repeats: int) -> dict[Key, list[float]]:
    """Return the milliseconds of each call, `repeats` of them, all calls in turn."""
    times: dict[Key, list[float]] = {key: [] for key in calls}
    for repetition in range(WARM_UP + repeats):
        for key, call in calls.items():
            start = time.perf_counter()
            call()
            if repetition >= WARM_UP:
                times[key].append(1000 * (time.perf_counter() - start))
    return times


def machine(device: torch.device) -> str:
    """Return the names of the processor and of the GPU that is used.

    >>> len(machine(torch.device("cpu"))) > 0
    True
    """
    names = [platform.processor() or platform.machine() or "unknown processor"]
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")][:1] or names
    except OSError:
        pass
    return ", ".join([*names, *([torch.cuda.get_device_name(device)] if device.type == "cuda" else [])])


def _torch_calls(classifier: Classifier, images: Mapping[int, np.ndarray]) -> dict[Key, Call]:
    device = _device(classifier)
    calls: dict[Key, Call] = {}
    whole = WholeModel(classifier.ensemble, classifier.temperature)

    def call(model: Callable[[Tensor], Tensor], pixels: np.ndarray) -> Call:
        @torch.no_grad()
        def answer() -> Tensor:
            return model(torch.from_numpy(pixels).to(device)).cpu()  # waits for a GPU

        return answer

    models: dict[str, Callable[[Tensor], Tensor]] = {
        f"member {number}": lambda pixels, member=member: member(scaled(pixels))  # type: ignore[misc]
        for number, member in enumerate(classifier.ensemble.members, start=1)
    }
    models[ENSEMBLE] = lambda pixels: whole(pixels)[0]
    for batch, pixels in images.items():
        calls |= {("torch", device.type, name, batch): call(model, pixels) for name, model in models.items()}
    return calls


def _onnx_calls(classifier: Classifier, images: Mapping[int, np.ndarray]) -> dict[Key, Call]:
    ensemble, device, threads = classifier.ensemble, _device(classifier), torch.get_num_threads()
    members = [f"member {number}" for number in range(1, 1 + len(ensemble.members))]
    try:
        program = traced(WithMembers(ensemble.cpu(), classifier.temperature), input_shape(classifier))
        model = onnx_model(program, (*OUTPUTS, *members), {})
    finally:
        ensemble.to(device)  # the program's weights too, which are these
    outputs: dict[str, Sequence[str]] = {**{name: (name,) for name in members}, ENSEMBLE: OUTPUTS}
    opened = {name: session(part(model, own).SerializeToString(), threads=threads) for name, own in outputs.items()}

    def call(name: str, pixels: np.ndarray) -> Call:
        return lambda: opened[name].run(None, {INPUT: pixels})

    return {
        ("onnxruntime", "cpu", name, batch): call(name, pixels) for batch, pixels in images.items() for name in opened
    }


def _device(classifier: Classifier) -> torch.device:
    return next(classifier.ensemble.parameters()).device


def _quartiles(times: Sequence[float]) -> dict[str, float]:
    lower, median, upper = np.quantile(times, [0.25, 0.5, 0.75])
    return {"median": round(float(median), 4), "lower": round(float(lower), 4), "upper": round(float(upper), 4)}


def _onnxruntime_version() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)
