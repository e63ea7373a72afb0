"""The commands that take a run elsewhere: export, and latency to see how fast it answers."""

from pathlib import Path
from typing import Annotated

import typer

from nesbs import files
from nesbs.cli.options import Common, OnDevice, RunFolder, numbers
from nesbs.deploy import export_classifier, kept_images, load, measure_latency
from nesbs.deploy.exporting import HALF, check_place
from nesbs.deploy.half import write_half_run
from nesbs.errors import NesbsError
from nesbs.records import LatencyRecord
from nesbs.records.whole_folder import check_begun
from nesbs.report import latency_as_text, write_report
from nesbs.runs.folder_lock import locked

MOST_AT_ONCE = 100_000  # images


def export(
    *,
    run: RunFolder,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="model.onnx, model.pt2 with --to torch, a folder with half.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="onnx|torch|half", help="The format.")] = "onnx",
    common: Common,
) -> None:
    """Write a finished run as one file that needs no nesbs, or small.

    \b
    --to onnx: for onnxruntime and others; needs the extra export.
    --to torch: for torch.export.load.
    --to half: a run's folder with weights in float16, to give away.

    The file of the first two takes images as bytes, (images, height, width, channels) at the networks' size, any number
    at once, and gives `probabilities`, `label` and `uncertainty` (the entropy in nats). Scaling, mean and deviation,
    all members, their averaging and the temperature are inside; class names and the way of resizing are in its
    metadata.

    Before it is written it is tried: where a probability differs from the ensemble's by more than 0.00001 there is no
    file. Large networks take minutes. A program that uses the file without torch: docs/own-images.md.

    A folder of half the size is for `nesbs predict`, which needs it alone, and `nesbs evaluate`, which needs the data
    (--root). Weights are rounded to float16 and read back as float32.
    """
    out = files.expanded(out)
    if to == HALF:
        common.print(f"{out}: a run's folder of {write_half_run(run, out) / 2**20:.2f} MiB, weights in float16")
        return
    check_place(out, to)  # type: ignore[arg-type]
    classifier = load(run)
    about = export_classifier(classifier, out, to=to, images=kept_images(run))  # type: ignore[arg-type]
    size = about.preprocessing.size if about.preprocessing and about.preprocessing.size else (0, 0)
    common.print(
        f"{out}: {len(classifier.ensemble.members)} members, {len(classifier.class_names)} classes, images of "
        f"{size[0]}×{size[1]}; tried, and it answers as the ensemble does"
    )


def latency(
    *,
    run: RunFolder,
    batches: Annotated[str, typer.Option("--batches", metavar="N,N", help="Images at once; 1,64 by default.")] = "1,64",
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, max=100_000, help="How often each is timed.")
    ] = 30,
    common: OnDevice,
) -> None:
    """Time a finished run on this machine.

    A row for each member and for the ensemble, in torch and, with the extra export, in onnxruntime: the median and the
    quartiles over repetitions that take turns, from bytes at the networks' size to the answer. Other work on the
    machine shows in the quartiles. latency.json in the run's folder keeps the table, and the report shows it.
    """
    sizes = numbers(batches, "--batches", int)
    if not all(1 <= size <= MOST_AT_ONCE for size in sizes):
        raise NesbsError(f"--batches takes numbers from 1 to {MOST_AT_ONCE:,}, found {batches}")
    check_begun(run)
    with locked(run):
        record = measure_latency(load(run, device=common.chosen_device()), batches=sizes, repeats=repeats)
        record.write(run / LatencyRecord.FILE)
    common.print(latency_as_text(record))
    if record.onnxruntime is None:
        common.print("onnxruntime was not timed: it needs `pip install 'nesbs[export]'`")
    common.print(f"report: {write_report(run)}")
