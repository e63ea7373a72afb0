"""One function a command; its docstring is its help."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from nesbs import files
from nesbs.cli.listing import dataset_text, datasets_text, entry_text, recipes_text, settings_text, zoo_text
from nesbs.cli.options import (
    Changes,
    CorruptionNames,
    Debug,
    Device,
    Human,
    Out,
    Quiet,
    RecipeName,
    RunFolder,
    Seed,
    Unseen,
    UnseenRoot,
    chosen_device,
    decimals,
    ended,
    numbers,
)
from nesbs.cli.options import budget as budget_named
from nesbs.cli.progress import shown
from nesbs.cli.reproduce import reproduce
from nesbs.compare.curves import curves
from nesbs.compare.methods import named_methods
from nesbs.compare.over_seeds import budgeted, timed
from nesbs.compare.over_seeds import compare as compare_methods
from nesbs.errors import NesbsError
from nesbs.report import (
    attacks_as_text,
    cells_as_text,
    draw_cells,
    quality_as_text,
    scores_as_text,
    write_comparison,
    write_comparison_page,
    write_curves,
    write_report,
    write_reports,
)
from nesbs.runs.attack import attack_settings, measure_robustness
from nesbs.runs.members import sizes_in_words
from nesbs.runs.quality import measure_quality
from nesbs.runs.recipe import load_recipe
from nesbs.runs.run import Run
from nesbs.runs.stage import Progress
from nesbs.runs.without_search import given_training, refuse_without_effect
from nesbs.spaces import get_space, zoo
from nesbs.version import __version__

app = typer.Typer(
    name="nesbs",
    rich_markup_mode=None,  # plain help that can be copied
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def demo(
    out: Out = Path("nesbs-demo"),
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Everything, in minutes on a CPU; ends with a report.

    The data are inside the package. The same command goes on where it stopped.
    """
    _whole("demo", out, [], seed, device, quiet)


@app.command()
def run(
    recipe: RecipeName,
    out: Out,
    changes: Changes = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Search, train, evaluate, report.

    The same command on the same folder goes on where it stopped.
    """
    _whole(recipe, out, changes or [], seed, device, quiet)


@app.command()
def search(
    recipe: RecipeName,
    out: Out,
    changes: Changes = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """The search alone: supernet, posterior, selection."""
    with shown(quiet) as progress:
        work = _create(recipe, out, changes or [], seed, device, progress)
        selection = work.selection()
        if selection.loss is not None:  # what the choice came from is made again where it was lost
            work.supernet()
            work.posterior()
    if not quiet:
        loss = selection.loss
        known = "given, not searched" if loss is None else f"estimated validation loss {loss:.4f}"
        print(f"{known}; {_duplicates(selection.duplicates)}")
        for architecture in selection.architectures:
            print(architecture)


@app.command()
def train(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run folder with a finished search.")] = None,
    zoo_name: Annotated[
        str | None, typer.Option("--zoo", metavar="NAME", help="Train this published cell (nesbs zoo).")
    ] = None,
    texts: Annotated[
        list[str] | None, typer.Option("--architecture", metavar="TEXT", help="Train this one; may be repeated.")
    ] = None,
    size: Annotated[int | None, typer.Option("--size", metavar="N", min=1, help="Members of one architecture.")] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="NAME|PATH", help="Train on this data set, with its network.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option("--recipe", metavar="RECIPE", help="Network and schedule of this recipe.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="RUN", help="The new run folder.")] = None,
    changes: Changes = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train members from scratch.

    \b
    nesbs train RUN: the members that a search chose.
    nesbs train RUN --data imagenet: the same cells on another data set.
    nesbs train --zoo darts-v2 --size 3: a deep ensemble of a published cell.
    nesbs train --architecture '|nor_conv_3x3~0|+…': any architecture, alone or several.

    The last three make a run folder of their own (--out), which evaluate and report take. Network and schedule are
    those of the recipe DATA-SPACE where there is one, such as imagenet-darts; --recipe names another, --set changes
    a setting.
    """
    with shown(quiet) as progress:
        if zoo_name is None and not texts and data is None:
            if run is None:
                raise NesbsError("nothing to train: name a RUN, or give --zoo NAME or --architecture TEXT")
            refuse_without_effect(size=size, recipe=recipe, out=out, changes=changes)
            work = Run.open(run, device=chosen_device(device), progress=progress, seed=seed)
            work.require("selection.json", f"nesbs search RECIPE --out {run}")
        else:
            chosen, folder = given_training(
                run, zoo_name=zoo_name, texts=texts, size=size, data=data, recipe=recipe, changes=changes, seed=seed
            )
            work = Run.create(out or folder, chosen, device=chosen_device(device), progress=progress)
        work.ensemble()
        if work.recipe.evaluation.uniform:
            work.uniform()
    if not quiet:
        _print_sizes(work)
        print(f"measure them: nesbs evaluate {work.folder}")


@app.command()
def evaluate(
    run: RunFolder,
    human: Human = None,
    unseen: Unseen = None,
    unseen_root: UnseenRoot = None,
    corruptions: CorruptionNames = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure the trained ensemble on the test images.

    What an option asks for is added to what was measured before, or takes the place of an earlier answer.
    """
    if unseen_root is not None and unseen is None:
        raise NesbsError("--unseen-root says where the data set of --unseen is: give both")
    given = {"human": human, "unseen": unseen, "unseen_root": unseen_root, "corruptions": corruptions}
    with shown(quiet) as progress:
        work = Run.open(run, device=chosen_device(device), progress=progress, seed=seed)
        _require_members(work)
        scores = work.scores(**{name: value for name, value in given.items() if value is not None})
    path = write_report(run)
    if not quiet:
        print(scores_as_text(scores))
        print(f"report: {path}")


@app.command()
def quality(
    run: RunFolder,
    architectures: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=4, help="So many are trained for the truth, those of before among them; 10 by default."
        ),
    ] = None,
    candidates: Annotated[
        int | None, typer.Option(metavar="N", min=4, help="Drawn, to take diverse ones from; 50 by default.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(metavar="E", min=1, help="Of their training.")] = None,
    sizes: Annotated[str | None, typer.Option(metavar="N,N", help="Sizes of ensembles; 1,3,5,7 by default.")] = None,
    table: Annotated[str | None, typer.Option(metavar="FILE.csv", help="Read the truth instead: a benchmark.")] = None,
    column: Annotated[str | None, typer.Option(metavar="NAME", help="Its column of accuracies in per cent.")] = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """How good the supernet's estimates are: look before trusting a search.

    Correlation and agreement between estimated and true performance, of single architectures and of ensembles, with
    intervals and a verdict. Truth is trained (a quarter of the recipe's epochs, unless --epochs says) or read from a
    table with the columns architecture and NAME.
    """
    with shown(quiet) as progress:
        work = Run.open(run, device=chosen_device(device), progress=progress, seed=seed)
        if work.recipe.ensemble.architectures is None:
            work.require("supernet.safetensors", f"nesbs search RECIPE --out {run}")
        found = measure_quality(
            work,
            architectures=architectures,
            candidates=candidates,
            epochs=epochs,
            sizes=None if sizes is None else numbers(sizes, "--sizes"),
            table=table,
            column=column,
        )
    path = write_report(run)
    if not quiet:
        print(quality_as_text(found))
        print(f"report: {path}")


@app.command()
def attack(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders with trained members.")],
    attacks: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME", help="Of fgsm, pgd, cw, autoattack; all by default."),
    ] = None,
    images: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="So many test images, for a quick look; all by default.")
    ] = None,
    changes: Changes = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Attack one member, defend with the ensemble; then attack the ensemble.

    Each member is attacked in turn. The table has the accuracy of the attacked member (Attack), of the ensemble on the
    same images (Defence), and of the ensemble where the attack is on its own answer (adaptive); the report adds
    curves over the size of the attack, checks that the attacks work, transfer between members, and pictures.
    Several runs, such as a rival's, come into one table. The same command goes on where it stopped.

    \b
    --set pgd.steps=100: a setting of an attack; there are
      fgsm.epsilon autoattack.epsilon autoattack.version
      pgd.epsilon pgd.step_size pgd.steps pgd.random_start
      cw.rule cw.search_steps cw.c_low cw.c_high cw.steps
      cw.learning_rate cw.confidence
    --set epsilons=[0.01, 0.1]: of the curves; [] leaves curves and checks out.
    --set closer=500: images of the curves and the checks.
    --set batch_size=1000: images at once.
    --set pictures=5: images shown of each attack.
    """
    settings = attack_settings(attacks, images, changes or [])
    found = []
    for run in runs:  # all of them, before the first is attacked
        _require_members(Run.open(run, device=chosen_device(device), seed=seed))
    for run in runs:
        with shown(quiet) as progress:
            work = Run.open(run, device=chosen_device(device), progress=progress, seed=seed)
            found.append((str(run), measure_robustness(work, settings)))
        path = write_report(run)
        if not quiet:
            print(f"report: {path}")
    if not quiet:
        print(attacks_as_text(found))


@app.command()
def compare(
    recipe: RecipeName,
    methods: Annotated[str, typer.Option(metavar="all|NAME,NAME", help="Which; their names are above.")],
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="So many, from the recipe's on; 3 or more.")] = 3,
    budget: Annotated[
        str | None, typer.Option(metavar="N|Ns", help="Architectures that each method may judge, or seconds: 90s.")
    ] = None,
    budgets: Annotated[
        str | None, typer.Option(metavar="N,N", help="Curves over these instead, without training (Fig. 5).")
    ] = None,
    sizes: Annotated[str | None, typer.Option(metavar="N,N", help="Of the curves' ensembles.")] = None,
    temperatures: Annotated[str | None, typer.Option(metavar="T,T", help="τ of the curves (Fig. 6).")] = None,
    deltas: Annotated[str | None, typer.Option(metavar="D,D", help="Also each δ on its own (Fig. 7).")] = None,
    one_supernet: Annotated[
        bool, typer.Option("--one-supernet", help="Curves of all seeds from the first one's supernet.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="Where; nesbs-compare-RECIPE.")] = None,
    changes: Changes = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """NESBS and its rivals under the same data, splits, networks and training.

    \b
    nesbs        Bayesian sampling with the recipe's sampler (always there)
    nesbs-mc     the same with Monte Carlo sampling
    urs          uniform random ensembles, the best of them
    nes-rs       neural ensemble search, random
    nes-re       neural ensemble search, evolution
    deep         a deep ensemble of one architecture
    mc-droppath  one network that drops paths when it predicts
    snapshot     one training in cycles, a member at the end of each
    single-best  the best single network
    rsps         random search with parameter sharing; this and what follows find one network
    darts        differentiable search, first order
    darts-2nd    the same, second order
    gdas         one path a step, drawn by Gumbel-Softmax
    setn         weights trained uniformly, an evaluator of paths
    enas         a recurrent controller that learns by reward
    snas         the best-response posterior

    Ends with one table (comparison.md, comparison.json) and one figure (comparison.svg). A winner is named where the
    paired 95 % interval over seeds excludes zero. The same command goes on where it stopped; more methods or seeds in
    the same folder find what is there. Settings of the rivals are rivals.* (nesbs recipes --keys).

    --budget 50: every method that judges architectures may judge 50 of them.

    --budget 90s: the search of every method may take 90 seconds, measured on the device at hand. What counts: supernet
    and posterior where a method uses them, training or estimating what it judges, and a one-shot method's own training,
    shortened to the epochs that fit; not the training of what was chosen. A search that takes longer is marked.
    """
    loaded = load_recipe(recipe, changes or [], seed=seed)
    folder = out or Path(f"nesbs-compare-{Path(recipe).stem}")
    if budgets is not None:
        if budget is not None:
            raise NesbsError("--budget gives all methods one budget, --budgets draws curves over several: take one")
        with shown(quiet) as progress:
            drawn = curves(
                loaded,
                folder,
                named_methods(methods, measure="supernet"),
                budgets=numbers(budgets, "--budgets"),
                sizes=None if sizes is None else numbers(sizes, "--sizes"),
                temperatures=None if temperatures is None else decimals(temperatures, "--temperatures"),
                deltas=() if deltas is None else decimals(deltas, "--deltas"),
                seeds=seeds,
                one_supernet=one_supernet,
                device=chosen_device(device),
                progress=progress,
            )
        table, figure = write_curves(folder, drawn)
        _compared(folder, table, figure, quiet)
        return
    curves_alone = {
        "sizes": sizes,
        "temperatures": temperatures,
        "deltas": deltas,
        "one-supernet": one_supernet or None,
    }
    for name, given in curves_alone.items():
        if given is not None:
            raise NesbsError(f"--{name} goes with --budgets")
    if budget is not None:
        architectures, seconds = budget_named(budget)
        loaded = timed(loaded, seconds) if seconds is not None else budgeted(loaded, architectures or 0)
    named = named_methods(methods, measure=loaded.rivals.measure)
    with shown(quiet) as progress:
        found = compare_methods(
            loaded,
            folder,
            named,
            seeds=seeds,
            device=chosen_device(device),
            progress=progress,
        )
    table, figure = write_comparison(folder, found)
    _compared(folder, table, figure, quiet)


app.command()(reproduce)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders, or one folder of a comparison.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help="Of several runs; nesbs-report.html.")
    ] = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write report.html into a run folder, from its records.

    \b
    nesbs report RUN RUN RUN: also one page with the runs side by side (--out).
    nesbs report FOLDER: of a comparison (nesbs compare), its page.
    """
    for path in write_reports(runs, out):
        if not quiet:
            print(path)


@app.command()
def recipes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show this one whole.")] = None,
    keys: Annotated[bool, typer.Option("--keys", help="Every setting with its default, as --set takes it.")] = False,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """The recipes inside the package; with a name, its text."""
    if keys and name is not None:
        raise NesbsError("--keys lists the settings of all recipes: leave the name out")
    print(settings_text() if keys else recipes_text(name))


@app.command()
def datasets(
    path: Annotated[str | None, typer.Argument(metavar="NAME|PATH", help="Load this one and count it.")] = None,
    root: Annotated[str | None, typer.Option("--root", metavar="FOLDER", help="The recipe's data.root.")] = None,
    changes: Changes = None,
    fetch: Annotated[bool, typer.Option("--download", help="Fetch CIFAR into --root first.")] = False,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """The named data sets; with a name or a path, its content."""
    if path is None and (root or changes or fetch):
        raise NesbsError("--root, --set and --download need the NAME or PATH of a data set")
    print(datasets_text() if path is None else dataset_text(path, root, changes or [], fetch=fetch))


@app.command(name="zoo")
def zoo_(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Draw this one's cells.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.svg", help="Also draw them as a picture.")] = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Published cells, each with its size and source; with a name, its cells."""
    if name is None:
        if out is not None:
            raise NesbsError("--out draws one cell: name it")
        print(zoo_text())
        return
    space, architecture = get_space(zoo.entry(name).space), zoo[name]
    print(f"{name}\n{entry_text(name)}\n")
    print(cells_as_text(space, architecture))
    print(architecture)
    if out is not None:
        files.write_text(out, draw_cells(space, architecture, name))


def main(arguments: list[str] | None = None) -> None:
    """Run the command; bad input ends with code 2 and its message, Ctrl-C with 130."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(__version__)
        return
    ended(lambda: app(arguments or ["--help"], standalone_mode=False, prog_name="nesbs"), debug="--debug" in arguments)


def _whole(recipe: str, out: Path, changes: list[str], seed: int | None, device: str, quiet: bool) -> None:
    with shown(quiet) as progress:
        work = _create(recipe, out, changes, seed, device, progress)
        duplicates = work.selection().duplicates
        scores = work.scores()
    path = write_report(out)
    if not quiet:
        print(scores_as_text(scores))
        _print_sizes(work)
        print(_duplicates(duplicates))
        if work.data.broken:
            print(f"left out because they cannot be read (record.json lists them): {len(work.data.broken)}")
        print(f"report: {path}")


def _create(recipe: str, out: Path, changes: list[str], seed: int | None, device: str, progress: Progress) -> Run:
    return Run.create(out, load_recipe(recipe, changes, seed=seed), device=chosen_device(device), progress=progress)


def _require_members(work: Run) -> None:
    work.require("selection.json", f"nesbs search RECIPE --out {work.folder}")
    for index in range(work.recipe.ensemble.size):
        work.require(f"members/{index}.safetensors", f"nesbs train {work.folder}")


def _print_sizes(work: Run) -> None:
    if said := sizes_in_words(work.record):
        print(said)


def _compared(folder: Path, table: str, figure: Path, quiet: bool) -> None:
    page = write_comparison_page(folder)
    if not quiet:
        print(table)
        print(f"figure: {figure}")
        print(f"report: {page}")


def _duplicates(count: int) -> str:
    return "no member is chosen twice" if count == 0 else f"{count} members are copies of another member"
