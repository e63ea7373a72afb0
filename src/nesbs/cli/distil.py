"""The command that makes one small network of an ensemble: distil."""

from pathlib import Path
from typing import Annotated

import typer

from nesbs.cli.options import Changes, OneTraining, Out, Root, RunFolder
from nesbs.deploy import distil as distil_run
from nesbs.deploy.distil import DEFAULT
from nesbs.report import distilled_as_text, write_report


def distil(
    *,
    run: RunFolder,
    into: Annotated[
        str, typer.Option("--into", metavar="ARCHITECTURE|smallest|best", help="What the student is; see above.")
    ],
    out: Out,
    temperature: Annotated[
        float,
        typer.Option("--temperature", metavar="T", min=0.1, max=100, help="Softens the answers it learns from."),
    ] = DEFAULT.temperature,
    label_weight: Annotated[
        float, typer.Option("--label-weight", metavar="W", min=0, max=1, help="Share of the labels in its loss.")
    ] = DEFAULT.label_weight,
    unlabelled: Annotated[
        Path | None, typer.Option("--unlabelled", metavar="FOLDER", help="Learn also from answers to these images.")
    ] = None,
    changes: Changes = None,
    root: Root = None,
    common: OneTraining,
) -> None:
    """Train one network on an ensemble's answers.

    The student learns from the averaged answers of all members, on the images and with the augmentation they had. It
    costs one network and keeps a part of the ensemble's gain.

    \b
    --into smallest: the architecture of the member with the fewest parameters.
    --into best: of the member with the lowest loss on held-out training images, never test images: the members' own
      where members.images=search_train, else the supernet's estimate.
    --into TEXT: any architecture of the run's space, or its name in the zoo.

    The new folder is a run with one member: predict, export, latency, evaluate and report take it. Ends with a table of
    the ensemble, the student and the same network trained on labels alone (the ensemble's own member where it has that
    one, else trained too), and the share of the ensemble's gain that is kept, with intervals over the test images. The
    same command resumes. --set changes settings of the student, such as members.epochs=20 or members.channels=8.
    """
    with common.writing(out, new=True) as progress:
        record = distil_run(
            run,
            into=into,
            out=out,
            changes=changes or (),
            root=root,
            device=common.chosen_device(),
            progress=progress,
            temperature=temperature,
            label_weight=label_weight,
            unlabelled=None if unlabelled is None else str(unlabelled),
            **({} if common.seed is None else {"seed": common.seed}),
        )
    common.print(distilled_as_text(record), f"report: {write_report(out)}")
