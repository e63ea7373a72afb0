"""One small network that answers as an ensemble does (distillation: Hinton, Vinyals & Dean, 2015).

    OUT/  a run folder with one member, and beside it:
    OUT/distilled.json      what it was distilled from, and what it keeps of the ensemble's gain
    OUT/labels/members/     the same network trained on labels alone, where the ensemble does not hold it

The student sees the images and the augmentation that members see, and the ensemble answers the very same batch.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from nesbs import files, metrics
from nesbs.data import Dataset, Split
from nesbs.data.unlabelled import with_unlabelled
from nesbs.deploy.classifier import Classifier
from nesbs.deploy.load import load
from nesbs.ensemble import Criterion, Ensemble
from nesbs.errors import NesbsError, did_you_mean, expect, expect_all
from nesbs.evaluation.calibration import scale
from nesbs.evaluation.kept_gain import kept_gain
from nesbs.evaluation.scores import predictions, score_log_probs
from nesbs.records import DistilledRecord, Recipe
from nesbs.records.distilled import KeptGain, UnlabelledRecord
from nesbs.records.metrics import NetworkMetrics
from nesbs.records.whole_folder import check_begun
from nesbs.runs import Progress, Run
from nesbs.runs.by_workers import MemberTraining
from nesbs.runs.folder import MEMBERS, begun
from nesbs.runs.folder_lock import locked
from nesbs.runs.members import trained_members
from nesbs.runs.recipe import apply_changes
from nesbs.settings import Settings, checked_keywords
from nesbs.spaces import Architecture, Member, named_architecture, zoo
from nesbs.training import Batch

# Named as the student's folder is, so that both have the same first weights, order of images and augmentation.
LABELS = Path("labels") / MEMBERS
STUDENTS = ("members.", "evaluation.", "seed", "threads")  # settings in which the student's recipe may differ


class DistilSettings(Settings):
    """How a network learns from an ensemble's answers."""

    temperature: float = Field(
        2.0, ge=0.1, le=100, description="softens the ensemble's and the student's answers while they are compared"
    )
    label_weight: float = Field(
        0.1, ge=0, le=1, description="share of the labels in the loss; the rest is the ensemble's answer"
    )
    unlabelled: str | None = Field(None, description="a folder of further images, of which only the answers are known")


DEFAULT = DistilSettings()


@checked_keywords
def distil(
    run: str | Path,
    *,
    into: str,
    out: str | Path,
    changes: Sequence[str] = (),
    root: str | None = None,
    seed: int | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
    temperature: float = DEFAULT.temperature,
    label_weight: float = DEFAULT.label_weight,
    unlabelled: str | None = DEFAULT.unlabelled,
) -> DistilledRecord:
    """Train one network on the averaged answers of a run's ensemble, measure it, and return what it keeps of the gain.

    `into` is an architecture of the run's space, by its text or its name in the zoo, or `smallest` or `best` of the
    members: that with the fewest parameters, or with the lowest loss on images that neither trained it nor test it.
    `out` becomes a run folder with one member, which `nesbs.load` and every command open; called again, it resumes.
    `changes` are changes of the run's recipe such as `members.epochs=20`. `root` is where the data are now, if they
    were moved (before the student was begun). On the test images the student is measured beside the ensemble and
    beside the same network trained on labels alone, with the same schedule and seed.

    >>> import tempfile
    >>> from nesbs.runs import load_recipe
    >>> quick = ["ensemble.architectures=[resnet]", "ensemble.size=2", "members.epochs=1", "data.train_limit=50"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Run.create(Path(folder) / "run", load_recipe("toy", quick)).ensemble()
    ...     kept = distil(f"{folder}/run", into="smallest", out=f"{folder}/student")
    ...     answers = load(f"{folder}/student").predict_proba(torch.zeros(5, 28, 28, dtype=torch.uint8))
    >>> kept.student.error <= 1, list(kept.kept), answers.shape
    (True, ['error', 'nll', 'ece'], torch.Size([5, 10]))
    """
    settings = DistilSettings.from_arguments(locals())
    for name, value in (("run", run), ("out", out)):
        expect(value, (str, Path), f"{name} must be the folder of a run")
    expect(into, str, "into must be the text of an architecture, smallest or best")
    source, folder = files.expanded(run), files.expanded(out)
    check_begun(source)
    _check_place(source, folder)
    teacher_run = Run.open(source, device=device, root=root)
    teacher_run.require_members()
    classifier = load(source, device=device)
    architecture, decided = choose_student(into, teacher_run, classifier)
    recipe = student_recipe(teacher_run.recipe, architecture, changes, seed)
    split, unlabelled_images = _images(recipe, teacher_run.data, classifier, settings)
    weights = (source / MEMBERS / f"{place}.safetensors" for place in range(len(classifier.ensemble.members)))
    record = DistilledRecord(
        source=os.path.realpath(source),
        members=tuple(map(files.file_checksum, weights)),
        decided=decided,
        architecture=str(architecture),
        temperature=settings.temperature,
        label_weight=settings.label_weight,
        unlabelled=unlabelled_images,
    )
    with locked(folder):
        student = Run.create(folder, recipe, device=device, progress=progress, data=teacher_run.data)
        record = _begin(folder, record)
        same = all(getattr(recipe, name) == getattr(teacher_run.recipe, name) for name in ("members", "seed"))
        twin = _member_of(classifier.ensemble, architecture) if same else None
        if twin is None:
            (folder / LABELS).mkdir(parents=True, exist_ok=True)  # says that there is something to do
        student.plan()
        criterion = distillation(classifier.ensemble, settings, recipe.members.label_smoothing)
        _train(student, architecture, split, MEMBERS, criterion)
        student.scores()
        if record.kept is None:
            twin = twin or _train(student, architecture, student.train_images, LABELS)
            record = _measured(record, student, classifier.ensemble, twin).write(folder / DistilledRecord.FILE)
    return record


def distillation(teacher: Ensemble, settings: DistilSettings, label_smoothing: float = 0.0) -> Criterion:
    """Return the loss of a student: (1 − w) τ² KL(ensemble ‖ student), both at temperature τ, + w cross-entropy.

    w is the weight of the labels; images labelled −1 have none, and count by the ensemble's answer alone. With τ² the
    gradients of the first part are of one size at all temperatures (Hinton, Vinyals & Dean, section 2).
    """

    def criterion(batch: Batch) -> Callable[[Tensor], Tensor]:
        with torch.no_grad():
            answers = scale(teacher.combined(teacher(batch.images)), settings.temperature)
        weight = settings.label_weight * (batch.labels >= 0)

        def loss(logits: Tensor) -> Tensor:
            own = scale(logits, settings.temperature)
            soft = settings.temperature**2 * F.kl_div(own, answers, reduction="none", log_target=True).sum(-1)
            hard = F.cross_entropy(
                logits, batch.labels, reduction="none", ignore_index=-1, label_smoothing=label_smoothing
            )
            return (weight * hard + (1 - weight) * soft).mean()

        return loss

    return criterion


def choose_student(into: str, run: Run, classifier: Classifier) -> tuple[Architecture, str]:
    """Return the student's architecture and, in words, how it was found."""
    members, architectures = classifier.ensemble.members, classifier.ensemble.architectures
    if into == "smallest":
        sizes = [_parameters(member) for member in members]
        place = sizes.index(min(sizes))
        return architectures[place], f"member {place + 1}, the smallest: {sizes[place]:,} parameters"
    if into != "best":
        try:
            return named_architecture(run.space, into), "named"
        except NesbsError as error:
            here = [name for name in zoo if zoo.entry(name).space == run.space.name]
            meant = error if into in zoo or "|" in into else did_you_mean(into, ["smallest", "best", *here])
            raise NesbsError(f"--into {into} is neither smallest nor best nor an architecture here: {meant}") from None
    if run.recipe.members.images == "search_train":
        held_out = run.data.search_valid
        logits, _ = predictions(classifier.ensemble, held_out, batch_size=run.recipe.evaluation.batch_size)
        losses = metrics.nll(logits.log_softmax(-1), held_out.labels).tolist()
        how = "on the training images held out from the members"
    else:
        estimates = dict(run.selection().candidates)
        if not all(architecture in estimates for architecture in architectures):
            raise NesbsError(
                "--into best: the members were trained on all training images, and no search has judged them on "
                "others: name an architecture, or take smallest"
            )
        losses = [estimates[architecture] for architecture in architectures]
        how = "by the supernet's estimate on held-out training images"
    place = losses.index(min(losses))
    return architectures[place], f"member {place + 1}, the best {how}: loss {losses[place]:.4f}"


def student_recipe(recipe: Recipe, architecture: Architecture, changes: Sequence[str], seed: int | None) -> Recipe:
    """Return the recipe of a run with one fixed member, like the recipe of the ensemble's run but for changes.

    >>> from nesbs.spaces import nasbench201, zoo
    >>> student_recipe(Recipe(), zoo["resnet"], ["members.epochs=3"], None).members.epochs
    3
    """
    expect_all(changes, str, "changes must be a list of texts such as members.epochs=20")
    for change in changes:
        if not change.strip().startswith(STUDENTS):
            raise NesbsError(
                f"--set {change.partition('=')[0]}: a student has the data and the space of the ensemble; "
                "members.… and evaluation.… may differ"
            )
    values = recipe.model_dump(mode="json")
    values["ensemble"] |= {"architectures": [str(architecture)], "size": 1}
    values["evaluation"] |= {"uniform": False}
    apply_changes(values, [*changes, *([] if seed is None else [f"seed={seed}"])])
    return Recipe.of(values)


def _check_place(source: Path, folder: Path) -> None:
    """Raise where the student may not go to a folder."""
    if os.path.realpath(source) == os.path.realpath(folder):
        raise NesbsError(f"--out {folder} is the ensemble's own folder: name another")
    if begun(folder) and (folder / MEMBERS).exists() and DistilledRecord.find(folder) is None:
        raise NesbsError(f"--out {folder} holds a run that was not distilled: name another folder")


def _images(
    recipe: Recipe, data: Dataset, classifier: Classifier, settings: DistilSettings
) -> tuple[Split, UnlabelledRecord | None]:
    """The images that the student learns from, and what is recorded of those without labels."""
    split = recipe.members.trained_on(data)
    if settings.unlabelled is None:
        return split, None
    folder = Path(os.path.realpath(files.expanded(settings.unlabelled)))
    split, names = with_unlabelled(split, folder, classifier.view, recipe.data)
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{os.path.relpath(name, folder)} {os.path.getsize(name)}\n".encode(errors="surrogateescape"))
    return split, UnlabelledRecord(folder=str(folder), images=len(names), digest=digest.hexdigest()[:16])


def _begin(folder: Path, record: DistilledRecord) -> DistilledRecord:
    """The record of the student that is begun here, or the one there; raises where that learns from something else."""
    earlier = DistilledRecord.find(folder)
    if earlier is None:
        return record.write(folder / DistilledRecord.FILE)
    for name, what in (
        ("members", "the ensemble's members are others than"),
        ("temperature", "another temperature than"),
        ("label_weight", "another weight of the labels than"),
    ):
        if getattr(earlier, name) != getattr(record, name):
            raise NesbsError(f"--out {folder}: {what} when this student was begun: name another folder")
    if (earlier.unlabelled and earlier.unlabelled.digest) != (record.unlabelled and record.unlabelled.digest):
        raise NesbsError(
            f"--out {folder}: other unlabelled images than when this student was begun: name another folder"
        )
    return earlier


def _train(
    run: Run, architecture: Architecture, split: Split, folder: str | Path, criterion: Criterion | None = None
) -> Member:
    """A network of a folder in the run's, trained where it is not there yet."""
    name = Path(folder).parts[0]
    shared = MemberTraining(run.space, split, run.recipe.members, run.recipe.seed, criterion)
    [member] = trained_members(
        [architecture], shared, folder=run.folder / folder, stage=lambda total: run.stage(name, total)
    )
    return member


def _member_of(ensemble: Ensemble, architecture: Architecture) -> Member | None:
    """The ensemble's first member of an architecture, None where it has none."""
    members = (member for member in ensemble.members if isinstance(member, Member))
    return next((member for member in members if member.architecture == architecture), None)


def _measured(record: DistilledRecord, student: Run, teacher: Ensemble, twin: Member) -> DistilledRecord:
    """The record with what the three networks are worth on the test images."""
    split, settings = student.measured_images, student.recipe.evaluation
    own = student.ensemble()
    networks = (Ensemble([twin]), teacher, own)
    with student.stage("distilled", len(networks)) as stage:
        combined = []
        for place, network in enumerate(networks):
            combined.append(predictions(network, split, batch_size=settings.batch_size)[1])
            stage.advance(place + 1, "networks measured")
        log_probs = torch.stack(combined)
        labels, ensemble, distilled = (
            NetworkMetrics(**asdict(scores)) for scores in score_log_probs(log_probs, split.labels, bins=settings.bins)
        )
        kept = kept_gain(log_probs, split.labels, bins=settings.bins)
        return record.replace(
            images=len(split),
            parameters=_parameters(own),
            ensemble_parameters=_parameters(teacher),
            labels=labels,
            ensemble=ensemble,
            student=distilled,
            kept={
                measure: KeptGain(
                    gain=each.gain.mean,
                    gain_low=each.gain.low,
                    gain_high=each.gain.high,
                    share=each.share and each.share.mean,
                    low=each.share and each.share.low,
                    high=each.share and each.share.high,
                )
                for measure, each in kept.items()
            },
        )


def _parameters(network: torch.nn.Module) -> int:
    return sum(
        parameter.numel() for name, parameter in network.named_parameters() if "auxiliary" not in name.split(".")
    )
