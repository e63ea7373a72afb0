"""`nesbs quality`: truth trained or read, resumed, and a verdict that is right about a supernet not trained at all."""

import csv

import pytest
from scipy.stats import spearmanr
from toys import call, tiny

import nesbs
from nesbs import files
from nesbs.errors import NesbsError
from nesbs.posterior import reference_ranks
from nesbs.records import RunRecords
from nesbs.report import render
from nesbs.runs.quality import measure_quality
from nesbs.spaces import toy_edges


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    work = tiny(tmp_path_factory.mktemp("quality") / "run")
    work.selection()
    return work


def test_truth_is_trained_and_compared(run, capsys):
    assert (
        call("quality", run.folder, "--architectures", "6", "--candidates", "20", "--epochs", "1", "--sizes", "1,3")
        == 0
    )
    out = capsys.readouterr().out
    found = files.read_json(run.folder / "quality.json")["trained"]
    assert found["truth"]["epochs"] == 1
    assert [(entry["size"], entry["ensembles"]) for entry in found["rankings"]["loss"]] == [(1, 6), (3, 20)]
    assert len(found["points"]["3"]) == 20
    assert f"{found['rankings']['loss'][0]['spearman']['value']:.2f}" in out
    assert found["verdict"] in out
    # Each truth is a member trained for an epoch and measured on the test images.
    entry = found["architectures"][0]
    members = sorted((run.folder / "quality-1-epochs").glob("*.safetensors"))
    assert len(members) == 6
    again = measure_quality(run, architectures=6, candidates=20, epochs=1, sizes=(1, 3)).to_json()
    assert again == found
    # Of more architectures only those are trained that had not been before.
    before = {path: path.stat().st_mtime_ns for path in members}
    measure_quality(run, architectures=8, candidates=20, epochs=1, sizes=(1,))
    assert {path: path.stat().st_mtime_ns for path in members} == before
    assert len(list((run.folder / "quality-1-epochs").glob("*.safetensors"))) == 8
    # Without sizes those of which two architectures or more are left over, without epochs a quarter of the members'.
    usual = measure_quality(run, architectures=5, candidates=20)
    assert (list(usual.points), usual.truth.epochs) == (["1", "3"], max(1, run.recipe.members.epochs // 4))
    assert measure_quality(run, architectures=6, candidates=20, epochs=1, sizes=(1, 3)).to_json() == found
    architecture = run.space.parse(entry["architecture"])
    estimator = nesbs.Estimator(run.supernet(), run.data.search_valid, batch_size=run.recipe.search.batch_size)
    log_probs = estimator.log_probs([architecture])
    assert entry["estimated_loss"] == pytest.approx(float(nesbs.metrics.nll(log_probs, run.data.search_valid.labels)))
    page = render(RunRecords.read(run.folder))
    assert "How good the estimate is" in page
    assert found["verdict"] in page


def test_truth_is_read_from_a_table(run, tmp_path):
    space = toy_edges()
    table = tmp_path / "table.csv"
    rows = [(str(a), 50 + i) for i, a in enumerate(space)]
    with table.open("w", newline="") as opened:
        csv.writer(opened).writerows([("architecture", "accuracy"), *rows])
    before = files.read_json(run.folder / "quality.json") if (run.folder / "quality.json").is_file() else {}
    found = measure_quality(run, table=str(table), column="accuracy").to_json()
    assert files.read_json(run.folder / "quality.json").get("trained") == before.get("trained")  # kept beside it
    assert len(found["architectures"]) == len(space)
    assert [entry["true_error"] for entry in found["architectures"]] == pytest.approx([1 - a / 100 for _, a in rows])
    weights = run.posterior().log_prob(list(space)).exp().tolist()
    expected = sum(p * accuracy for p, (_, accuracy) in zip(weights, rows, strict=True))
    assert found["mass"]["expected"] == pytest.approx(expected, rel=1e-4)
    assert found["mass"]["uniform"] == 63.0
    estimator = nesbs.Estimator(run.supernet(), run.data.search_valid, batch_size=run.recipe.search.batch_size)
    log_probs = estimator.log_probs(list(space))
    for kind in ("nll", "error", "brier"):
        scores = getattr(nesbs.metrics, kind)(log_probs, estimator.split.labels)
        expected = spearmanr(-scores, [accuracy for _, accuracy in rows]).statistic
        [ranking] = found["rankings"]["loss" if kind == "nll" else kind]
        assert ranking["spearman"]["value"] == pytest.approx(expected)


def test_under_label_noise_the_evidence_is_ranked_too(tmp_path, capsys):
    work = tiny(tmp_path / "run", changes=["posterior.noise=0.3"])
    work.selection()
    table = tmp_path / "table.csv"
    rows = [(str(a), 50 + i) for i, a in enumerate(toy_edges())]
    with table.open("w", newline="") as opened:
        csv.writer(opened).writerows([("architecture", "accuracy"), *rows])
    assert call("quality", work.folder, "--table", table, "--column", "accuracy") == 0
    assert "evidence, 27 alone" in capsys.readouterr().out
    estimator = nesbs.Estimator(work.supernet(), work.data.search_valid, batch_size=work.recipe.search.batch_size)
    losses = nesbs.metrics.nll(estimator.log_probs(list(toy_edges())), estimator.split.labels, noise=0.3)
    expected = spearmanr(-losses, [accuracy for _, accuracy in rows]).statistic
    found = files.read_json(work.folder / "quality.json")["table"]["rankings"]["evidence"]
    assert found[0]["spearman"]["value"] == pytest.approx(expected)


def test_with_a_reference_the_standing_is_ranked_too(tmp_path):
    changes = ["posterior.reference=9", "posterior.untrained=1", "posterior.starts=2", "posterior.steps=2"]
    work = tiny(tmp_path / "run", changes=changes)
    everything, settings = list(toy_edges()), work.recipe.posterior
    table = tmp_path / "table.csv"
    with table.open("w", newline="") as opened:
        csv.writer(opened).writerows(
            [("architecture", "accuracy"), *((str(a), 50 + i) for i, a in enumerate(everything))]
        )
    [found] = measure_quality(work, table=str(table), column="accuracy").to_json()["rankings"]["evidence"]
    size = (work.recipe.members.cells, work.recipe.members.channels)
    ranks = reference_ranks(toy_edges(), work.data.search_valid, settings, seed=work.recipe.seed, members=size)
    estimator = nesbs.Estimator(work.supernet(), work.data.search_valid, batch_size=work.recipe.search.batch_size)
    likely, others = (
        -nesbs.metrics.nll(estimator.log_probs(some), estimator.split.labels) for some in (everything, ranks.reference)
    )
    expected = spearmanr(ranks.of(likely, others, everything), range(27)).statistic
    assert found["spearman"]["value"] == pytest.approx(expected)
    trained = measure_quality(work, architectures=4, candidates=8, epochs=1, sizes=(1, 2)).to_json()
    assert [one["size"] for one in trained["rankings"]["evidence"]] == [1, 2]


def test_test_images_are_left_alone_where_the_recipe_asks_for_it(tmp_path, capsys):
    changes = ["members.images=search_train", "evaluation.images=search_valid"]
    work = tiny(tmp_path / "run", changes=[*changes, "data.test_limit=30"])
    work.supernet()
    found = measure_quality(work, architectures=4, candidates=8, epochs=1, sizes=(1,)).to_json()
    assert found["truth"]["images"] == len(work.data.search_train)
    assert found["truth"]["measured_on"] == len(work.data.search_valid) != len(work.data.test)
    assert call("quality", work.folder, "--architectures", 4, "--candidates", 8, "--epochs", 1) == 0
    assert "held-out training images" in capsys.readouterr().out


def test_an_untrained_supernet_is_found_out(tmp_path):
    work = tiny(tmp_path / "run", changes=["supernet.learning_rate=1e-12"])
    work.supernet()
    found = measure_quality(work, architectures=4, candidates=8, epochs=1, sizes=(1,)).to_json()
    assert found["verdict"].startswith("Do not trust this search: the supernet predicts no better than chance")


@pytest.mark.parametrize(
    ("content", "column", "message"),
    [
        ("a,b\n1,2\n", "b", "needs a column architecture, found a, b"),
        ("", "b", "needs a column architecture, found nothing"),
        ("architecture,accuracy\nx,.1\ny,.2\nz,.3\nw,.4\n", "accuracy", "must hold per cent, found shares"),
        ("architecture,accuracy\nx,10\ny,20\nz,30\nx,40\n", "accuracy", "lists an architecture more than once: x"),
        ("\ufeffarchitecture,accuracy\nx,10\ny,20\nz,30\nw,40\n", "accuracy", "line 2: 'x' has 1 nodes"),
        ("architecture,accuracy\n", "accuracy", "four accuracies or more"),
        ("architecture,accuracy\nx,1\n", "acuracy", "--column acuracy: did you mean accuracy"),
        ("architecture,accuracy\nx,high\n", "accuracy", "line 2: column accuracy must hold accuracies in per cent"),
        ("architecture,a,b\nx,1,2\ny,3\n", "a", "line 3: 3 fields are needed"),
        ("architecture,accuracy\nx,9\ny,9\nz,9\nw,9\n", "accuracy", "is 9 in every row: there is nothing to rank"),
        ("architecture,accuracy\nx,101\nx,2\nx,3\nx,4\n", "accuracy", "between 0 and 100"),
    ],
)
def test_a_wrong_table_is_refused(run, content, column, message, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text(content)
    with pytest.raises(NesbsError, match=message):
        measure_quality(run, table=str(table), column=column)


def test_nonsense_is_refused(run, tmp_path, capsys):
    assert call("quality", tmp_path / "nowhere") == 2
    assert call("quality", run.folder, "--sizes", "one") == 2
    assert "--sizes takes whole numbers with commas between them, found 'one'" in capsys.readouterr().err
    with pytest.raises(NesbsError, match="only .* different ones were drawn: raise --candidates"):
        measure_quality(run, architectures=10, candidates=4)
    for wrong, message in (
        ({"sizes": (0, 3)}, "sizes: input should be greater than or equal to 1, found 0"),
        ({"architectures": 4, "sizes": (7,)}, "ensembles of 4 architectures can have up to 2 members"),
        ({"column": "acc"}, "column goes with table"),
        ({"table": "x.csv", "column": "acc", "epochs": 3}, "epochs have no effect with table"),
    ):
        with pytest.raises(NesbsError, match=message):
            measure_quality(run, **wrong)
    given = tiny(tmp_path / "given", changes=["ensemble.architectures=['|nor_conv_3x3~0|+|none~0|skip_connect~1|']"])
    with pytest.raises(NesbsError, match="was given its architectures: it has no supernet to judge"):
        measure_quality(given)
