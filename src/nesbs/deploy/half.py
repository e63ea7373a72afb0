"""Write a finished run anew with its weights in 16 bits: half as large, and still a run's folder."""

from pathlib import Path

from nesbs import files
from nesbs.deploy.load import load
from nesbs.errors import NesbsError
from nesbs.records import ClassifierRecord, HeldOutAnswers, RunRecord
from nesbs.records.recipe import RECIPE
from nesbs.records.search import SelectionRecord
from nesbs.runs.folder import MEMBERS, read_recipe


def write_half_run(run: Path, out: Path) -> int:
    """Write what `nesbs evaluate` and `nesbs predict` need of a finished run into a new folder; return its bytes.

    Weights of convolutions and linear layers are rounded to float16, and read back as float32. Everything else stays as
    it is: what BatchNorm holds is small and may lie beyond float16. The recipe's `data.root` is left out, and so is the
    uniform-random ensemble, whose members stay behind. Thresholds of `nesbs predict --abstain` and `--coverage` stay
    those of the answers before rounding.

    >>> import tempfile
    >>> from nesbs.runs import Run, load_recipe
    >>> quick = ["ensemble.architectures=[resnet]", "ensemble.size=1", "members.epochs=1", "data.train_limit=50"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Run.create(Path(folder) / "run", load_recipe("toy", quick)).ensemble()
    ...     size = write_half_run(Path(folder) / "run", Path(folder) / "half")
    ...     size < sum(path.stat().st_size for path in Path(folder).glob("run/members/*"))
    True
    """
    with files.new_folder(out):
        _write(run, out)
    return sum(path.stat().st_size for path in out.rglob("*") if path.is_file())


def _write(run: Path, out: Path) -> None:
    load(run)  # raises where the run is not finished, or damaged
    record = ClassifierRecord.read(run / MEMBERS / ClassifierRecord.FILE)
    members = []
    for place, member in enumerate(record.members or ()):
        tensors, about = files.read_tensors(run / MEMBERS / f"{place}.safetensors")
        rounded = {
            name: each.half() if each.ndim > 1 and each.is_floating_point() else each for name, each in tensors.items()
        }
        if not all(bool(each.isfinite().all()) for each in rounded.values()):
            raise NesbsError(f"{run}: a weight of member {place + 1} lies beyond float16: it cannot be written so")
        path = out / MEMBERS / f"{place}.safetensors"
        files.write_tensors(path, rounded, **about, **_of(run, place))
        members.append(member.replace(sha256=files.file_checksum(path)))
    recipe = read_recipe(run)
    data, evaluation = recipe.data.model_copy(update={"root": None}), recipe.evaluation
    evaluation = evaluation.model_copy(update={"uniform": False})  # measuring would train it anew
    recipe = recipe.model_copy(update={"data": data, "evaluation": evaluation})
    held_out = f"{MEMBERS}/{HeldOutAnswers.FILE}"
    history = files.read_json(run / RunRecord.FILE)
    history.get("stages", {}).pop("evaluation", None)  # what it measured, before rounding, stays behind
    files.write_json(out / RunRecord.FILE, history)
    for name in (SelectionRecord.FILE, *([held_out] if (run / held_out).is_file() else [])):
        files.write_text(out / name, files.read_text(run / name))
    record.replace(members=tuple(members)).write(out / MEMBERS / ClassifierRecord.FILE)
    files.write_text(out / RECIPE, recipe.to_yaml())  # last: it says that a run is there


def _of(run: Path, place: int) -> dict[str, str]:
    """Whose weights a file holds, which `read_tensors` checks and takes away."""
    said = files.read_about(run / MEMBERS / f"{place}.safetensors").get(files.OF)
    return {} if said is None else {files.OF: said}
