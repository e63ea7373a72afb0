"""The commands that look at runs closer: quality, attack, report."""

from pathlib import Path
from typing import Annotated

import typer

from nesbs.cli.options import Changes, Common, Root, RunFolder, Spread, numbers
from nesbs.report import attacks_as_text, quality_as_text, write_report, write_reports
from nesbs.runs.attack import attack_settings, measure_robustness
from nesbs.runs.quality import measure_quality
from nesbs.runs.resumable_run import Run
from nesbs.settings import MAX_ARCHITECTURES, MAX_EPOCHS, MAX_IMAGES


def quality(
    *,
    run: RunFolder,
    architectures: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=4,
            max=MAX_ARCHITECTURES,
            help="Train so many for the truth, earlier ones included; 10 by default.",
        ),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=4, max=MAX_ARCHITECTURES, help="Drawn, to take diverse ones from; 50 by default."
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(metavar="E", min=1, max=MAX_EPOCHS, help="Of their training.")] = None,
    sizes: Annotated[str | None, typer.Option(metavar="N,N", help="Sizes of ensembles; 1,3,5,7 by default.")] = None,
    table: Annotated[str | None, typer.Option(metavar="FILE.csv", help="Read the truth instead: a benchmark.")] = None,
    column: Annotated[str | None, typer.Option(metavar="NAME", help="Its column of accuracies in per cent.")] = None,
    root: Root = None,
    common: Spread,
) -> None:
    """How good the supernet's estimates are.

    Look at it before you trust a search: correlation and agreement between estimated and true performance, of single
    architectures and of ensembles, with intervals and a verdict. Truth is trained (a quarter of the recipe's epochs,
    unless --epochs says) or read from a table with the columns architecture and NAME. What is the paper's method and
    what is ours: docs/how-it-works.md.
    """
    device = common.chosen_device()
    with common.writing(run) as progress, common.at_work() as workers:
        work = Run.open(run, device=device, progress=progress, seed=common.seed, root=root, workers=workers)
        if work.recipe.ensemble.architectures is None:
            work.require("supernet.safetensors", f"nesbs search RECIPE --out {run}")
        measured = measure_quality(
            work,
            architectures=architectures,
            candidates=candidates,
            epochs=epochs,
            sizes=None if sizes is None else numbers(sizes, "--sizes", int),
            table=table,
            column=column,
        )
    common.print(quality_as_text(measured), f"report: {write_report(run)}")


def attack(
    *,
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders with trained members.")],
    attacks: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME", help="Of fgsm, pgd, cw, autoattack, autoattack8; all by default."),
    ] = None,
    images: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=MAX_IMAGES, help="So many test images, for a quick look; all by default."),
    ] = None,
    changes: Changes = None,
    root: Root = None,
    common: Spread,
) -> None:
    """Attack one member or all, defend with all.

    Each member is attacked in turn. The table has the accuracy of the attacked member (Attack), of the ensemble on the
    same images (Defence), and of the ensemble where the attack is on its own answer (adaptive); the report adds
    curves over the size of the attack, checks that the attacks work, transfer between members, and pictures.
    Several runs, such as a rival's, come into one table. The same command resumes. The random ensemble of a recipe
    with evaluation.uniform is attacked too, and trained first where it is missing.

    \b
    --set pgd.steps=100: a setting of an attack; there are
      fgsm.epsilon
      autoattack.epsilon autoattack.version (ε: 0.01)
      autoattack8.epsilon autoattack8.version (ε: 8/255)
      pgd.epsilon pgd.step_size pgd.steps pgd.random_start
      cw.rule cw.search_steps cw.c_low cw.c_high cw.steps
      cw.learning_rate cw.confidence
    --set epsilons=[0.01, 0.1]: of the curves; [] leaves curves and checks out,
      which take most of the time.
    --set closer=500: images of the curves and the checks.
    --set batch_size=1000: images at once.
    --set pictures=5: images shown of each attack.
    """
    settings = attack_settings(attacks, images, changes or [])
    device = common.chosen_device()
    for run in runs:  # all of them, before the first is attacked
        Run.open(run, device=device, seed=common.seed, root=root).require_members()
    measured = []
    for run in runs:
        with common.writing(run) as progress, common.at_work() as workers:
            work = Run.open(run, device=device, progress=progress, seed=common.seed, root=root, workers=workers)
            measured.append((str(run), measure_robustness(work, settings)))
        common.print(f"report: {write_report(run)}")
    common.print(attacks_as_text(measured))


def report(
    *,
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders, or one folder of a comparison.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help="Of several runs; nesbs-report.html.")
    ] = None,
    common: Common,
) -> None:
    """Write report.html into a run folder, from its records.

    \b
    nesbs report RUN RUN RUN: also one page with the runs side by side (--out).
    nesbs report FOLDER: of a comparison (nesbs compare), its page.
    """
    common.print(*write_reports(runs, out))
