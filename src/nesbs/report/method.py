"""What of a run is the paper's method and what nesbs adds to it, read from its recipe."""

from __future__ import annotations

from nesbs.records import Recipe

DRAWN = {
    "svgd-rd": "SVGD-RD draws ensembles from it (Algorithm 3)",
    "monte-carlo": "ensembles are drawn from it by Monte Carlo sampling (Algorithm 2)",
    "uniform": "ensembles are drawn uniformly, without it: a baseline, not the paper's sampler",
}


def method(recipe: Recipe) -> tuple[str, list[tuple[str, str]]]:
    """The paper's method as this recipe runs it, and what nesbs adds: (setting, what it does), one an addition.

    >>> method(Recipe.of({"posterior": {"estimator": "straight-through"}}))[1]
    []
    >>> [key for key, _ in method(Recipe.of({"search": {"method": "forward"}}))[1]]
    ['posterior.estimator=leave-one-out', 'search.method=forward']
    """
    if recipe.ensemble.architectures is not None:
        return "The recipe fixes the architectures: nothing was searched.", []
    posterior = recipe.posterior
    paper = (
        "A supernet shares its weights among all architectures, a posterior over them is fitted to its estimates, "
        f"{DRAWN[recipe.sampler.name]}, and the ensemble with the lowest estimated loss is trained (Algorithm 1)."
    )
    additions = [
        (
            posterior.estimator == "leave-one-out",
            "posterior.estimator=leave-one-out",
            "an unbiased score-function gradient fits the posterior; the paper's is Gumbel-Softmax (straight-through)",
        ),
        (
            posterior.reference > 0,
            f"posterior.reference={posterior.reference}",
            f"rank shares: the evidence for an architecture is the share of {posterior.reference} random ones whose "
            "log-likelihood is lower; the paper's is the log-likelihood itself",
        ),
        (
            posterior.reference > 0 and posterior.untrained > 0,
            f"posterior.untrained={posterior.untrained:g}",
            "untrained networks of the members' size add a rank share of their own to the evidence",
        ),
        (
            posterior.starts > 1,
            f"posterior.starts={posterior.starts}",
            f"the posterior is fitted {posterior.starts} times from different draws, and the best fit is kept",
        ),
        (
            recipe.search.method == "forward",
            "search.method=forward",
            "a greedy forward selection over all candidates is tried too, and the better of the two is kept",
        ),
    ]
    return paper, [(key, text) for used, key, text in additions if used]
