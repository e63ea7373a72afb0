"""The commands that hold methods against each other: compare and curves."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from nesbs import files
from nesbs.cli.options import Changes, RecipeName, Spread, Training, numbers
from nesbs.cli.options import budget as parsed_budget
from nesbs.compare.budgets import budgeted, timed
from nesbs.compare.curves import CurveGrid, by_table
from nesbs.compare.curves import curves as measure_curves
from nesbs.compare.method import Method
from nesbs.compare.methods import METHODS, named_methods
from nesbs.compare.over_seeds import compare as compare_methods
from nesbs.errors import NesbsError
from nesbs.records.curves import CurvesRecord
from nesbs.records.recipe import Recipe
from nesbs.report import write_comparison, write_comparison_page, write_curves
from nesbs.runs.accuracy_table import accuracy_table
from nesbs.settings import MAX_SEEDS
from nesbs.spaces import get_space

Methods = Annotated[str, typer.Option(metavar="all|NAME,NAME", help="Which; their names are above.")]
Seeds = Annotated[
    int, typer.Option(metavar="N", min=1, max=MAX_SEEDS, help="So many, from the recipe's on; 3 or more.")
]
Folder = Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="Where; nesbs-COMMAND-RECIPE by default.")]


def compare(
    *,
    recipe: RecipeName,
    methods: Methods,
    seeds: Seeds = 3,
    budget: Annotated[
        str | None, typer.Option(metavar="N|Ns", help="Architectures that each method may judge, or seconds: 90s.")
    ] = None,
    budgets: Annotated[str | None, typer.Option(metavar="N,N", help="As nesbs curves, with its options.")] = None,
    sizes: Annotated[str | None, typer.Option(hidden=True)] = None,
    temperatures: Annotated[str | None, typer.Option(hidden=True)] = None,
    deltas: Annotated[str | None, typer.Option(hidden=True)] = None,
    one_supernet: Annotated[bool, typer.Option("--one-supernet", hidden=True)] = False,
    out: Folder = None,
    changes: Changes = None,
    common: Training,
) -> None:
    """NESBS and its rivals, over seeds: one table.

    All methods have the same data, splits, networks and training.

    \b
    {methods}

    What is the paper's method and what is ours: docs/how-it-works.md.

    Ends with one table (comparison.md, comparison.json) and one figure (comparison.svg). A winner is named where the
    paired 95 % interval over seeds excludes zero. The same command resumes; more methods or seeds in the same folder
    reuse what is there. Settings of the rivals are rivals.* (nesbs recipes --keys).

    --budget 50: every method that judges architectures may judge 50 of them.

    --budget 90s: the search of every method may take 90 seconds, measured on the device at hand. What counts: supernet
    and posterior where a method uses them, training or estimating what it judges, and a one-shot method's own training,
    shortened to the epochs that fit; not the training of what was chosen. A search that takes longer is marked.
    """
    folder = out or Path(f"nesbs-compare-{Path(recipe).stem}")
    of_curves = {"sizes": sizes, "temperatures": temperatures, "deltas": deltas, "one_supernet": one_supernet}
    if budgets is not None:
        if budget is not None:
            raise NesbsError("--budget gives all methods one budget, --budgets draws curves over several: take one")
        if not common.quiet:
            print("nesbs curves does this; nesbs compare --budgets still works", file=sys.stderr)
        curves(
            recipe=recipe,
            methods=methods,
            budgets=budgets,
            sizes=sizes,
            temperatures=temperatures,
            deltas=deltas,
            one_supernet=one_supernet,
            seeds=seeds,
            out=folder,
            changes=changes,
            common=common,
        )
        return
    for name, value in of_curves.items():
        if value:
            raise NesbsError(f"--{name.replace('_', '-')} goes with --budgets: see nesbs curves --help")
    loaded = common.recipe(recipe, changes)
    if budget is not None:
        architectures, seconds = parsed_budget(budget)
        loaded = timed(loaded, seconds) if seconds is not None else budgeted(loaded, architectures or 0)
    chosen = named_methods(methods, measure=loaded.rivals.measure)
    device = common.chosen_device()
    with common.writing(folder, new=True) as progress, common.at_work() as workers:
        compared = compare_methods(
            loaded, folder, chosen, seeds=seeds, device=device, progress=progress, workers=workers
        )
    table, figure = write_comparison(folder, compared)
    common.print(table, f"figure: {figure}", f"report: {write_comparison_page(folder)}")


def curves(
    *,
    recipe: RecipeName,
    methods: Methods,
    budgets: Annotated[str, typer.Option(metavar="N,N", help="Architectures that each method may judge.")],
    sizes: Annotated[
        str | None, typer.Option(metavar="N,N", help="Sizes of ensembles; the recipe's by default.")
    ] = None,
    temperatures: Annotated[
        str | None, typer.Option(metavar="T,T", help="Temperatures τ of the posterior (paper, Fig. 6).")
    ] = None,
    deltas: Annotated[
        str | None, typer.Option(metavar="D,D", help="Also each δ on its own, at the largest budget (paper, Fig. 7).")
    ] = None,
    one_supernet: Annotated[
        bool, typer.Option("--one-supernet", help="All seeds share the supernet of the first.")
    ] = False,
    table: Annotated[
        str | None, typer.Option(metavar="FILE.csv", help="Also the members' true accuracy: a benchmark.")
    ] = None,
    column: Annotated[str | None, typer.Option(metavar="NAME", help="The table's column of accuracies in %.")] = None,
    seeds: Seeds = 3,
    out: Folder = None,
    changes: Changes = None,
    common: Spread,
) -> None:
    """Test error against architectures judged.

    Nothing but a supernet is trained: its weights judge and measure every ensemble (paper, Fig. 5). With --table, a
    CSV file with the columns architecture and NAME, the ensembles are also measured by their members' true accuracy.

    \b
    {methods}

    Ends with one table (curves.md, curves.json) and one figure (curves.svg). The same command resumes; more methods,
    seeds or budgets in the same folder reuse what is there.
    """
    folder = out or Path(f"nesbs-curves-{Path(recipe).stem}")
    loaded = common.recipe(recipe, changes)
    grid = CurveGrid(
        named_methods(methods, measure="supernet"),
        budgets=numbers(budgets, "--budgets", int),
        sizes=None if sizes is None else numbers(sizes, "--sizes", int),
        temperatures=None if temperatures is None else numbers(temperatures, "--temperatures", float),
        deltas=() if deltas is None else numbers(deltas, "--deltas", float),
    )
    accuracies = _accuracies(table, column, loaded)
    with common.writing(folder, new=True) as progress, common.at_work() as workers:
        measured = measure_curves(
            loaded,
            folder,
            grid,
            seeds=seeds,
            one_supernet=one_supernet,
            device=common.chosen_device(),
            progress=progress,
            workers=workers,
        )
        if accuracies:
            measured = by_table(measured, accuracies, f"{Path(str(table)).name}, {column}")
            measured.write(folder / CurvesRecord.FILE)
    text, figure = write_curves(folder, measured)
    page = write_comparison_page(folder, figure.read_text(encoding="utf-8"))
    common.print(text, f"figure: {figure}", f"report: {page}")


def _accuracies(table: str | None, column: str | None, recipe: Recipe) -> dict[str, float]:
    """What a table says of architectures, by their text; nothing without a table."""
    if table is None:
        if column is not None:
            raise NesbsError("--column goes with --table FILE.csv")
        return {}
    found = accuracy_table(files.expanded(table), column, get_space(recipe.space.name))
    return {str(architecture): accuracy for architecture, accuracy in found.items()}


def _with_methods(command: Callable[..., None], methods: Iterable[Method]) -> None:
    """Put the list of methods into a command's help."""
    lines = (f"{method.name:<12} {method.description}" for method in methods)
    command.__doc__ = (command.__doc__ or "").replace("{methods}", "\n    ".join(lines))


_with_methods(compare, METHODS.values())
_with_methods(curves, (method for method in METHODS.values() if not method.own_training))
