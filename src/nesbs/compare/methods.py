"""All methods, in the order in which they are listed; the comparison and the budget curves take them from here."""

from collections.abc import Sequence

from nesbs.compare.method import Method
from nesbs.compare.one_architecture import Deep, McDropPath, Snapshot
from nesbs.compare.one_shot import ONE_SHOT
from nesbs.compare.pool_search import ENSEMBLE_SEARCHES, SINGLE_BEST
from nesbs.compare.posterior_search import NESBS, NESBS_MC
from nesbs.compare.unjudged import UNJUDGED, Likeliest
from nesbs.errors import NesbsError, did_you_mean

REFERENCE = NESBS.name  # the method the others are held against: the recipe's own sampler
LISTED = (
    *(NESBS, NESBS_MC, *UNJUDGED, Likeliest()),
    *(*ENSEMBLE_SEARCHES, Deep(), McDropPath(), Snapshot(), SINGLE_BEST),
    *ONE_SHOT,
)
METHODS: dict[str, Method] = {method.name: method for method in LISTED}


def named_methods(text: str, *, measure: str = "trained") -> list[str]:
    """The methods in a list with commas, or `all` of them; the reference always, and first.

    >>> named_methods("urs,deep")
    ['nesbs', 'urs', 'deep']
    """
    asked = [name.strip() for name in text.split(",") if name.strip()]
    if asked == ["all"]:
        return [name for name, method in METHODS.items() if measure == "trained" or not method.own_training]
    if not asked:
        raise NesbsError(f"--methods names none: {did_you_mean('', ['all', *METHODS])}")
    return [method.name for method in methods_of(asked, measure=measure)]


def methods_of(names: Sequence[str], *, measure: str = "trained") -> list[Method]:
    """The methods of these names, the reference first; raises where one is unknown or cannot be measured so."""
    if isinstance(names, str):
        raise NesbsError(f"methods must be a list of names such as [{names!r}], found {names!r}")
    for name in names:
        if name not in METHODS:
            raise NesbsError(f"--methods: unknown method {name}: {did_you_mean(name, ['all', *METHODS])}")
        if measure == "supernet" and METHODS[name].own_training:
            raise NesbsError(METHODS[name].no_curve)
    return [METHODS[name] for name in dict.fromkeys([REFERENCE, *names])]
