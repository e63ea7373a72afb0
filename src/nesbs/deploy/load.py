"""Open a finished run for predicting: from its folder alone, wherever that lies and whoever made it.

Weights are safetensors and the rest is JSON: a folder from a stranger can run no code. Networks take memory only after
their weights were found to fit them.
"""

import contextlib
from pathlib import Path

import torch

from nesbs import files
from nesbs.data.conversion import ArrayView
from nesbs.data.images import View
from nesbs.data.split import check_names
from nesbs.deploy.classifier import Classifier
from nesbs.ensemble import Ensemble
from nesbs.errors import NesbsError, expect, shown
from nesbs.records import ClassifierRecord, HeldOutAnswers
from nesbs.records.classifier import FORMAT, MemberRecord, PreprocessingRecord
from nesbs.records.whole_folder import check_begun, check_run
from nesbs.runs import Run
from nesbs.runs.classifier import keep
from nesbs.runs.folder import MEMBERS
from nesbs.runs.folder_lock import locked
from nesbs.spaces import Member, Space, get_space
from nesbs.training import make_current
from nesbs.training.threads import use_threads

TOWER = "network.auxiliary."  # begins the names of weights that only training needs


def load(run: str | Path, *, device: str = "cpu") -> Classifier:
    """Open a finished run as a classifier that knows its preprocessing, its classes and its temperature.

    Needs neither the training data nor the place where the run was made, and writes nothing. `run` may also be a copy
    of the run's folder `members` alone. (A run made before `members/classifier.json` was kept is opened with its data
    once.)

    >>> import tempfile
    >>> from nesbs.runs import load_recipe
    >>> quick = ["ensemble.architectures=[resnet]", "ensemble.size=1", "members.epochs=1", "data.train_limit=50"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Run.create(Path(folder), load_recipe("toy", quick)).ensemble()
    ...     classifier = load(folder)
    >>> classifier.class_names[:2]
    ('T-shirt/top', 'trouser')
    """
    expect(run, (str, Path), "run must be the folder of a run")
    place = usable_device(device)
    folder = files.expanded(run)
    within = folder if (folder / ClassifierRecord.FILE).is_file() else folder / MEMBERS
    record = ClassifierRecord.find(within) or _from_data(folder)
    _check(record, within / ClassifierRecord.FILE)
    return _classifier(record, within, place)


def usable_device(name: str) -> torch.device:
    """Return a device by its name; one that there is not is a `NesbsError`. A GPU that is named becomes the current."""
    expect(name, (str, torch.device), "device must be a name such as cpu or cuda")
    try:
        device = torch.device(name)
        if device.type == "meta":
            raise RuntimeError("it holds no values")
        torch.empty(0, device=device)
        make_current(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise NesbsError(f"device {shown(name)} cannot be used: {str(error).splitlines()[0]}") from None
    return device


def _from_data(folder: Path) -> ClassifierRecord:
    """What predicting needs, of a run that has not kept it: made with its data, and kept where that is possible."""
    check_begun(folder)
    check_run(folder)
    threads = torch.get_num_threads()
    try:
        run = Run.open(folder)
    except NesbsError as error:
        raise NesbsError(
            f"{folder} has no {MEMBERS}/{ClassifierRecord.FILE} (it is older than that, or unfinished) and its data "
            f"cannot be opened to make one: {error}"
        ) from None
    finally:
        use_threads(threads)
    run.require_members()
    record = run.classifier(run.ensemble())
    with contextlib.suppress(NesbsError), locked(folder):  # a folder that cannot be written to is as good
        keep(record, folder / MEMBERS)
    return record


def _check(record: ClassifierRecord, path: Path) -> None:
    """Raise where the file does not say all that predicting needs, or contradicts itself."""
    if record.format is not None and record.format != FORMAT:
        raise NesbsError(f"{path} is of format {record.format}, this nesbs reads format {FORMAT}: install a newer one")
    if missing := record.missing():
        raise NesbsError(f"{path} does not say its {missing[0]}, or not as it should: copy the run again")
    assert record.classes is not None
    assert record.preprocessing is not None
    check_names(record.classes, str(path))
    channels = 1 if record.preprocessing.mode == "L" else 3
    for name in ("mean", "std"):
        if len(getattr(record.preprocessing, name)) != channels:
            raise NesbsError(f"{path}: preprocessing.{name} needs a number for each of {channels} channels")
    if not record.members:
        raise NesbsError(f"{path} names no members: copy the run again")


def _classifier(record: ClassifierRecord, folder: Path, device: torch.device) -> Classifier:
    assert record.space is not None
    assert record.preprocessing is not None
    space = get_space(record.space)
    assert record.preprocessing.size is not None
    space.check_images(*record.preprocessing.size, record.stem or "cifar")
    members = [
        _member(space, member, record, folder / f"{place}.safetensors", device)
        for place, member in enumerate(record.members or ())
    ]
    ensemble = Ensemble(members, record.combine or "probabilities").eval().requires_grad_(False)
    return Classifier(
        ensemble,
        view_of(record.preprocessing),
        record.classes or (),
        record.temperature or 1.0,
        HeldOutAnswers.find(folder),
    )


def view_of(preprocessing: PreprocessingRecord) -> View | ArrayView:
    """How an image becomes what the networks see, from a checked record."""
    mode, size, resize = preprocessing.mode or "RGB", preprocessing.size or (1, 1), preprocessing.resize
    if resize is None or resize == "interpolate":
        return ArrayView(mode, size)
    if size[0] != size[1]:
        raise NesbsError(f"images resized by {resize} are square, found a size of {size[0]}×{size[1]}")
    return View(mode, size[0], resize, preprocessing.share or 1.0)


def _member(space: Space, member: MemberRecord, record: ClassifierRecord, path: Path, device: torch.device) -> Member:
    """A member with its weights, on the device; its shapes are compared before it takes any memory."""
    if files.file_checksum(path) != member.sha256:
        raise NesbsError(f"{path} is damaged or another file (its checksum is not the run's): copy it again")
    tensors, about = files.read_tensors(path)
    if about.get("architecture") != member.architecture:
        raise NesbsError(f"{path} holds another architecture than {ClassifierRecord.FILE} says: copy the run again")
    assert record.preprocessing is not None
    with torch.device("meta"):
        network = space.network(
            space.parse(member.architecture or ""),
            classes=len(record.classes or ()),
            in_channels=len(record.preprocessing.mean or ()),
            channels=member.channels,
            cells=record.cells,
            stem=record.stem or "cifar",
        )
    kinds = {name: tensor.dtype for name, tensor in network.state_dict().items()}
    weights = {name: each.to(device, kinds.get(name)) for name, each in tensors.items() if not name.startswith(TOWER)}
    files.load_into(network, weights, path, assign=True)
    for name in ("mean", "std"):
        own, said = getattr(network.network.normalise, name).cpu(), getattr(record.preprocessing, name)
        if not torch.allclose(own, torch.tensor(said), atol=1e-6):
            raise NesbsError(f"{path} was trained with another {name} than {ClassifierRecord.FILE} says")
    if device.type == "cpu":
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network
