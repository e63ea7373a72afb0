"""The command that puts a run to use: predict."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from nesbs.cli.options import OnDevice, RunFolder
from nesbs.data.image_files import ENDINGS
from nesbs.deploy import PredictedImage, UnreadImage, caution_for, csv_file, json_file, load, predict_files
from nesbs.errors import NesbsError, printable


def predict(
    *,
    run: RunFolder,
    images: Annotated[list[Path], typer.Argument(metavar="FILE|FOLDER…", help="Images, or folders of them.")],
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the answers into this file instead.")
    ] = None,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="The same, as a table.")] = None,
    top: Annotated[
        int, typer.Option("--top", metavar="K", min=1, max=1_000, help="Name the K most probable classes.")
    ] = 1,
    abstain: Annotated[
        float | None,
        typer.Option(
            "--abstain", metavar="E", min=0, max=1, help="Answer so few that about E of the answers are wrong: 0.02."
        ),
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            "--coverage", metavar="P", min=0, max=1, help="Name classes that hold the right one in P of cases: 0.95."
        ),
    ] = None,
    common: OnDevice,
) -> None:
    """Classify images with a finished run.

    A line for each image: the most probable class and its probability, then how unsure the ensemble is: the entropy of
    its answer in nats, and the share of pairs of members that disagree. The files add the mutual information.

    --abstain and --coverage are fitted to held-out answers that `nesbs evaluate` keeps beside the members: the error is
    an estimate, the coverage holds for images like those of the test. Too few of them are said.

    The run's folder is all that is needed: not the training images, not its first place, no right to write to it. What
    cannot be read is named, and the next image follows; exit code 2 where nothing could be read.
    """
    if json is not None and csv is not None:
        raise NesbsError("--json and --csv are two forms of the same answers: give one of them")
    for name, file in (("--json", json), ("--csv", csv)):
        if file is not None and (str(file).startswith("-") or file.suffix.lower() in ENDINGS):
            raise NesbsError(
                f"{name} is followed by a file for the answers, not {file}: answers{name.replace('--', '.')}"
            )
        if file is not None and file.resolve().is_relative_to(run.resolve()):  # perhaps one of the run's own files
            raise NesbsError(f"{name} {file} is in the run's folder, whose files are its record: name a file elsewhere")
    classifier = load(run, device=common.chosen_device())
    caution = caution_for(classifier.held_out, error=abstain, coverage=coverage)
    top = min(top, len(classifier.class_names))
    read = unread = 0
    with ExitStack() as stack:
        write = None
        if json is not None or csv is not None:
            write = stack.enter_context(json_file(json) if json is not None else csv_file(csv, top))  # type: ignore[arg-type]
        for answer in predict_files(classifier, images, top=top, caution=caution):
            if isinstance(answer, UnreadImage):
                unread += 1
                print(printable(answer.reason), file=sys.stderr)
            else:
                read += 1
                if write is None:
                    common.print(answer_as_text(answer))
            if write is not None:
                write(answer)
        if not read:
            raise NesbsError("no image could be read" if unread else f"there is no image in {images[0]}: name others")
    if write is not None:
        common.print(f"{read} predicted, {unread} could not be read: {json or csv}")


def answer_as_text(answer: PredictedImage) -> str:
    """The answer to one image as a line.

    >>> print(answer_as_text(PredictedImage("a.png", (("cat", 0.9), ("dog", 0.1)), 0.325, 0.0, 0.01)))
    a.png: cat 0.900, dog 0.100 (entropy 0.325, disagreement 0.00)
    >>> print(answer_as_text(PredictedImage("a.png", (("cat", 0.6),), 0.7, 0.5, 0.0, False, ("cat", "dog"))))
    a.png: no answer; likeliest cat 0.600 {cat, dog} (entropy 0.700, disagreement 0.50)
    """
    classes = ", ".join(f"{name} {probability:.3f}" for name, probability in answer.top)
    unsure = "" if answer.answered else "no answer; likeliest "
    held = "" if answer.classes is None else f" {{{', '.join(answer.classes)}}}"
    measures = f"(entropy {answer.entropy:.3f}, disagreement {answer.disagreement:.2f})"
    return f"{printable(answer.file)}: {unsure}{classes}{held} {measures}"
