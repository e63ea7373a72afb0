"""What a recipe would cost, before anything is started: its stages by measured step times, placed on so many GPUs.

A training can move to another GPU after an epoch that ends a task (`by_workers`), so it is a chain of tasks here.
Everything else is one task. Phases follow one another; the tasks of stages in one phase run side by side.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from nesbs.cluster.task_schedule import PlannedTask, schedule
from nesbs.data import DATASETS, DataSettings, load_dataset
from nesbs.ensemble.judges import POOL
from nesbs.ensemble.settings import WORTH_COMPILING
from nesbs.records.cost import CostRecord, CostSchedule, ScheduledStage, StageCost
from nesbs.records.recipe import Recipe
from nesbs.records.step_times import StepRecord
from nesbs.runs.by_workers import GPU_SECONDS
from nesbs.runs.folder import MEMBERS, UNIFORM
from nesbs.runs.step_times import StepTime, StepTimes, network_bytes
from nesbs.supernet import SupernetSettings

MOST_TASKS = 20_000  # of all trainings of a stage: longer chains are reckoned in fewer, longer tasks


@dataclass(frozen=True)
class ImageCounts:
    """How many training images a data set has, and how large they are (channels, height, width)."""

    train: int
    search_train: int
    search_valid: int
    image: tuple[int, int, int]
    classes: int
    travels: bool  # whether images are sent to workers, not read by each from its files

    @staticmethod
    def of(settings: DataSettings) -> "ImageCounts":
        """Count the images: of a named data set from what is known of it, else by reading it.

        >>> ImageCounts.of(DataSettings(name="cifar10")).search_train
        35000
        """
        named = DATASETS.get(settings.name)
        if named is None:
            read = load_dataset(**settings.model_dump()).train
            count, image, classes = len(read), (read.channels, *read.size), read.classes
            left, streams = count, read.streamed  # what is set aside for calibration is not among them
        else:
            side = settings.size
            rare = len(settings.rare_classes) / named.classes * (1 - settings.rare_fraction)
            count = round((1 - rare) * named.train_images)
            count = min(count, settings.train_limit or count)
            image = named.image if side is None else (named.image[0], side, side)
            classes, streams = named.classes, settings.stream != "never" and settings.name == "imagenet"
            left = count - round(count * settings.calibration_fraction)
        valid = round(left * settings.valid_fraction)
        return ImageCounts(left, left - valid, valid, image, classes, not streams)

    def bytes_of(self, images: int) -> int:
        """The bytes of so many images with their labels, where they travel."""
        return images * (math.prod(self.image) + 8) if self.travels else 0


class RecipeCosts:
    """The stages of one recipe by the step times of one machine; None where no such step was timed."""

    def __init__(self, recipe: Recipe, times: StepTimes) -> None:
        self.recipe, self.times = recipe, times
        self.images = ImageCounts.of(recipe.data)
        self._lower = "bfloat16" if times.device != "cpu" else "float32"  # what `precision=auto` is

    def supernet(self) -> StageCost | None:
        """The supernet's training, in the process that was started."""
        own, images = self.recipe.supernet, self.images.search_train
        step = self._supernet_step("supernet", own.batch_size).replace(paths=own.paths)
        return self._training("supernet", step, self.times.of(step), own.epochs, images, compiles=True)

    def supernets(self, count: int) -> StageCost | None:
        """The same for several seeds, side by side."""
        one, step = self.supernet(), self._supernet_step("supernet", 1)
        return one and one.replace(count=count, side_by_side=True, **self._travels(step, self.images.search_train))

    def posterior(self) -> StageCost | None:
        """Fitting the posterior, without what untrained networks take."""
        own, valid = self.recipe.posterior, self.images.search_valid
        if own.estimator == "straight-through":
            time, reference = self.times.of(self._supernet_step("fit", own.batch_size)), 0.0
        else:
            time = self._estimate(own.batch_size * own.architectures)
            each = self._estimate(valid)
            reference = 0.0 if each is None else own.reference * each.seconds
        if time is None:
            return None
        return self._task("posterior", time, own.starts * own.steps * time.seconds + reference)

    def selection(self) -> StageCost | None:
        """Estimating every architecture that an ensemble could be chosen from; drawing ensembles is not counted."""
        delta, rounds = self.recipe.sampler.delta, self.recipe.search.rounds
        values = len(delta) if isinstance(delta, tuple) and self.recipe.sampler.name == "svgd-rd" else 1
        own = self.recipe.search
        if own.tune == "bayesian":
            values = own.trials
        time = self._estimate(own.images(self.images.search_valid))
        if time is None:
            return None
        estimated = rounds * values * self.recipe.ensemble.size
        estimated += self.recipe.posterior.reference if own.judge == "evidence" else 0
        if own.judge in ("posterior", "evidence") and own.gain:
            estimated += max(POOL, self.recipe.ensemble.size)
        return self._task("selection", time, estimated * time.seconds)

    def members(self, name: str, count: int, epochs: int, *, searching: bool = False) -> StageCost | None:
        """Trainings of so many networks as members, side by side; those of a search leave held-out images out."""
        own, data = self.recipe.members, self.images
        images = data.search_train if searching or own.images == "search_train" else data.train
        step = StepRecord(
            kind="member",
            space=self.recipe.space.name,
            images=own.batch_size,
            image=data.image,
            classes=data.classes,
            cells=own.cells,
            channels=own.channels,
            multiply_adds=own.multiply_adds,
            stem=own.stem,
            auxiliary=own.auxiliary > 0,
            precision=self._lower if own.precision == "auto" else own.precision,
        )
        chosen = dict.fromkeys(self.recipe.ensemble.architectures or (None,))
        times = [self.times.of(step.replace(architecture=text)) for text in chosen]
        known = [time for time in times if time is not None]
        if not known:
            return None
        seconds, factor = fmean(time.seconds for time in known), fmean(time.factor for time in known)
        mean = replace(known[0], seconds=seconds, factor=factor, measured=all(time.measured for time in known))
        compiles = epochs * max(1, images // own.batch_size) >= WORTH_COMPILING
        one = self._training(name, step, mean, epochs, images, compiles=compiles)
        return one and one.replace(count=count, side_by_side=True, **self._travels(step, images))

    def _supernet_step(self, kind: str, images: int) -> StepRecord:
        own = self.recipe.supernet
        return StepRecord(
            kind=kind,
            space=self.recipe.space.name,
            images=images,
            image=(self.images.image[0], *_seen(own, self.images.image)),
            classes=self.images.classes,
            cells=own.cells,
            channels=own.channels,
            partial=own.partial,
            precision=self._lower if own.precision == "auto" else own.precision,
        )

    def _estimate(self, images: int) -> StepTime | None:
        return self.times.of(self._supernet_step("estimate", images))

    def _training(
        self, name: str, step: StepRecord, time: StepTime | None, epochs: int, images: int, *, compiles: bool
    ) -> StageCost | None:
        if time is None:
            return None
        prepare = time.prepare_seconds if compiles and self.times.device != "cpu" else 0.0
        seconds = epochs * max(1, images // (step.images or 1)) * time.seconds + prepare
        return self._task(name, time, seconds).replace(epochs=epochs, compiling=prepare)

    def _travels(self, step: StepRecord, images: int) -> dict[str, int]:
        return {"data_bytes": self.images.bytes_of(images), "checkpoint_bytes": network_bytes(step)}

    def _task(self, name: str, time: StepTime, seconds: float) -> StageCost:
        own = {"source": time.source, "factor": time.factor, "measured": time.measured}
        return StageCost(name=name, phase=0, seconds=seconds, **own)


def _seen(settings: SupernetSettings, image: tuple[int, int, int]) -> tuple[int, int]:
    """The height and width at which a supernet sees images."""
    return image[1:] if settings.image_size is None else (settings.image_size, settings.image_size)


def recipe_cost(recipe: Recipe, times: StepTimes, gpus: Sequence[int], *, of: str) -> CostRecord:
    """What `nesbs run` takes with the recipe; `of` names it.

    >>> from nesbs.runs.recipe import load_recipe
    >>> cost = recipe_cost(load_recipe("cifar10-nasbench201"), StepTimes.recorded(), [1, 3], of="a run")
    >>> [(stage.name, stage.count) for stage in cost.stages]
    [('supernet', 1), ('posterior', 1), ('selection', 1), ('members', 3)]
    """
    costs, own = RecipeCosts(recipe, times), recipe.ensemble
    planned: list[tuple[str, StageCost | None]] = []
    if own.architectures is None:
        planned = [("supernet", costs.supernet()), ("posterior", costs.posterior())]
        if recipe.search.judge == "trained":
            count, epochs = recipe.search.judge_candidates, recipe.search.judge_epochs
            name = "candidates"
            planned.append((name, costs.members(name, count, epochs, searching=True)))
        planned.append(("selection", costs.selection()))
    planned += [
        (name, costs.members(name, own.size, recipe.members.epochs))
        for name in (MEMBERS, *([UNIFORM] if recipe.evaluation.uniform else []))
    ]
    missing = [name for name, stage in planned if stage is None]
    if own.architectures is None:
        missing += [*(["untrained networks"] if recipe.posterior.untrained else []), "drawing ensembles"]
    stages = [stage.replace(phase=phase) for phase, (_, stage) in enumerate(planned) if stage is not None]
    return make_cost(stages, [*missing, "evaluation"], times, gpus, of=of)


def make_cost(
    stages: Sequence[StageCost], missing: Sequence[str], times: StepTimes, gpus: Sequence[int], *, of: str
) -> CostRecord:
    """Place stages on each number of GPUs; `missing` names what is not among them, since it was never measured."""
    longest = GPU_SECONDS if times.device != "cpu" else 0.0
    parts = [list(_parts(stage, longest)) for stage in stages]
    sent = [(stage, stage.count * len(own)) for stage, own in zip(stages, parts, strict=True) if stage.side_by_side]
    images = [sum(each.data_bytes for each, _ in sent if each.phase == stage.phase) for stage, _ in sent]
    return CostRecord(
        of=of,
        device=times.about,
        unit="worker" if times.device == "cpu" else "GPU",
        stages=tuple(stages),
        not_counted=tuple(missing),
        schedules=tuple(_scheduled(stages, parts, count) for count in gpus),
        tasks=sum(tasks for _, tasks in sent),
        image_bytes=max(images, default=0),
        # The first task of a network takes no checkpoint along.
        checkpoint_bytes=sum((2 * tasks - stage.count) * stage.checkpoint_bytes for stage, tasks in sent),
    )


def _scheduled(stages: Sequence[StageCost], parts: Sequence[Sequence[float]], gpus: int) -> CostSchedule:
    """Place the tasks of stages, each training of which has such parts, on so many GPUs."""
    tasks: list[PlannedTask] = []
    places: list[range] = []  # of the tasks of each stage
    before: tuple[int, ...] = ()  # the last tasks of the phase before
    ends: list[int] = []  # and of this one
    for place, (stage, own) in enumerate(zip(stages, parts, strict=True)):
        if place and stage.phase != stages[place - 1].phase:
            before, ends = tuple(ends), []
        first = len(tasks)
        for number in range(stage.count):
            after = before if stage.side_by_side or number == 0 else (len(tasks) - 1,)
            for seconds in own:
                tasks.append(PlannedTask(seconds, after))
                after = (len(tasks) - 1,)
            ends.append(len(tasks) - 1)
        places.append(range(first, len(tasks)))
    placed = schedule(tasks, gpus)
    end = max((task.end for task in placed), default=0.0)
    spans = [(min(placed[place].start for place in own), max(placed[place].end for place in own)) for own in places]
    return CostSchedule(
        gpus=gpus,
        seconds=end,
        busy=sum(task.seconds for task in tasks) / (gpus * end) if end else 0.0,
        stages=tuple(
            ScheduledStage(name=stage.name, start=start, end=ended)
            for stage, (start, ended) in zip(stages, spans, strict=True)
        ),
    )


def _parts(stage: StageCost, longest: float) -> Iterator[float]:
    """The seconds of the tasks that one training of a stage is given out in."""
    most = max(1, min(stage.epochs, MOST_TASKS // max(stage.count, 1)))
    epochs = max(1, round(stage.epochs / most), math.ceil(longest * stage.epochs / stage.seconds))
    if not stage.side_by_side:
        epochs = stage.epochs
    for begun in range(0, stage.epochs, epochs):
        yield stage.seconds * min(epochs, stage.epochs - begun) / stage.epochs
