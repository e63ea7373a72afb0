"""What a run still lacks: files that are missing and stages that were interrupted, with the commands that make them."""

from nesbs.records import Recipe, RunRecords

SEARCH = "nesbs search RECIPE --out RUN"
TRAIN = "nesbs train RUN"
EVALUATE = "nesbs evaluate RUN"
STAGES = {
    "supernet": SEARCH,
    "posterior": SEARCH,
    "selection": SEARCH,
    "members": TRAIN,
    "uniform": EVALUATE,
    "evaluation": EVALUATE,
}


def missing(run: RunRecords) -> list[tuple[str, str]]:
    """What is not there, in the order it is made: (what, command that makes it)."""
    done, size = trained(run, "members"), members_wanted(run)
    training = f"the training of {size - done} of {size} members" if done else "the members' training"
    metrics = run.metrics
    measured = metrics.ensemble if metrics else None
    scaled = measured.temperature if measured else None
    uniform_wanted = (run.recipe or Recipe()).evaluation.uniform
    parts = [
        ("the resolved recipe (recipe.yaml)", SEARCH, run.recipe),
        ("the record of versions, times and memory (record.json)", SEARCH, run.record),
        ("the supernet's training", SEARCH, run.fixed or trained(run, "supernet")),
        ("the posterior (posterior.json)", SEARCH, run.fixed or run.posterior),
        ("the choice of architectures (selection.json)", SEARCH, run.selection),
        (training, TRAIN, done and done >= size),
        ("the measures on the test images (metrics.json)", EVALUATE, metrics),
        ("the uniform-random ensemble", EVALUATE, not uniform_wanted or not metrics or metrics.uniform),
        ("intervals over the test images (metrics.json)", EVALUATE, not measured or measured.intervals),
        ("the reliability diagram (metrics.json)", EVALUATE, not scaled or scaled.reliability),
        ("predictions to look at (predictions.json)", EVALUATE, not metrics or run.predictions),
    ]
    return [(what, command) for what, command, there in parts if not there]


def trained(run: RunRecords, stage: str) -> int:
    """How many members a stage has trained to the end; of the supernet, how many epochs."""
    return len((run.record.stage(stage).losses if run.record else None) or ())


def members_wanted(run: RunRecords) -> int:
    """How many members there should be."""
    return len(run.chosen) or (run.recipe.ensemble.size if run.recipe else 1)


def interrupted(run: RunRecords) -> str | None:
    """The stage that began last, where it was interrupted; None where every stage was finished.

    >>> from nesbs.records import RunRecord
    >>> record = RunRecord.from_json({"stages": {"supernet": {"seconds": 3.0}, "members": {"losses": [[0.1]]}}})
    >>> interrupted(RunRecords(Recipe(), record)), interrupted(RunRecords())
    ('members', None)
    """
    begun = run.record.stages if run.record and run.record.stages else {}
    wanted = members_wanted(run)
    finished = {
        "supernet": trained(run, "supernet"),
        "posterior": run.posterior,
        "selection": run.selection,
        "members": trained(run, "members") >= wanted,
        "uniform": trained(run, "uniform") >= wanted,
        "evaluation": run.metrics,
    }
    last = next((name for name in reversed(finished) if name in begun), None)
    return last if last and not finished[last] else None
