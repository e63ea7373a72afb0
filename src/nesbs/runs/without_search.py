"""Training without a search of its own: of architectures the user names, or of those another run chose."""

import os
from collections.abc import Sequence
from pathlib import Path

from nesbs.errors import NesbsError
from nesbs.records import Recipe, SelectionRecord
from nesbs.records.whole_folder import check_begun
from nesbs.runs import folder as folders
from nesbs.runs.recipe import training_recipe
from nesbs.spaces import get_space, named_architecture, zoo


def refuse_without_effect(**options: object) -> None:
    """Raise where options were given that have no effect on the members a search chose."""
    for name, value in options.items():
        if value:
            option = "--set" if name == "changes" else f"--{name}"
            raise NesbsError(
                f"{option} has no effect on the members of a run, whose recipe is fixed: give it to `nesbs search`, or "
                "train other members with --zoo, --architecture or --data"
            )


def training_without_search(
    run: Path | None,
    *,
    zoo_name: str | None = None,
    texts: Sequence[str] | None = None,
    size: int | None = None,
    data: str | None = None,
    recipe: str | None = None,
    changes: Sequence[str] | None = None,
    seed: int | None = None,
) -> tuple[Recipe, Path]:
    """The recipe that trains what was asked for, and the folder it goes to unless the user names one.

    Architectures come from `run` (a transfer to `data`), from the zoo, or as texts: exactly one of the three.

    >>> recipe, folder = training_without_search(None, zoo_name="darts-v2", size=3)
    >>> recipe.ensemble.architectures, recipe.members.epochs, str(folder)
    (('darts-v2',), 600, 'nesbs-darts-v2')
    """
    if sum((run is not None, zoo_name is not None, bool(texts))) != 1:
        raise NesbsError("name one of RUN, --zoo and --architecture: they say what is trained")

    def recipe_for(texts: Sequence[str], space: str, like: Recipe | None = None) -> Recipe:
        for text in texts:
            named_architecture(get_space(space), text)  # what cannot be built is refused before anything is loaded
        return training_recipe(
            texts, space=space, data=data, size=size, like=like, name=recipe, changes=changes or (), seed=seed
        )

    if run is not None:
        assert data is not None
        if size is not None:
            raise NesbsError("--size goes with --zoo and --architecture; a run has as many members as it chose")
        check_begun(run)
        like = folders.read_recipe(run)
        path = run / "selection.json"
        if not path.is_file():
            raise NesbsError(f"{run} has no selection.json yet: run `nesbs search RECIPE --out {run}` first")
        chosen = SelectionRecord.read(path).architectures or ()
        return recipe_for(chosen, like.space.name, like), run.resolve().with_name(
            f"{run.resolve().name}-{Path(os.path.realpath(data)).name}"
        )
    if zoo_name is not None:
        return recipe_for([zoo_name], zoo.entry(zoo_name).space), Path(f"nesbs-{zoo_name}")
    assert texts
    space = "nasbench201" if texts[0].lstrip().startswith("|") else "darts"
    if len(texts) > 1 and size not in (None, len(texts)):
        raise NesbsError(f"--size {size} goes with one --architecture, found {len(texts)}")
    return recipe_for(texts, space), Path("nesbs-members")
