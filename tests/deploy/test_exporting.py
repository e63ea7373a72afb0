"""An exported file answers as the ensemble does, says what it holds, and is written whole or not at all."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from deploy.test_load import edit
from toys import call, tiny

import nesbs
from benchmarks.half import measure
from nesbs import files
from nesbs.deploy import export_classifier, exporting, kept_images, measure_latency
from nesbs.deploy.exporting import check_place, is_export, try_out
from nesbs.deploy.whole_model import WholeModel
from nesbs.runs.folder_lock import locked
from nesbs.runs.resumable_run import Run
from nesbs.runs.status import run_status

FEW = ["evaluation.uniform=false", "ensemble.size=2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A measured run, whose temperature is not 1."""
    folder = tmp_path_factory.mktemp("export") / "run"
    tiny(folder, changes=FEW).scores()
    edit(folder / "members" / "classifier.json", lambda record: record.update(temperature=1.7))
    return folder


def check_answers(answer, classifier, images):
    """Probabilities, label and uncertainty are the ensemble's, for one image, for seven and for sixty-four."""
    expected, entropy = classifier.predict_proba(images).numpy(), classifier.explain(images).entropy.numpy()
    assert np.ptp(expected) > 0.01
    for batch in (1, 7, 64):
        probabilities, label, uncertainty = answer(images[:batch])
        assert np.abs(probabilities - expected[:batch]).max() <= 1e-5
        assert [classifier.class_names[place] for place in label] == classifier.predict(images[:batch])
        np.testing.assert_allclose(uncertainty, entropy[:batch], atol=1e-5)


def bytes_for(classifier):
    height, width, channels = exporting.input_shape(classifier)
    return np.random.default_rng(1).integers(0, 256, (64, height, width, channels), dtype=np.uint8)


def runner(path):
    session = onnxruntime.InferenceSession(path)
    return session, lambda images: session.run(["probabilities", "label", "uncertainty"], {"images": images})


def test_onnx_is_the_ensemble_at_its_temperature(run, tmp_path, capsys):
    out = tmp_path / "model.onnx"
    assert call("export", run, "--out", out) == 0
    assert "2 members, 10 classes, images of 12×12; tried" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [out]
    classifier, (session, answer) = nesbs.load(run), runner(out)
    assert classifier.temperature == 1.7
    check_answers(answer, classifier, bytes_for(classifier))
    [taken], given = session.get_inputs(), session.get_outputs()
    assert (taken.name, taken.type, taken.shape) == ("images", "tensor(uint8)", ["batch", 12, 12, 1])
    assert [(each.name, each.type, each.shape[0]) for each in given] == [
        ("probabilities", "tensor(float)", "batch"),
        ("label", "tensor(int64)", "batch"),
        ("uncertainty", "tensor(float)", "batch"),
    ]
    about = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}
    assert tuple(about["classes"]) == classifier.class_names
    assert about["preprocessing"]["size"] == [12, 12]
    assert about["preprocessing"]["resize"] == "interpolate"
    assert (about["temperature"], about["combine"]) == (1.7, "probabilities")
    content = out.read_bytes()
    assert not any(place.encode() in content for place in (torch.__file__, nesbs.__file__))  # no path of this machine
    assert is_export(out)
    check_place(out, "onnx")  # may be replaced


def of_averaged_logits(folder):
    """Two DARTS members with auxiliary towers, logits averaged, at a temperature."""
    changes = [
        *("space.name=darts", "ensemble.architectures=[darts-v2, pc-darts]", "members.cells=3"),
        *("members.auxiliary=0.4", "members.epochs=1", "ensemble.combine=logits", "data.size=16"),
    ]
    assert any("auxiliary" in name for name in tiny(folder, changes=[*FEW, *changes]).ensemble().state_dict())
    edit(folder / "members" / "classifier.json", lambda record: record.update(temperature=0.6))
    classifier = nesbs.load(folder)
    assert (classifier.ensemble.combine, classifier.temperature) == ("logits", 0.6)
    return classifier


def test_what_is_exported_averages_logits_and_leaves_auxiliary_towers_out(tmp_path):
    classifier = of_averaged_logits(tmp_path / "run")
    model = WholeModel(classifier.ensemble, classifier.temperature)
    check_answers(
        lambda images: [each.detach().numpy() for each in model(torch.from_numpy(images))],
        classifier,
        bytes_for(classifier),
    )
    assert not any("auxiliary" in name for name in model.state_dict())


@pytest.mark.slow  # a long conversion; the test before this one has what is converted
def test_onnx_is_the_ensemble_of_averaged_logits_without_auxiliary_towers(tmp_path):
    classifier, out = of_averaged_logits(tmp_path / "run"), tmp_path / "model.onnx"
    export_classifier(classifier, out)
    check_answers(runner(out)[1], classifier, bytes_for(classifier))
    held = sum(np.prod(each.dims, dtype=int) for each in onnx.load(out).graph.initializer)
    weights = sum(each.numel() for each in classifier.ensemble.parameters())
    assert 0.8 * weights <= held <= 1.2 * weights  # no tower, which is many times larger; batch norms are folded
    assert b"auxiliary" not in out.read_bytes()


def test_torchs_own_format_is_the_ensemble(run, tmp_path):
    out = tmp_path / "model.pt2"
    assert call("export", run, "--to", "torch", "--out", out, "--quiet") == 0
    assert is_export(out)
    module, classifier = torch.export.load(out).module(), nesbs.load(run)
    check_answers(
        lambda images: [each.numpy() for each in module(torch.from_numpy(images))], classifier, bytes_for(classifier)
    )


def test_images_that_the_run_has_kept_are_tried(run):
    kept = kept_images(run)
    assert 0 < len(kept) <= 7
    classifier, seen = nesbs.load(run), []

    def answer(images):
        seen.append(images)
        logits = classifier.logits_of(images.transpose(0, 3, 1, 2))
        probabilities = classifier.combined(logits).exp()
        return probabilities.numpy(), probabilities.argmax(-1).numpy(), None

    assert try_out(answer, classifier, kept) < 1e-7
    assert [len(images) for images in seen] == [1, 7]
    assert np.array_equal(seen[0][0, :, :, 0], np.asarray(kept[0].convert("L")))


@pytest.mark.parametrize("wrong", ["by a little", "not a number", "another label"])
def test_a_model_that_answers_otherwise_is_not_written(wrong, run, tmp_path, monkeypatch, capsys):
    classifier = nesbs.load(run)

    def answer(images):
        probabilities = classifier.predict_proba(list(images)).numpy()
        label = probabilities.argmax(-1)
        if wrong == "another label":
            return probabilities, probabilities.argmin(-1), None
        return probabilities + (2e-5 if wrong == "by a little" else np.nan), label, None

    monkeypatch.setattr("nesbs.deploy.exporting._torch_answer", lambda content: answer)
    monkeypatch.setattr("nesbs.deploy.exporting.traced", lambda *_: None)
    monkeypatch.setattr("torch.export.save", lambda *_, **__: None)
    assert call("export", run, "--out", tmp_path / "model.pt2", "--to", "torch") == 2
    assert "answers otherwise than the ensemble, by" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "RUN"], "Missing option '--out'"),
        (["export", "TMP", "--out", "TMP/a.onnx"], "is not a run: name the folder of a run"),
        (["export", "RUN", "--out", "TMP/a.onxx"], "is a file with the ending .onnx, found"),
        (["export", "RUN", "--out", "TMP/a.onnx", "--to", "torch"], "is a file with the ending .pt2, found"),
        (["export", "RUN", "--out", "TMP/a.onnx", "--to", "torhc"], "--to torhc: did you mean torch?"),
        (["export", "RUN", "--out", "TMP/notes.onnx"], "is there and is no export of nesbs"),
        (["export", "RUN", "--out", "TMP/other.onnx"], "is there and is no export of nesbs"),
        (["export", "RUN", "--out", "TMP/folder.onnx"], "is there and is no export of nesbs"),
        (["export", "RUN", "--out", "TMP/a.onnx", "--seed", "1"], "No such option"),
        (["latency", "TMP"], "is not a run: name the folder of a run"),
        (["latency", "RUN", "--batches", "1,x"], "--batches takes whole numbers with commas between them"),
        (["latency", "RUN", "--batches", "0"], "--batches takes numbers from 1 to 100,000, found 0"),
        (["latency", "RUN", "--repeats", "0"], "--repeats"),
    ],
)
def test_bad_input_is_a_line_or_two_and_code_2(arguments, message, run, tmp_path, capsys):
    (tmp_path / "folder.onnx").mkdir()
    (tmp_path / "notes.onnx").write_text("no model")
    graph = onnx.helper.make_graph([], "g", [], [])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "other.onnx")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert call(*(part.replace("RUN", str(run)).replace("TMP", str(tmp_path)) for part in arguments)) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert 1 <= len(captured.err.splitlines()) <= 2
    assert captured.out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_without_the_extra_export_names_it_and_latency_times_torch(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert call("export", run, "--out", tmp_path / "a.onnx") == 2
    message = (
        "an export to ONNX needs onnx, onnxscript and onnxruntime: install them with `pip install 'nesbs[export]'`"
    )
    assert capsys.readouterr().err == f"error: {message}\n"
    assert call("latency", run, "--batches", "1,3", "--repeats", "3") == 0
    assert "onnxruntime was not timed: it needs `pip install 'nesbs[export]'`" in capsys.readouterr().out
    record = nesbs.records.LatencyRecord.find(run)
    assert [(row.model, row.batch) for row in record.rows] == [
        (model, batch) for batch in (1, 3) for model in ("member 1", "member 2", "ensemble")
    ]
    assert all(0 < row.lower <= row.median <= row.upper for row in record.rows)
    assert (record.onnxruntime, record.repeats) == (None, 3)
    page = (run / "report.html").read_text()
    assert "Images in a second" in page
    assert '<a href="#latency">Latency</a>' in page


@pytest.mark.slow  # three conversions; what is timed without onnxruntime is tested above
def test_each_member_is_timed_in_onnxruntime_too(run, monkeypatch):
    sizes, classifier = {}, nesbs.load(run)

    def timed(calls, repeats):
        sizes.update({key: call() for key, call in calls.items()})
        return {key: [2.0, 1.0, 3.0] for key in calls}

    monkeypatch.setattr("nesbs.deploy.latency.timed", timed)
    record = measure_latency(classifier, batches=[5], repeats=3)
    assert {(row.median, row.lower, row.upper) for row in record.rows} == {(2.0, 1.5, 2.5)}
    assert record.onnxruntime == onnxruntime.__version__
    assert [(row.runtime, row.model) for row in record.rows] == [
        (runtime, model) for runtime in ("torch", "onnxruntime") for model in ("member 1", "member 2", "ensemble")
    ]
    for model in ("member 1", "member 2", "ensemble"):  # both compute the same
        inside = sizes["onnxruntime", "cpu", model, 5][0]
        np.testing.assert_allclose(inside, sizes["torch", "cpu", model, 5].numpy(), rtol=1e-3, atol=1e-4)


def test_a_run_of_half_the_size_answers_and_is_measured_as_the_run_is(run, tmp_path, capsys):
    out = tmp_path / "half"
    assert call("export", run, "--out", out, "--to", "half") == 0
    assert "MiB, weights in float16" in capsys.readouterr().out
    tensors, _ = files.read_tensors(out / "members" / "0.safetensors")
    assert {(each.ndim > 1, each.dtype) for each in tensors.values()} >= {(True, torch.float16), (False, torch.float32)}
    half, whole = nesbs.load(out), nesbs.load(run)
    test = nesbs.load_dataset(train_limit=100, test_limit=1000, size=12).test
    images = test.images.permute(0, 2, 3, 1).numpy()
    same = np.mean([one == other for one, other in zip(half.predict(images), whole.predict(images), strict=True)])
    assert same >= 0.999
    assert half.temperature == 1.7
    assert next(half.ensemble.parameters()).dtype == torch.float32
    probabilities = [each.predict_proba(images)[torch.arange(1000), test.labels] for each in (half, whole)]
    assert 0 < abs(float((probabilities[0].log() - probabilities[1].log()).mean())) < 0.001
    assert {stage.name: stage.state for stage in run_status(out).stages} == {
        **dict.fromkeys(("supernet", "posterior", "selection", "members"), "done"),
        "evaluation": "to do",
    }
    assert half.held_out == whole.held_out is not None  # for --abstain and --coverage
    with locked(out):  # a command that looks at the copy before it is measured
        Run.open(out, root=str(tmp_path)).ensemble()
    assert nesbs.load(out).temperature == 1.7
    both = measure(run, out, root=str(tmp_path), device="cpu")
    assert both["same"] >= 0.999
    assert both["bytes"] == sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    assert call("evaluate", out, "--root", tmp_path, "--quiet") == 0
    found, before = (files.read_json(folder / "metrics.json")["ensemble"] for folder in (out, run))
    assert found["nll"] == pytest.approx(before["nll"], abs=0.001)
    assert both["nll"] == pytest.approx({"run": before["nll"], "half": found["nll"]}, abs=1e-6)
    assert call("export", run, "--out", out, "--to", "half") == 2
    assert "half is there and not empty: name a new folder" in capsys.readouterr().err


def test_measuring_a_run_of_half_the_size_trains_nothing(tmp_path):
    run, out = tmp_path / "run", tmp_path / "half"
    tiny(run, changes=["evaluation.uniform=true", "ensemble.size=2"]).ensemble()
    assert call("export", run, "--out", out, "--to", "half", "--quiet") == 0
    assert call("evaluate", out, "--quiet") == 0
    assert files.read_json(out / "metrics.json").get("uniform") is None
    assert not (out / "uniform").exists()
