"""Training without a search: deep ensembles, single networks, cells moved to another data set."""

import pytest

from nesbs import files
from nesbs.cli import main
from nesbs.errors import NesbsError
from nesbs.records import RunRecords
from nesbs.report import render
from nesbs.runs.recipe import load_recipe, training_recipe
from nesbs.runs.resumable_run import Run
from nesbs.runs.without_search import training_without_search
from nesbs.spaces import darts, nasbench201, zoo

ONE = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|nor_conv_1x1~2|"
TWO = "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|avg_pool_3x3~2|"
TINY = ["data.train_limit=60", "data.test_limit=40", "members.batch_size=16"]


def quietly(*words, ending=0):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    assert ended.value.code == ending


@pytest.mark.parametrize(
    ("space", "data", "source"),
    [
        ("darts", "imagenet", "imagenet-darts"),
        ("darts", "cifar100", "cifar100-darts"),
        ("darts", None, "cifar10-darts"),
        ("nasbench201", "imagenet16-120", "imagenet16-120-nasbench201"),
        ("nasbench201", None, "cifar10-nasbench201"),
        ("nasbench201", "fashion-mini", "cifar10-nasbench201"),  # no network of its own
    ],
)
def test_a_data_set_brings_its_own_network(space, data, source):
    text = "darts-v2" if space == "darts" else ONE
    recipe, wanted = training_recipe([text], space=space, data=data, size=2), load_recipe(source)
    assert recipe.members == wanted.members
    assert recipe.data.name == (data or wanted.data.name)
    assert recipe.ensemble.size == 2
    assert recipe.ensemble.architectures == (text,)


def test_cells_keep_their_runs_network_where_the_data_set_has_none():
    like = load_recipe("demo", seed=7)
    recipe = training_recipe([ONE, TWO], space="nasbench201", data="/somewhere/photos", like=like)
    assert (recipe.members, recipe.seed, recipe.data.name) == (like.members, 7, "/somewhere/photos")
    assert (recipe.ensemble.size, recipe.evaluation.uniform) == (2, False)
    moved = training_recipe([ONE], space="nasbench201", data="cifar100", like=like)
    assert moved.members == load_recipe("cifar100-nasbench201").members


def test_a_deep_ensemble_is_one_architecture_trained_several_times(tmp_path):
    recipe, folder = training_without_search(None, zoo_name="darts-v2", size=2, recipe="toy", changes=TINY)
    assert str(folder) == "nesbs-darts-v2"
    run = Run.create(tmp_path / "run", recipe)
    ensemble = run.ensemble()
    assert ensemble.architectures == (zoo["darts-v2"],) * 2
    one, two = ensemble.predict(run.data.test)
    assert not (one == two).all()
    assert run.selection().sampler == "given"
    sizes = run.record.to_json()["stages"]["members"]
    with_widths = darts().network(zoo["darts-v2"], in_channels=1, channels=4, cells=3)
    assert sizes["parameters"] == [sum(p.numel() for p in with_widths.parameters())] * 2
    assert sizes["channels"] == [4, 4]
    assert all(cost > 0 for cost in sizes["multiply_adds"])
    scores = run.scores().to_json()
    assert not (run.folder / "posterior.json").exists()
    page = render(RunRecords.read(run.folder))
    assert "given, not searched" in page
    assert "Missing from this run" not in page
    assert scores["ensemble"]["architectures"] == [str(zoo["darts-v2"])] * 2


def test_a_cell_from_outside_the_space_is_trained_and_drawn(tmp_path):
    recipe, _ = training_without_search(
        None, zoo_name="enas-script", recipe="toy", changes=[*TINY, "members.auxiliary=0.4"]
    )
    run = Run.create(tmp_path / "run", recipe)
    ensemble = run.ensemble()
    assert Run.open(run.folder).ensemble().architectures == ensemble.architectures == (zoo["enas-script"],)
    run.scores()
    page = render(RunRecords.read(run.folder))
    assert page.count('data-edge="1→2" data-operation="sep_conv_3x3"') == 2  # one input, twice the same operation


def test_the_command_trains_measures_and_moves_cells(tmp_path, capsys):
    run, moved = tmp_path / "run", tmp_path / "moved"
    sets = [word for change in TINY for word in ("--set", change)]
    quietly(
        "train", "--architecture", ONE, "--architecture", TWO, "--recipe", "toy", "--out", run, *sets, "--device", "cpu"
    )
    said = capsys.readouterr().out
    assert "member 2: 4 channels, " in said
    assert f"nesbs evaluate {run}" in said
    quietly("evaluate", run, "--quiet")
    quietly("train", run, "--data", "fashion-mini", "--out", moved, "--set", "data.train_limit=40", "--quiet")
    assert files.read_json(moved / "selection.json")["architectures"] == [ONE, TWO]
    assert files.read_json(moved / "record.json")["data"]["train_images"] == 40
    before = (moved / "members" / "0.safetensors").read_bytes()
    quietly("train", moved)  # a run like any other: nothing left to do
    assert (moved / "members" / "0.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to train: name a RUN, or give --zoo NAME or --architecture TEXT"),
        (["--zoo", "darts-v9"], "no cell darts-v9 in the zoo: did you mean darts-v"),
        (["--zoo", "darts-v2", "--architecture", ONE], "name one of RUN, --zoo and --architecture"),
        (["--architecture", "|nor_conv~0|"], "nodes joined by"),
        (["--zoo", "robnet-free", "--recipe", "toy"], "the network has 20 different cells: set members.cells=20"),
        (["--architecture", "nonsense"], "no cell nonsense in the zoo"),
        (["--architecture", "normal=[(1)]"], "is not a list of"),
        (
            ["--architecture", ONE, "--architecture", TWO, "--size", "3"],
            "--size 3 goes with one --architecture, found 2",
        ),
        (["--data", "fashion-mini"], "name one of RUN, --zoo and --architecture"),
        (["nowhere", "--data", "fashion-mini"], "nowhere is not a run"),
        (["nowhere", "--size", "3"], "--size has no effect on the members of a run"),
        (["nowhere", "--set", "members.epochs=1"], "--set has no effect on the members of a run"),
    ],
)
def test_nonsense_is_refused(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quietly("train", *words, ending=2)
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_settings_that_do_not_go_together_are_refused(tmp_path):
    def start(*changes, text="darts-v2", **more):
        recipe, _ = training_without_search(None, zoo_name=text, recipe="toy", changes=[*TINY, *changes], **more)
        return Run.create(tmp_path / "run", recipe)

    with pytest.raises(NesbsError, match="architectures: .*|one architecture, or as many as size"):
        start("ensemble.size=3", "ensemble.architectures=[darts-v1, darts-v2]")
    with pytest.raises(NesbsError, match=r"set channels or multiply_adds, not both"):
        start("members.multiply_adds=1000000")
    with pytest.raises(NesbsError, match="members.stem=imagenet takes images whose sides are multiples of 32"):
        start("members.stem=imagenet")
    with pytest.raises(NesbsError, match="darts-v2 is a cell of space darts, not of nasbench201"):
        start("space.name=nasbench201")
    with pytest.raises(NesbsError, match="members.multiply_adds=10 is too few"):
        start("members.channels=null", "members.multiply_adds=10")
    assert not (tmp_path / "run").exists()


def test_members_can_leave_the_held_out_images_alone(tmp_path):
    recipe = load_recipe("toy", [*TINY, "members.images=search_train", f"ensemble.architectures=['{ONE}']"])
    run = Run.create(tmp_path / "run", recipe)
    assert len(run.train_images) == len(run.data.search_train) < len(run.data.train)
    run.ensemble()


def test_a_search_of_given_architectures_says_so(tmp_path, capsys, monkeypatch):
    sets = [word for change in TINY for word in ("--set", change)]
    given = ["--set", f"ensemble.architectures=['{ONE}']", "--set", "ensemble.size=1"]
    quietly("search", "toy", "--out", tmp_path / "run", *sets, *given)
    assert "given, not searched; no member is chosen twice" in capsys.readouterr().out
    quietly("train", tmp_path / "run", "--quiet")
    (tmp_path / "run" / "record.json").unlink()
    quietly("train", tmp_path / "run")  # sizes are no longer known; nothing else is lost
    monkeypatch.chdir(tmp_path / "run")
    quietly("train", ".", "--data", "fashion-mini", "--set", "data.train_limit=40", "--quiet")
    assert (tmp_path / "run-fashion-mini" / "members").is_dir()


def test_one_network_alone_is_called_so(tmp_path, capsys):
    run = tmp_path / "run"
    sets = [word for change in TINY for word in ("--set", change)]
    quietly("train", "--architecture", ONE, "--recipe", "toy", "--out", run, *sets, "--quiet")
    quietly("evaluate", run)
    said = capsys.readouterr().out
    assert "the network" in said
    assert "best member" not in said
    page = render(RunRecords.read(run))
    assert "The one network has a test error of" in page
    assert "its best single member" not in page


def test_the_widest_network_is_chosen_for_each_member(tmp_path):
    pooled = TWO.replace("nor_conv_3x3", "avg_pool_3x3")
    changes = [
        "members.channels=null",
        "members.multiply_adds=6000000",
        f"ensemble.architectures=['{ONE}', '{pooled}']",
    ]
    run = Run.create(tmp_path / "run", load_recipe("toy", [*TINY, *changes]))
    run.ensemble()
    sizes = run.record.to_json()["stages"]["members"]
    assert all(cost < 6_000_000 for cost in sizes["multiply_adds"])
    widths = dict(zip((ONE, pooled), sizes["channels"], strict=True))
    assert widths[pooled] > widths[ONE]  # pooling costs nothing
    assert run.space.name == nasbench201().name
