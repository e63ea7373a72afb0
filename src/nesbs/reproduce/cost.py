"""What one of the paper's tables or figures would cost, before it starts.

Supernets and pools of all seeds are trained side by side, then posteriors and choices follow one another, then what
was chosen is trained side by side; one data set after another. Nothing is taken for granted that experiments share, so
a later name in the same folder costs less.
"""

from collections.abc import Iterator, Sequence

from nesbs.records.cost import CostRecord, StageCost
from nesbs.report.cost import cost_as_text
from nesbs.reproduce.paper_methods import paper_method
from nesbs.reproduce.spec import Experiment, ScaleName
from nesbs.runs.cost import RecipeCosts, make_cost
from nesbs.runs.step_times import StepTimes

ONE_SEED = ("attacks", "quality", "tradeoff")  # kinds that run one, whatever the scale says
TRAINS_CHOSEN = ("methods", "attacks", "posteriors", "tradeoff")  # kinds that train what was chosen
# What the paper itself reports for the search, by the experiment that shows it.
PAPER_SEARCH = {
    "table1": "1.1 to 1.2 GPU hours for NESBS's search, 5.1 for NES-RS's, on an Nvidia 1080 Ti (its Table 1)",
    "table2": "0.2 GPU days for NESBS's search, 0.7 for NES-RS's, on an Nvidia 1080 Ti (its Table 2)",
}
# What kinds do beside training, of which nobody knows how long it takes.
NEVER_MEASURED = {
    "posteriors": "best-response supernets and posteriors",
    "discrepancy": "best-response supernets and posteriors",
    "attacks": "the attacks",
    "curves": "the curves",
    "gaussians": "the particles (seconds on a CPU)",
}
Phase = list[tuple[str, StageCost | None]]  # None where no such step was timed


def experiment_cost(
    experiment: Experiment, scale: ScaleName, times: StepTimes, gpus: Sequence[int], *, changes: tuple[str, ...] = ()
) -> CostRecord:
    """What `nesbs reproduce` takes.

    >>> from nesbs.reproduce.spec import experiment
    >>> cost = experiment_cost(experiment("table6"), "paper", StepTimes.recorded(), [1, 8])
    >>> [(stage.name, stage.count) for stage in cost.stages]
    [('CIFAR-10: supernet', 1), ('CIFAR-10: networks', 10)]
    """
    chosen = experiment.scales[scale]
    stages: list[StageCost] = []
    missing: list[str] = []
    number = 0
    for label, part in chosen.parts.items():
        costs = RecipeCosts(part.resolved(changes), times)
        for phase in _phases(experiment, scale, label, costs):
            for name, stage in phase:
                if stage is None:
                    missing.append(f"{label}: {name}")
                elif stage.count:
                    stages.append(stage.replace(name=f"{label}: {name}", phase=number))
            number += 1
    asked = {name for label in chosen.parts for names in experiment.asked(scale, label).values() for name in names}
    one_shot = sorted(name for name in asked if paper_method(name).own_supernet)
    missing += [f"supernets of {', '.join(one_shot)}"] if one_shot else []
    missing += [NEVER_MEASURED[experiment.kind]] if experiment.kind in NEVER_MEASURED else []
    missing += [] if experiment.kind == "gaussians" else ["measuring"]
    of = f"nesbs reproduce {experiment.name} --scale {scale} ({chosen.about})"
    return make_cost(stages, missing, times, gpus, of=of)


def statement(experiment: Experiment, scale: ScaleName, changes: tuple[str, ...] = ()) -> str:
    """Say the cost on one GPU in words, beside the paper's own figure."""
    text = cost_as_text(experiment_cost(experiment, scale, StepTimes.recorded(), [1], changes=changes))
    own = PAPER_SEARCH.get(experiment.name)
    return text if own is None else f"{text}\nthe paper's own figure: {own}"


def _phases(experiment: Experiment, scale: ScaleName, label: str, costs: RecipeCosts) -> Iterator[Phase]:
    """Yield what follows one another on a part, with what runs side by side together."""
    chosen, kind, recipe = experiment.scales[scale], experiment.kind, costs.recipe
    part, seeds = chosen.parts[label], 1 if kind in ONE_SEED else chosen.seeds
    posteriors = 2 if kind == "posteriors" else 1  # either gives ensembles of its own
    methods = [paper_method(name) for names in experiment.asked(scale, label).values() for name in names]
    if part.searched_on is None:
        first: Phase = [("supernet", costs.supernets(seeds))]
        if kind in TRAINS_CHOSEN and any(method.trains_pool(recipe) for method in methods):
            epochs = min(recipe.rivals.pool_epochs, recipe.members.epochs)
            first.append(("pool", costs.members("", seeds * recipe.rivals.pool, epochs, searching=True)))
        yield first
        if kind != "quality":
            draws = posteriors * sum(method.draws_from_posterior for method in methods) if kind in TRAINS_CHOSEN else 0
            for name, stage, times in (("posterior", costs.posterior(), 1), ("selection", costs.selection(), draws)):
                yield [(name, stage and stage.replace(count=seeds * times))]
            yield [("untrained networks", None)] if recipe.posterior.untrained else []
            yield [("drawing ensembles", None)] if draws else []
    if kind == "quality":
        yield [("networks", costs.members("", int(chosen.quality["architectures"]), int(chosen.quality["epochs"])))]
    if kind in TRAINS_CHOSEN and not part.search_only:
        counts = {method.name: 1 if method.one_network else max(recipe.ensemble.size, 3) for method in methods}
        if kind != "tradeoff":  # which trains one method's after another's
            counts = {"networks": sum(counts[method.name] for method in methods)}
        times = seeds * posteriors * chosen.repeats
        for name, count in counts.items():
            yield [(name, costs.members("", times * count, recipe.members.epochs))]
