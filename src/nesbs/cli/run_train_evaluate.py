"""The commands that make a run: demo, run, search, train, evaluate."""

from pathlib import Path
from typing import Annotated

import typer

from nesbs.cli.options import Changes, Computing, Out, RecipeName, Root, RunFolder, Training
from nesbs.errors import NesbsError
from nesbs.records import MetricsRecord
from nesbs.report import scores_as_text, write_report
from nesbs.runs.members import sizes_in_words
from nesbs.runs.resumable_run import Run
from nesbs.runs.without_search import refuse_without_effect, training_without_search
from nesbs.settings import MAX_MEMBERS


def demo(*, out: Out = Path("nesbs-demo"), common: Training) -> None:
    """Everything, in minutes on a CPU; ends with a report.

    The data are inside the package. The same command on the same folder resumes.
    """
    run(recipe="demo", out=out, common=common)


def run(*, recipe: RecipeName, out: Out, changes: Changes = None, common: Training) -> None:
    """Search, train, evaluate, report.

    The same command on the same folder resumes. What is the paper's method and what is ours: docs/how-it-works.md.
    """
    chosen, device = common.recipe(recipe, changes), common.chosen_device()
    with common.writing(out, new=True) as progress, common.at_work() as workers:
        work = Run.create(out, chosen, device=device, progress=progress, workers=workers)
        work.plan()
        with work.uniform_beside():
            duplicates = work.selection().duplicates
            work.plan()  # without what was trained beside the search
            scores = work.scores()
    path = write_report(out)
    common.print(_as_text(work, scores), *_sizes(work), _duplicates(duplicates))
    if work.data.broken:
        common.print(f"left out because they cannot be read (record.json lists them): {len(work.data.broken)}")
    common.print(f"report: {path}")


def search(*, recipe: RecipeName, out: Out, changes: Changes = None, common: Training) -> None:
    """The search alone: supernet, posterior, selection."""
    chosen, device = common.recipe(recipe, changes), common.chosen_device()
    with common.writing(out, new=True) as progress, common.at_work() as workers:
        work = Run.create(out, chosen, device=device, progress=progress, workers=workers)
        work.plan("supernet", "posterior", "selection")
        selection = work.selection()
        if selection.loss is not None:  # what the choice came from is made again where it was lost
            work.supernet()
            work.posterior()
    loss = selection.loss
    source = "given, not searched" if loss is None else f"estimated validation loss {loss:.4f}"
    common.print(f"{source}; {_duplicates(selection.duplicates)}", *selection.architectures)


def train(
    *,
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run folder with a finished search.")] = None,
    zoo_name: Annotated[
        str | None, typer.Option("--zoo", metavar="NAME", help="Train this published cell (nesbs zoo).")
    ] = None,
    texts: Annotated[
        list[str] | None, typer.Option("--architecture", metavar="TEXT", help="Train this one; may be repeated.")
    ] = None,
    size: Annotated[
        int | None, typer.Option("--size", metavar="N", min=1, max=MAX_MEMBERS, help="Members of one architecture.")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="NAME|PATH", help="Train on this data set, with its network.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option("--recipe", metavar="RECIPE", help="Network and schedule of this recipe.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="RUN", help="The new run folder.")] = None,
    changes: Changes = None,
    common: Training,
) -> None:
    """Train members from scratch.

    \b
    nesbs train RUN: the members that a search chose.
    nesbs train RUN --data imagenet: the same cells on another data set.
    nesbs train --zoo darts-v2 --size 3: a deep ensemble of a published cell.
    nesbs train --architecture '|nor_conv_3x3~0|+…': any architecture, alone or several.

    The last three make a run folder of their own (--out), which evaluate and report take. Network and schedule are
    those of the recipe DATA-SPACE where there is one, such as imagenet-darts, else of RUN, without one of
    cifar10-SPACE; --recipe names another, --set changes a setting.
    """
    device = common.chosen_device()
    if zoo_name is None and not texts and data is None:
        if run is None:
            raise NesbsError("nothing to train: name a RUN, or give --zoo NAME or --architecture TEXT")
        refuse_without_effect(size=size, recipe=recipe, out=out, changes=changes)
        folder, chosen = run, None
    else:
        chosen, folder = training_without_search(
            run,
            zoo_name=zoo_name,
            texts=texts,
            size=size,
            data=data,
            recipe=recipe,
            changes=changes,
            seed=common.seed,
        )
        folder = out or folder
    with common.writing(folder, new=chosen is not None) as progress, common.at_work() as workers:
        if chosen is None:
            work = Run.open(folder, device=device, progress=progress, seed=common.seed, workers=workers)
            work.require("selection.json", f"nesbs search RECIPE --out {folder}")
        else:
            work = Run.create(folder, chosen, device=device, progress=progress, workers=workers)
        work.plan("members", "uniform")
        work.ensemble()
        if work.recipe.evaluation.uniform:
            work.uniform()
    common.print(*_sizes(work), f"measure them: nesbs evaluate {work.folder}")


def evaluate(
    *,
    run: RunFolder,
    human: Annotated[
        str | None, typer.Option(metavar="FILE", help="Compare with people's labels (.npy, .npz; CIFAR-10H).")
    ] = None,
    unseen: Annotated[
        str | None, typer.Option(metavar="NAME|PATH", help="Tell the test images from another data set's.")
    ] = None,
    unseen_root: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="The data.root of the other data set.")
    ] = None,
    corruptions: Annotated[
        str | None,
        typer.Option(metavar="all|NAME,NAME", help="Measure on corrupted test images (names: nesbs recipes --keys)."),
    ] = None,
    root: Root = None,
    common: Computing,
) -> None:
    """Measure the trained ensemble on the test images.

    What an option asks for is added to what was measured before, or takes the place of an earlier answer.
    """
    if unseen_root is not None and unseen is None:
        raise NesbsError("--unseen-root says where the data set of --unseen is: give both")
    options = {"human": human, "unseen": unseen, "unseen_root": unseen_root, "corruptions": corruptions}
    with common.writing(run) as progress:
        work = Run.open(run, device=common.chosen_device(), progress=progress, seed=common.seed, root=root)
        work.require_members()
        scores = work.scores(complete=True, **{name: value for name, value in options.items() if value is not None})
    common.print(_as_text(work, scores), f"report: {write_report(run)}")


def _as_text(work: Run, scores: MetricsRecord) -> str:
    return scores_as_text(scores, balanced=work.recipe.data.class_weights == "balanced")


def _sizes(work: Run) -> list[str]:
    """The members' sizes, a line where they are known."""
    text = sizes_in_words(work.record)
    return [text] if text else []


def _duplicates(count: int) -> str:
    return "no member is chosen twice" if count == 0 else f"{count} members are copies of another member"
