"""The pages of docs/: what they say to type runs, tables and pictures are those of the records, the site builds."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from html.parser import HTMLParser
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, stdev

import findings
import numpy as np
import pytest
import tables
import torch
import yaml
from compare import test_method_contract
from documents import (
    FENCE,
    ROOT,
    at_toy_size,
    check_mention,
    code,
    commands,
    folder_of_images,
    mentions,
    run_command,
    table,
)
from samplers import test_ensembles
from spaces import test_contract
from toys import call

from benchmarks.joined import joined
from nesbs.compare import METHODS, Candidates
from nesbs.deploy import load
from nesbs.evaluation import paired
from nesbs.evaluation.comparing import Difference
from nesbs.evaluation.ranking import Interval, Ranking, fisher_interval, rank, verdict
from nesbs.posterior import Posterior
from nesbs.records import RunRecord
from nesbs.records.recipe import flatten
from nesbs.reproduce import NAMES, experiment
from nesbs.reproduce.cost import experiment_cost
from nesbs.reproduce.spec import paper_figures
from nesbs.rivals import RivalSettings
from nesbs.runs import load_recipe
from nesbs.runs.recipe import recipe_names, recipe_text
from nesbs.runs.step_times import StepTimes
from nesbs.samplers import NoEnsembleError, SvgdRd
from nesbs.spaces import SPACES, nasbench201

sys.path.insert(0, str(ROOT / "docs"))
import draw
import examples

DOCS = ROOT / "docs"
PAGES = {path.stem: path.read_text() for path in sorted(DOCS.glob("*.md"))}
NOTES = "results/ranking/README"  # the laboratory notes: no page of the site
TEXTS = {**PAGES, **{name: (ROOT / f"{name}.md").read_text() for name in ("README", "CONTRIBUTING", NOTES)}}

ENSEMBLE = ROOT / "results" / "cifar10-ensemble"  # trained networks, to be tried


@pytest.fixture
def place(page, tmp_path, monkeypatch):
    """A folder to work in, with what the pages speak of, and everything at toy size."""
    monkeypatch.chdir(tmp_path)
    folder_of_images(tmp_path / "FOLDER")
    for name in ("people.npz", "cifar10h.npz"):
        np.savez(tmp_path / name, counts=np.ones((40, 10)))
    at_toy_size(monkeypatch, converts=page == "own-images")  # where the file is used
    known = [(registry, dict(registry)) for registry in (SPACES, METHODS)]
    yield tmp_path
    for registry, before in known:
        registry.clear()
        registry.update(before)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(PAGES[page]) or code(PAGES[page])])
def test_what_a_page_tells_its_reader_to_type_runs(page, place):
    """All commands of a page in their order, then all its code, in one folder: each finds what came before."""
    names = {"runs/demo-SEED": "runs/demo-0", "SEED": "0", "data.root=DATA": "data.root=null", "all": "fog,jpeg"}
    names |= {str(ENSEMBLE.relative_to(ROOT)): str(ENSEMBLE), "photo.jpg": "FOLDER/cat/1.png"}
    names |= {"NAME": "fig-delta"} if page == "reproduce" else {}  # the quickest
    here = dict.fromkeys(("data.name=cifar10", "data.name=tinyimagenet16_120.npz"), "data.name=fashion-mini")
    here |= {"data.rare_classes=[cat,truck]": "data.rare_classes=[bag,coat]", "cifar10": "fashion-mini", "DATA": "."}
    names |= here if page in ("results", "measure") else {}
    for command in commands(PAGES[page]):
        run_command(command, names)
    space = {}
    for block in code(PAGES[page]):
        exec(compile(block, f"{page}.md", "exec"), space)
    check = CHECKS.get(page)
    if check is not None:
        check(space)


@pytest.mark.parametrize("page", TEXTS)
def test_commands_inside_sentences_exist(page):
    for command in mentions(TEXTS[page]):
        check_mention(command)


@pytest.mark.parametrize(
    "command",
    [
        "nesbs rum demo",
        "nesbs recipes --key",
        "make dinner",
        "pip install 'nesbs[all]'",
        "python -m benchmarks --fast",
        "ls",
    ],
)
def test_a_command_that_does_not_exist_is_found_out(command):
    with pytest.raises((AssertionError, SystemExit)):
        run_command(command, {})


def check_space(space):
    """The space written on the page passes what every space must."""
    make = space["ChainSpace"]
    assert len(make()) == 27
    random = torch.Generator().manual_seed(0)
    test_contract.test_text_and_indices_round_trip(make, random)
    test_contract.test_length_equals_a_count_by_brute_force(make)
    test_contract.test_members_and_supernet_give_logits_at_every_legal_size(make, random)
    test_contract.test_one_path_equals_the_mixture_with_its_gates(make, random)
    test_contract.test_many_paths_at_once_are_the_paths_one_by_one(make, False, random)
    for name in ("pools", "chain"):
        asked = f"--set space.name={name} --set rivals.judge=supernet --set rivals.pool=4 --methods nes-rs"
        run_command(f"nesbs run demo --out runs/{name}-run --set space.name={name}", {})
        run_command(f"nesbs compare demo --out runs/{name}-compare {asked}", {})
        run_command(f"nesbs curves demo --out runs/{name}-curves {asked} --budgets 2,4", {})


def check_sampler(space):
    """The sampler written on the page passes what every sampler must, and its members differ most."""
    sampler, make = space["FarApart"], SPACES["toy-edges"]
    test_ensembles.test_proposals_are_legal_and_reproducible(sampler(), make)
    test_ensembles.test_an_ensemble_larger_than_the_space_is_refused(sampler())
    with pytest.raises(NoEnsembleError, match="fewer than 2 different architectures in 500 draws"):
        sampler(draws=5).propose(
            test_ensembles.peaked(make()), size=2, rounds=1, generator=torch.Generator().manual_seed(0)
        )
    whole = sampler(draws=2000)  # sees all 27 architectures of the toy space: two of them can differ in every decision
    [proposal] = whole.propose(Posterior(make()), size=3, rounds=1, generator=torch.Generator().manual_seed(0))
    rows = make().encode_all(proposal.architectures)
    assert all(bool((rows[i] != rows[j]).all()) for i in range(3) for j in range(i))


def check_rival(space):
    """The rival written on the page takes the best, one by one, whatever they are together."""
    pool = list(SPACES["toy-edges"]())[:6]
    losses = dict(zip(pool, (5.0, 1.0, 4.0, 2.0, 3.0, 6.0), strict=True))

    def score(ensembles):
        return torch.tensor([max(losses[member] for member in ensemble) for ensemble in ensembles])

    candidates = Candidates(pool, 2, score, SPACES["toy-edges"](), RivalSettings(), 0)
    found = space["top"](candidates)
    assert found.architectures == (pool[1], pool[3])
    assert found.loss == 2.0
    assert "| top " in space["table"]
    assert "| top " in space["curve"]
    # The commands ran three seeds where the code above them ran one.
    for name in ("comparison", "curves"):
        assert "| top " in Path(f"runs/top/{name}.md").read_text()
        assert len(json.loads(Path(f"runs/top/{name}.json").read_text())["seeds"]) == 3
    test_method_contract.check_method(METHODS["top"], Path("contract"))
    # The one of another kind pays for the search that it draws from, and for its own work.
    seconds = RunRecord.read(Path("runs/likely/seed-0/record.json")).seconds
    [paid] = json.loads(Path("runs/likely/comparison.json").read_text())["methods"]["likely"]["seeds"]
    assert paid["search_seconds"] == pytest.approx(seconds("supernet", "posterior", "rival likely"), abs=1e-3)


def check_delta(space):
    """Greater δ, more different log densities: what the page says."""
    spread = list(space["spread"].values())
    assert spread == sorted(spread)
    assert spread[0] == pytest.approx(0, abs=1e-3)


def check_names(_):
    """The page lists what can be reproduced, no more and no less."""
    listed = re.findall(r"^\| `((?:table|fig)\S+)` ", PAGES["reproduce"], re.M)
    assert tuple(listed) == NAMES


def check_answers(space):
    """The commands and the code of the page give one answer."""
    answers = json.loads(Path("answers.json").read_text())
    classes = ["cat", "dog", "птица"]
    assert (len(answers["images"]), answers["unread"]) == (36, [])
    assert {entry["file"]: entry["label"] for entry in answers["images"]}["FOLDER/птица/1.png"] in classes
    assert space["class_names"] == classes == list(space["classifier"].class_names)
    assert len(Path("answers.csv").read_text().splitlines()) == 37
    dogs = [entry["top"][0]["probability"] for entry in answers["images"] if entry["file"] in space["files"]]
    assert space["probabilities"].max(-1).values.tolist() == pytest.approx(dogs, abs=1e-5)
    assert len(load("runs/small").members(space["files"])) == 1
    # The first program, where there is neither torch nor nesbs, gives the same.
    hidden = "import sys; sys.modules.update(torch=None, nesbs=None)\n"
    program = [sys.executable, "-W", "error", "-c", hidden + code(PAGES["own-images"])[0]]
    lines = subprocess.run(program, capture_output=True, text=True, check=True).stdout.splitlines()
    labels = space["classifier"].predict(space["files"])
    assert [line.split()[0] for line in lines] == labels
    expected = space["probabilities"].max(-1).values.tolist()  # in the order of the program's files
    assert [float(line.split()[1]) for line in lines] == pytest.approx(expected, abs=1e-4)


CHECKS = {
    "own-images": check_answers,
    "add-a-space": check_space,
    "add-a-sampler": check_sampler,
    "add-a-rival": check_rival,
    "how-it-works": check_delta,
    "reproduce": check_names,
}


TABLES = {  # of a page by name, and what makes it of records
    ("results", "cifar10"): lambda: tables.compared(tables.read("cifar10-table", "comparison.json")),
    ("results", "five"): lambda: tables.compared(tables.read("cifar10-table", "five", "comparison.json")),
    ("results", "cifar10 verdicts"): lambda: tables.beyond_chance(tables.read("cifar10-table", "comparison.json")),
    ("results", "five verdicts"): lambda: tables.beyond_chance(tables.read("cifar10-table", "five", "comparison.json")),
    ("results", "headline verdicts"): lambda: tables.beyond_chance(tables.read("cifar10-headline", "comparison.json")),
    ("results", "left out"): tables.left_out,
    ("results", "paper's method"): partial(findings.in_lines, findings.of_the_papers_method),
    ("results", "seed by seed"): findings.seed_by_seed,
    ("results", "its depth"): partial(findings.in_lines, findings.of_its_depth),
    ("results", "headline"): lambda: tables.compared(tables.read("cifar10-headline", "comparison.json"), 200),
    ("results", "demo"): tables.demo,
    ("results", "benchmark"): tables.benchmark,
    ("results", "demo-darts"): lambda: tables.one_run("demo-darts"),
    ("results", "minutes"): lambda: tables.one_run("cifar10-nasbench201-minutes"),
    ("results", "beyond"): tables.beyond,
    ("results", "shifted"): tables.shifted,
    ("results", "attacked"): tables.attacked,
    ("results", "demo-compared"): tables.demo_compared,
    ("results", "elsewhere"): tables.elsewhere,
    ("results", "parts"): tables.parts,
    ("results", "robust"): tables.robust,
    ("reproduce", "measured"): tables.measured,
    ("reproduce", "findings"): findings.in_short,
    **{("reproduce", name): partial(tables.reproduced, name) for name in tables.experiments()},
    **{("reproduce", f"{name} found"): partial(findings.in_lines, words) for name, words in findings.FINDINGS.items()},
    ("speed", "speed"): tables.speed,
    ("speed", "arm"): tables.arm,
    ("speed", "fast and plain"): tables.fast_and_plain,
    ("cluster", "cluster speed"): tables.cluster_speed,
    ("cost", "cost"): tables.cost,
    ("cost", "reckoned"): tables.reckoned,
    ("ranking", "ranking"): tables.ranking,
    (NOTES, "ranking"): tables.ranking,
    (NOTES, "stand-in"): lambda: tables.ranking("tiny-imagenet"),
    (NOTES, "paper"): tables.beside_the_papers,
    (NOTES, "levers"): tables.levers,
    (NOTES, "around"): tables.around,
    (NOTES, "responses"): tables.responses,
    (NOTES, "DARTS"): lambda: tables.correlations("quality-darts", papers=True),
    ("ranking", "demo"): lambda: tables.correlations("demo-quality", papers=False),
    (NOTES, "estimators"): tables.estimators,
    (NOTES, "estimators on the benchmark"): tables.estimators_on_the_benchmark,
    ("choosing", "samplers"): tables.samplers,
    ("choosing", "judges"): tables.judges,
    ("choosing", "further judges"): lambda: tables.judges("further.json"),
    ("choosing", "apart"): tables.apart,
    ("choosing", "chosen"): tables.chosen_ensembles,
    ("attack", "attacks"): tables.attacks,
    ("compare", "curves"): lambda: tables.curves("curves-forward", (5, 10, 20, 50, 100)),
    ("compare", "curves by rounds"): lambda: tables.curves("curves", (5, 10, 20, 50, 100)),
}


@pytest.mark.parametrize(("page", "name"), TABLES)
def test_a_pages_figures_are_those_of_the_records(page, name):
    assert table(TEXTS[page], name) == TABLES[page, name](), "write it again: PYTHONPATH=. python tests/test_docs.py"


@pytest.mark.parametrize(
    ("differences", "said"),
    [
        ([(1, 0.5, 2)], "borne out"),
        ([(1, 0.5, 2), (1, -1, 3)], "borne out in part"),
        ([(1, 0.5, 2), (-0.1, -1, 1)], "open"),  # not all have the paper's sign
        ([(1, -1, 3)], "open"),
        ([(-1, -3, 1), (-1, -2, -0.5)], "contradicted in part"),
        ([(-1, -2, -0.5)], "contradicted"),
    ],
)
def test_a_finding_is_judged_by_the_rule_of_the_page(differences, said):
    assert findings.verdict([Difference(*one) for one in differences]) == said


@pytest.mark.parametrize("name", tables.experiments())
def test_what_was_reproduced_has_its_section(name):
    """A record of scale `hour`, and on the page its table, its picture where it is a figure, and what we conclude."""
    record = tables.experiments()[name]
    assert (record.asked.name, record.asked.scale, record.complete) == (name, "hour", True)
    section = re.search(rf"^### `{name}`: \S.*?(?=^##)", PAGES["reproduce"], re.M | re.S)
    assert section, f"no section {name}: PYTHONPATH=. python tests/test_docs.py begins one"
    assert f"<!-- {name} table -->" in section[0]
    by_hand = re.sub(rf"<!-- {name} table -->.*?<!-- end -->", "", section[0], flags=re.S)
    assert re.search("borne out|contradicted|open", by_hand), "say whether the paper's finding is borne out"
    if name.startswith("fig-"):
        assert re.search(rf"!\[[^]]{{30,}}\]\(pictures/{name}\.svg\)", by_hand)
        assert (DOCS / "pictures" / f"{name}.svg").stat().st_size < 150_000


def test_what_the_small_darts_recipe_says_of_itself_is_in_the_records():
    header = " ".join(recipe_text("cifar10-darts-minutes").replace("#", " ").split())
    trained = tables.experiments()["table2"].parts["CIFAR-10"].methods
    errors = [over_seeds(trained[name], "error") for name in ("nesbs", "nesbs-mc", "nes-rs")]
    assert "test error of {} % by SVGD-RD, {} by Monte Carlo; NES-RS has {} (three seeds".format(*errors) in header
    ours = [row.training_seconds / len(row.architectures) for name in ("nesbs", "nesbs-mc") for row in trained[name]]
    assert f"a member {min(ours):.0f} to {max(ours):.0f} s, the mean of three, six trained at a time" in header
    searched = [row.search_seconds for name in ("nesbs", "nesbs-mc") for row in trained[name]]
    assert f"a search {min(searched):.0f} to {max(searched):.0f} s, one or two at a time" in header
    assert (
        f"search of a seed takes {min(searched):.0f} to {max(searched):.0f} s, seeds side by side, and a member "
        f"{min(ours):.0f} to {max(ours):.0f} s, six at a time" in words("reproduce")
    )
    posteriors = tables.experiments()["fig-discrepancy"].parts["CIFAR-10"].posteriors
    likeliest = [over_seeds(posteriors[name], "mode") for name in ("post-training", "best-response")]
    assert "{} % for the posterior's likeliest, {} with the best-response posterior".format(*likeliest) in header


def test_what_the_small_imagenet_recipe_says_of_itself_is_in_the_records():
    header = " ".join(recipe_text("imagenet-darts-minutes").replace("#", " ").split())
    [row] = tables.experiments()["table3"].parts["ImageNet"].methods["single:darts-v2"]
    assert f"of an H200 {row.training_seconds:.0f} s for darts-v2" in header
    assert f"a top-1 error of {100 * row.error:.2f} %, top-5 {100 * row.top5_error:.2f} (one seed" in header


def over_seeds(rows, measure):
    """The mean of a figure over seeds and its standard error, in per cent."""
    values = [100 * getattr(row, measure) for row in rows]
    return f"{fmean(values):.2f} ± {stdev(values) / len(values) ** 0.5:.2f}"


def test_every_name_is_measured():
    assert tuple(tables.experiments()) == NAMES


def test_what_was_made_twice_is_the_same_but_for_seconds():
    """Those whose first records are kept; the page says what most of them took each time."""

    def without_seconds(part, where=()):
        if isinstance(part, dict | list):
            for key, value in part.items() if isinstance(part, dict) else enumerate(part):
                yield from without_seconds(value, (*where, str(key)))
        elif not where[-1].endswith("seconds"):  # and a minus is a minus, however it was written
            yield where, part.replace("−", "-") if isinstance(part, str) else part

    kept = {path.parent.name for path in tables.REPRODUCED.glob("*/first.json")}
    assert kept == set(NAMES) - {"table3", "table4", "fig-delta"}
    took = {}
    for name in kept:
        both = [tables.read("reproduce", name, f"{file}.json") for file in ("first", "record")]
        took[name] = [f"{one['seconds'] / 60:.1f}" for one in both]
        first, again = (dict(without_seconds(one)) for one in both)
        assert first.keys() == again.keys()
        other = {where: (value, again[where]) for where, value in first.items() if value != again[where]}
        assert all(name == "fig-diversity" and "nll" in where for where in other)
        assert all(abs(one - two) < 5e-9 for one, two in other.values())
    said = words("reproduce")
    for name, told in (
        ("table7", "Table 7 took {} beside Table 2 and {} alone"),
        ("table6", "Table 6 {} and {}, Table 1"),
        ("table1", "Table 1 {} and {}, Figure 3"),
        ("fig-tradeoff", "Figure 3 {} and {}, Figures 4 to 7"),
    ):
        assert told.format(*took[name]) in said
    beside, alone = zip(
        *(took[f"fig-{name}"] for name in ("discrepancy", "efficiency", "temperature", "diversity")), strict=True
    )
    assert (
        "{}, {}, {} and {} beside three searches and ".format(*beside) + "{}, {}, {} and {} alone".format(*alone)
        in said
    )


def test_what_table_1_takes_from_nothing_is_what_the_command_says():
    [alone] = experiment_cost(experiment("table1"), "hour", StepTimes.recorded(), [1]).schedules
    assert f"in all {alone.seconds / 60:.0f} minutes by `nesbs cost table1" in words("reproduce")


def test_only_what_can_be_reproduced_is_kept_as_such():
    assert {path.name for path in tables.REPRODUCED.iterdir()} == tables.experiments().keys()


def test_kept_records_name_no_folder_of_a_machine():
    kept = [path for kind in ("*.json", "*.yaml") for path in tables.RESULTS.rglob(kind)]
    assert [path for path in kept if re.search(r"[\s\"'](/tmp|/home|/root|/mnt|/Users)/", path.read_text())] == []


def test_a_kept_record_is_drawn_again(tmp_path):
    """What the page says of `--draw` and the records."""
    shutil.copytree(tables.REPRODUCED / "fig-delta", tmp_path / "hour" / "fig-delta")
    assert call("reproduce", "fig-delta", "--scale", "hour", "--draw", "--out", tmp_path, "--quiet") == 0
    drawn = (tmp_path / "hour" / "fig-delta" / "fig-delta.md").read_text()
    assert table(PAGES["reproduce"], "fig-delta").split("\n\n")[0] in drawn


def test_the_clusters_of_the_page_can_be_read():
    """KubeRay's schema is not at hand: what it requires is written down here."""
    script, manifest = (
        next(body for language, body in FENCE.findall(PAGES["cluster"]) if word in body and language == kind)
        for kind, word in (("bash", "#SBATCH"), ("yaml", "RayCluster"))
    )
    cluster = yaml.safe_load(manifest)
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    assert cluster["metadata"]["name"]
    head, workers = cluster["spec"]["headGroupSpec"], cluster["spec"]["workerGroupSpecs"]
    assert all(group["groupName"] and group["replicas"] >= 1 for group in workers)
    containers = [one for group in (head, *workers) for one in group["template"]["spec"]["containers"]]
    assert len({one["name"] for one in containers}) == len(containers) == 1 + len(workers)
    assert len({one["image"] for one in containers}) == 1  # the same versions everywhere
    for one in containers:
        assert {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"} in one["env"]
        assert all(isinstance(limit, str) for limit in one["resources"]["limits"].values())
    subprocess.run(["bash", "-n", "-c", script], check=True)
    check_mention(re.search(r"nesbs compare .*", script)[0])
    by_hand = re.findall(r"ray start ((?:[^\n]|\\\n)*)", PAGES["cluster"])
    asked = {word for line in by_hand for word in re.findall(r"--[\w-]+", line)}
    assert {"--head", "--address"} <= asked
    asked |= {f"--{name}" for group in (head, *workers) for name in group["rayStartParams"]}
    if (ray := find_spec("ray")) is not None:  # looked at, not imported, which takes seconds
        text = (Path(ray.origin).parent / "scripts" / "scripts.py").read_text()
        assert [option for option in asked if f'"{option}"' not in text] == []


def test_what_is_said_of_two_workers_is_in_the_record():
    one, two = tables.read("cluster", "speed.json")["pool"]
    assert two["seconds"] / one["seconds"] <= 0.6  # what was wanted of them
    assert f"Two workers took {two['seconds'] / one['seconds']:.2f} of the time of one" in words("cluster")


def test_what_the_demo_does_not_beat_is_told():
    methods = tables.read("demo-compared", "comparison.json")["methods"]
    error, nll = ({name: one["mean"][measure]["mean"] for name, one in methods.items()} for measure in ("error", "nll"))
    said, per_cent = words("README"), {name: f"{100 * value:.2f}" for name, value in error.items()}
    assert f"NLL than random ensembles, {nll['nesbs']:.4f} against {nll['random']:.4f}" in said
    assert f"its error, {per_cent['nesbs']} %, was not told apart from theirs ({per_cent['random']})" in said
    assert f"NES-RS ({per_cent['nes-rs']}), a deep ensemble ({per_cent['likeliest']})" in said
    assert f"or an unjudged draw ({per_cent['drawn']})" in said
    verdicts = {name: one["difference"]["error"]["verdict"] for name, one in methods.items() if one["difference"]}
    assert set(verdicts.values()) == {None}
    assert methods["random"]["difference"]["nll"]["low"] > 0


def test_what_a_shorter_demo_loses_is_told():
    record = tables.read("demo-compared", "shorter.json")
    found = {one["settings"]: one["seeds"] for one in record["variants"]}
    half, nine = "supernet.epochs=15 posterior.starts=1", " members.epochs=9"
    names = [half, half + nine, half + nine + " members.learning_rate=0.1 members.warm_up=1"]
    means = [[fmean(seed[key] for seed in found[name]) for key in ("error", "nll")] for name in names]
    means.append([fmean(seed[key] for seed in record["before"]["seeds"]) for key in ("error", "nll")])
    whole = tables.read("demo-compared", "comparison.json")["methods"]["nesbs"]["mean"]
    means.append([whole[key]["mean"] for key in ("error", "nll")])
    shorter, nine_epochs, at_twice, before, longer = [(f"{100 * error:.2f}", f"{nll:.4f}") for error, nll in means]
    said = words("results")
    assert "lost nothing that five seeds show: error {} %, NLL {}.".format(*shorter) in said
    assert "has {} and {} above on the same machine, and had {} and {} on another".format(*longer, *before) in said
    short, others = (
        {key: np.array([seed[key] for seed in found[name]]) for key in ("error", "nll")} for name in names[1:]
    )
    twelve = {key: np.array([seed[key] for seed in found[half]]) for key in ("error", "nll")}
    lost = tables.interval(short["nll"], twelve["nll"])
    assert "lost by NLL: {} % and {} (NLL {:+.4f}, {:.4f} to {:.4f})".format(*nine_epochs, *lost) in said
    unclear = tables.interval(100 * short["error"], 100 * twelve["error"])
    told = "by error ({:+.2f}, {:.2f} to {:+.2f}), and at twice the learning rate".format(*unclear).replace(" -", " −")
    assert f"{told} ({at_twice[0]} % and {at_twice[1]}), they are not told apart" in said
    assert all(low < 0 < high for _, low, high in (tables.interval(others[key], twelve[key]) for key in others))
    for column in zip(*means, strict=True):
        assert sorted(column) == [column[3], column[0], column[4], column[2], column[1]]


def test_the_results_page_has_the_means_of_the_demo():
    assert tables.demo_in_words() in words("results")
    assert tables.demo_wins() in words("results")
    ours, chance = ([[row[kind][key] for row in tables.demo_metrics().values()] for key in ("error", "nll")]
                    for kind in ("ensemble", "uniform"))  # fmt: skip
    error, nll = (tables.interval(np.array(other), np.array(own)) for own, other in zip(ours, chance, strict=True))
    told = "{:.2f} points of error less ({:.2f} to {:.2f}), ".format(*(100 * value for value in error))
    assert told + "{:.4f} of NLL ({:.4f} to {:.4f})".format(*nll) in words("results")
    told = "{:.2f} points less ({:.2f} to {:.2f}), ".format(*(100 * value for value in error))
    assert told + "NLL {:.4f} less ({:.4f} to {:.4f})".format(*nll) in words("README")


NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"


@pytest.mark.parametrize("name", draw.PICTURES)
def test_a_picture_is_what_its_records_give(name):
    kept, made = (DOCS / "pictures" / name).read_text(), draw.drawn(name)
    # A cell has the colours of the report's page, which may change without making the picture wrong.
    kept, made = (re.sub(r"<style>.*?</style>", "", text, flags=re.S) for text in (kept, made))
    if name.startswith("fig-"):  # matplotlib's: another processor may round a place otherwise, and so name a path
        kept, made = (re.sub(r'(id="|#)\w+', "", text) for text in (kept, made))
        places = [[float(number) for number in re.findall(NUMBER, text)] for text in (kept, made)]
        assert places[0] == pytest.approx(places[1], abs=0.01), "draw it again: python docs/draw.py"
        kept, made = (re.sub(NUMBER, "", text) for text in (kept, made))
    assert kept == made, "draw it again: python docs/draw.py"


def words(page):
    return re.sub(r"\n *", " ", TEXTS[page])


BUDGETS = (5, 10, 20, 30, 40, 50, 60, 80, 100)


def test_how_much_members_differ_is_the_curves_record():
    three, five = (tables.differences("curves-forward", size, 100) for size in (3, 5))
    said = words("compare")
    assert f"differ in {three['nesbs']:.0f} % (of three) or {five['nesbs']:.0f} % (of five)" in said
    assert f"two that NES-RS chose in {five['nes-rs']:.0f} to {three['nes-rs']:.0f} %" in said


def test_what_the_compare_page_says_of_the_curves_is_in_the_record():
    def gap(*which):
        return tables.gap("curves-forward", *which)

    def interval(*which):
        mean, half = gap(*which)
        return abs(mean), *sorted(abs(mean + side * half) for side in (-1, 1))

    def apart(one, other):  # where they differ beyond chance, and who is ahead
        found = {(size, budget): gap(one, other, size, budget) for size in (3, 5) for budget in BUDGETS}
        return {where: mean < 0 for where, (mean, half) in found.items() if abs(mean) > half}

    page = words("compare")
    pair = "{:.2f} points for ensembles of five ({:.2f} to {:.2f})"
    assert "below NES-RE at 5, by " + pair.format(*interval("nesbs-mc", "nes-re", 5, 5)) in page
    short = "{:.2f} ({:.2f} to {:.2f}"
    assert "below NES-RS at 10, by " + short.format(*interval("nesbs-mc", "nes-rs", 5, 10)) in page
    assert "NES-RE at 60, by " + short.format(*interval("nesbs-mc", "nes-re", 5, 60)) in page
    assert apart("nesbs-mc", "nes-re") == {(3, 5): True, (5, 5): True, (5, 60): False}
    assert apart("nesbs-mc", "nes-rs") == {(5, 10): True}
    assert apart("nesbs", "nes-rs") == {(3, budget): False for budget in (40, 50, 60, 80, 100)}
    behind = {where: lower for where, lower in apart("nesbs", "nesbs-mc").items() if not lower}
    assert behind == {(3, budget): False for budget in (30, 40, 50, 60, 80, 100)}
    losses = [gap("nesbs", "nesbs-mc", *where)[0] for where in behind]
    assert f"from a budget of 30 on (by {min(losses):.2f} to {max(losses):.2f} points)" in page
    assert {where: lower for where, lower in apart("nesbs", "nesbs-mc").items() if lower} == {(5, 20): True}
    assert "where they are better by {:.2f} ({:.2f} to {:.2f})".format(*interval("nesbs", "nesbs-mc", 5, 20)) in page
    lost = {(3, 50): False, (3, 100): False}  # to NES-RE; ahead of it at the smallest budget alone
    assert apart("nesbs", "nes-re") == {(3, 5): True, (5, 5): True} | lost
    three, five = (interval("nes-rs", "urs", size, 100) for size in (3, 5))
    assert "worth {:.2f} points ({:.2f} to {:.2f}) for ensembles of three".format(*three) in page
    assert "{:.2f} ({:.2f} to {:.2f}) for ensembles of five".format(*five) in page
    seconds = tables.read("curves-forward", "curves.json")["seconds"]
    points = [one["points"] for one in seconds]
    assert f"it took {seconds[0]['posterior']:.0f} s beside other work" in page
    assert f"of every method {min(points):.0f} to {max(points):.0f} s." in page
    before = [tables.gap("curves", "nesbs", "nes-re", 5, budget) for budget in BUDGETS]
    assert [mean > half for mean, half in before] == [False] * 3 + [True] * 6


def test_speed_costs_no_ranking():
    def higher(trained):
        fast, plain = (tables.by_path(tables.PATHS[trained][path]) for path in ("fast", "plain"))
        return {kind: fmean(fast[kind]) - fmean(plain[kind]) for kind in fast}

    mixed, one = higher("mixed"), higher("one path")
    assert max(map(abs, mixed.values())) <= 0.02
    said = words("speed")
    assert f"by loss the fast path's mean is {mixed['loss']:.3f} higher, by accuracy {mixed['error']:.3f}" in said
    assert f"by Brier score {mixed['brier']:.3f}." in said
    assert f"it is {-one['loss']:.3f} lower by loss and {one['error']:.3f} higher by accuracy" in said


def test_the_posterior_of_a_quicker_search_ranks_as_earlier_ones_do():
    space = nasbench201()
    with (ROOT / "tests" / "nasbench201_sample.csv").open() as rows:
        table = {row["architecture"]: float(row["valid_acc_cifar10"]) for row in csv.DictReader(rows)}
    accuracies = torch.tensor(list(table.values()))
    architectures = [space.parse(text) for text in table]

    def quality(path):
        log_p = Posterior.from_json(json.loads(path.read_text())).log_prob(architectures)
        return float(log_p.softmax(0) @ accuracies)

    weighed = [quality(path) for path in sorted((ROOT / "results" / "searches").glob("*/posterior.json"))]
    said = words("speed")
    assert len(weighed) == 10
    assert f"(`results/searches`) to {min(weighed):.1f} to {max(weighed):.1f} %." in said
    three = tables.read("benchmarks", "h200-whole-three.json")["rows"]
    assert "took {:.0f}, {:.0f} and {:.0f} s".format(*(row["seconds"] for row in three)) in said
    ranking = [row["ranking"] for row in three]
    orders = [row["evidence"]["spearman"]["value"] for row in ranking]
    assert "a Spearman of {:.2f}, {:.2f} and {:.2f} with the accuracies".format(*orders) in said
    expected = [row["posterior"]["expected"] for row in ranking]
    assert "weigh these to {:.1f}, {:.1f} and {:.1f} %".format(*expected) in said
    [alone] = tables.read("benchmarks", "h200-whole.json")["rows"]
    assert three[0]["chosen"] == alone["chosen"]


def test_the_seconds_of_whole_searches_are_those_of_the_records():
    [whole] = tables.read("benchmarks", "h200-whole.json")["rows"]
    stages = {name: f"{seconds:.0f}" for name, seconds in whole["stages"].items()}
    alone = f"the recipe's supernet took {stages['supernet']} s and its posterior {stages['posterior']} "
    assert alone in words(NOTES)
    said = words("speed")
    assert f"{whole['seconds']:.0f} s, of which the supernet took {stages['supernet']}" in said
    assert f"the posterior {stages['posterior']}, and choosing {whole['stages']['selection']:.1f}." in said
    [warm] = tables.read("benchmarks", "h200-whole-warm.json")["rows"]
    assert f"on disk it is {warm['seconds']:.0f} s" in said
    assert warm["chosen"] == whole["chosen"]
    [untrained] = tables.read("benchmarks", "h200-whole-darts-untrained.json")["rows"]
    parts = "the supernet {:.0f}, the posterior {:.0f}, choosing {:.0f}.".format(*untrained["stages"].values())
    assert f"it is {untrained['seconds']:.0f} s (`cifar10-darts`, `h200-whole-darts-untrained.json`): {parts}" in said
    ranked = tables.read("cifar10-darts-untrained", "quality.json")["table"]["rankings"]
    evidence, loss = (ranked[name][0]["spearman"] for name in ("evidence", "loss"))
    assert "Spearman is {value:.2f}, 95 % interval {low:.2f} to {high:.2f}, and that".format(**evidence) in said
    assert f"alone {loss['value']:.2f} (−{-loss['low']:.2f} to {loss['high']:.2f};" in said
    before = tables.read("quality-darts", "supernets.json")["rankings"]
    names = ("recipe: loss, share + 3 × untrained (0)", "recipe: loss (0)")
    assert "after 50 it was {:.2f} and {:.2f}".format(*(before[name]["spearman"]["value"] for name in names)) in said
    [fair] = tables.read("benchmarks", "h200-whole-fair.json")["rows"]
    assert f"the whole search took {fair['seconds']:.0f} s" in said
    [darts] = tables.read("benchmarks", "h200-whole-darts.json")["rows"]
    stages = darts["stages"]
    judging = stages["selection"] + stages["selection by Monte Carlo"]
    parts = f"supernet took {stages['supernet']:.0f}, the posterior {stages['posterior']:.0f}, judging {judging:.0f} "
    assert f"{darts['seconds']:.0f} s, of which the {parts}" in said
    gpu, cpu = (
        [row["seconds"] for row in tables.read("benchmarks", f"{name}-svgd.json")["results"]]
        for name in ("h200", "cpu")
    )
    assert f"{gpu[0]:.2f} s on NAS-Bench-201's relaxation, {gpu[1]:.2f} s on that of DARTS" in said
    assert f"(torch 2.13.0) {cpu[0]:.1f} s and {cpu[1]:.1f} s" in said
    one, three, compiled, _ = tables.read("benchmarks", "h200-members.json")["results"]
    assert f"in one step take {three['seconds'] / one['seconds']:.1f} times as long as one" in said
    busy, busy_three = (1e3 * row["kernel_seconds"] for row in (one, three))
    assert f"One member's kernels take {busy:.1f} ms, those of three {busy_three:.1f};" in said
    least, least_three = (1e3 * row["cells_by_bytes_seconds"] for row in (one, three))
    assert f"memory would take {least:.2f} and {least_three:.2f} ms" in said
    products = sum(row["longest"][name] for row in (one, three) for name in ("convolve", "pull", "weigh"))
    assert 0.5 < products / (one["kernel_seconds"] + three["kernel_seconds"]) < 0.6  # over half
    assert (
        f"one after the other took {one['prepare_seconds']:.0f} s, once; `torch.compile` takes "
        f"{compiled['prepare_seconds']:.0f} s" in said
    )
    tried = tables.read("benchmarks", "h200-tried.json")
    joint, _, darts_member = (row["prepare_seconds"] for row in tried["members"])
    assert f"Side by side, as now, they take {joint:.0f} s, those of a DARTS member {darts_member:.0f}" in said
    recorded, plain = (1e3 * row["seconds"] for row in tried["mixture"])
    assert f"{recorded:.0f} ms instead of {plain:.0f}" in said
    steps = {row["name"]: row for row in tables.read("benchmarks", "h200.json")["results"]}
    compiled = steps["member, DARTS, 20 cells, 36 channels, batch 96"]
    assert f"A DARTS member took {1e3 * compiled['seconds']:.1f} ms by `torch.compile`" in said
    paper = steps["supernet, DARTS, 8 cells, 16 channels, K=2, batch 128"]
    small = steps["supernet, NAS-Bench-201, N=1, one, float32"]
    assert f"{paper['prepare_seconds']:.0f} s for DARTS, {small['prepare_seconds']:.0f} s for NAS-Bench-201" in said
    assert f"take {1e3 * paper['kernel_seconds']:.1f} ms of its {1e3 * paper['seconds']:.1f} ms" in said


def test_what_is_said_of_cifar10_is_in_the_record():
    record, said = tables.read("cifar10-table", "comparison.json"), words("results")
    means = {name: row["mean"] for name, row in record["methods"].items()}
    shown = [means[name] for name in ("nesbs", "likeliest", "nes-rs", "random")]
    alone = [100 * mean["member_error"]["mean"] for mean in shown]
    assert "an error of {:.2f}, {:.2f}, {:.2f} and {:.2f} % in the mean".format(*alone) in said
    seeds = {name: [seed["scores"] for seed in row["seeds"]] for name, row in record["methods"].items()}
    gains = [
        paired(*([100 * one[key] for one in seeds[name]] for key in ("member_error", "error")))
        for name in ("nesbs", "likeliest", "nes-rs", "random")
    ]
    told = [f"{one.mean:.1f} ({one.low:.1f} to {one.high:.1f}" for one in gains]
    assert "gains {} over seeds), {}), {}) and {}) points".format(*told) in said
    ours, rival, oracle = means["nesbs"], means["likeliest"], means["oracle"]
    assert f"best, tripled, is {100 * (ours['error']['mean'] - oracle['error']['mean']):.2f} points better" in said
    gap = record["methods"]["oracle"]["difference"]["error"]
    assert f"({-100 * gap['low']:.2f} better to {100 * gap['high']:.2f} worse)" in said
    assert abs(ours["disagreement"]["mean"] - rival["disagreement"]["mean"]) < 0.0005
    behind = {
        name: [f"{100 * row['difference']['error'][key]:.1f}" for key in ("mean", "low", "high")]
        for name, row in record["methods"].items()
        if name in ("deep", "nes-rs", "urs", "random")
    }
    assert "an error {} points higher ({} to {} over seeds)".format(*behind["deep"]) in said
    assert "NES-RS {} ({} to {})".format(*behind["nes-rs"]) in said
    assert "URS {} ({} to {})".format(*behind["urs"]) in said
    assert "one {} points higher ({} to {})".format(*behind["random"]) in said
    rivals = ("deep", "nes-rs", "nes-re", "urs")
    assert min(rivals, key=lambda name: means[name]["error"]["mean"]) == "deep"  # "the best of them"
    apart_from_ours = {name: 100 * record["methods"][name]["difference"]["error"]["mean"] for name in rivals}
    assert (min(apart_from_ours, key=apart_from_ours.get), max(apart_from_ours, key=apart_from_ours.get)) == (
        "deep",
        "urs",
    )
    least, most = ("{} ({} to {}".format(*behind[name]) for name in ("deep", "urs"))
    assert f"by {least.replace(' (', ' points (')}, 95 % interval over five seeds) to {most})" in said
    readme = words("README")
    both = (*behind["nes-rs"], *behind["random"])
    assert "{} ({} to {}) and {} ({} to {}) points more than ours".format(*both) in readme
    full = tables.read("cifar10-headline", "comparison.json")["methods"]["nesbs"]["seeds"]
    assert (
        "an error of {:.2f} and {:.2f} % (two seeds).".format(*(100 * seed["scores"]["error"] for seed in full)) in said
    )
    errors = {name: [seed["scores"]["error"] for seed in row["seeds"]] for name, row in record["methods"].items()}

    def apart(one, two):
        found = paired(errors[one], errors[two])
        return [100 * value for value in (found.mean, found.low, found.high)]

    assert "by {:.1f} points ({:.1f} to {:.1f} over seeds)".format(*apart("snapshot", "single-best")) in said
    dropped = "({:+.2f}, {:.2f} to {:+.2f})".format(*apart("mc-droppath", "single-best"))
    assert dropped.replace("-", "−") in said
    behind_copies = "{:+.2f} points ({:.2f} to {:+.2f})".format(*apart("nes-rs", "deep"))
    assert behind_copies.replace("-", "−") in said
    spent = {
        name: [seed["search_seconds"] for seed in record["methods"][name]["seeds"]]
        for name in ("nesbs", "nesbs-mc", "nes-rs", "nes-re", "urs", "deep")
    }
    own, others = spent.pop("nesbs") + spent.pop("nesbs-mc"), [seconds for each in spent.values() for seconds in each]
    ranges = f"{min(others):.0f} to {max(others):.0f}, ours {min(own):.0f} to {max(own):.0f}"
    assert f"as many seconds as our search: {ranges}" in said
    sizes = [record["methods"][name]["cost"]["multiply_adds"]["mean"] / 1e6 for name in ("nesbs", "nes-rs", "oracle")]
    assert "{:.0f} million multiply-adds an image, NES-RS's choice {:.0f}".format(*sizes) in said
    larger = paired(*([seed["multiply_adds"] / 1e6 for seed in record["methods"][name]["seeds"]]
                      for name in ("nesbs", "nes-rs")))  # fmt: skip
    assert f"so {larger.mean:.0f} more ({larger.low:.0f} to {larger.high:.0f} over seeds)" in said
    assert f"the benchmark's best has {sizes[2]:.0f}; with equal sizes" in said
    slowest = max(record["methods"]["random"]["seeds"], key=lambda seed: seed["training_seconds"])
    assert f"of seed {slowest['seed']} ({slowest['training_seconds']:.0f} s)" in said
    nll = [[seed["scores"]["nll"] for seed in record["methods"][name]["seeds"]] for name in ("likeliest", "nesbs")]
    assert sum(one < two for one, two in zip(*nll, strict=True)) == 4
    assert "ahead under four of the five seeds" in said
    costs = [
        [seed["multiply_adds"] / 1e6 for seed in record["methods"][name]["seeds"]] for name in ("likeliest", "nesbs")
    ]
    more = paired(*costs)
    assert f"{more.mean:.0f} million multiply-adds an image more than ours, a fifth" in said
    assert more.mean / fmean(costs[1]) == pytest.approx(1 / 5, abs=0.01)
    assert f"(95 % interval over seeds: {more.low:.0f} to {more.high:.0f} million)" in said
    [warm] = tables.read("benchmarks", "h200-whole-warm.json")["rows"]
    assert f"compiled before, it takes {warm['seconds']:.0f} s" in said


def percent(found):
    return {key: 100 * value for key, value in found.items()}


def test_what_is_said_of_the_attacked_ensemble_is_in_the_record():
    found = tables.read("cifar10-headline", "shift", "attacks.json")["ensemble"]["attacks"]["pgd"]
    right = found["clean"]["ensemble"]
    assert 0.45 < found["defence"] / right < 0.6  # "half of its right answers"
    assert found["adaptive"]["attack"] / right < 0.1  # "next to none"


def test_what_is_said_of_data_nobody_tuned_on_is_in_the_records():
    """The sides of all intervals, by error and by NLL: over seeds, and over images."""
    sides, took = {}, {"ours": [], "theirs": [], "training": []}
    for folder in tables.ELSEWHERE:
        record = tables.read("demo-elsewhere", folder, "comparison.json")
        for name, row in record["methods"].items():
            took["training"] += [seed["training_seconds"] for seed in row["seeds"]]
            if name in ("nesbs", "deep", "urs"):
                took["ours" if name == "nesbs" else "theirs"] += [seed["search_seconds"] for seed in row["seeds"]]
        for measure in ("error", "nll"):
            found = [tuple(map(tables._side, pair)) for pair in tables._apart(record, measure)]
            sides[folder, measure] = dict(zip(list(record["methods"])[1:], found, strict=True))
    spans = {name: f"{min(seconds):.0f} to {max(seconds):.0f} s" for name, seconds in took.items()}
    said = words("results")
    assert f"trained for two epochs, in {spans['theirs']}, our search in {spans['ours']};" in said
    assert f"an ensemble's training {spans['training']}." in said
    same, lost, over_images = (0, 0), (1, 1), (0, 1)
    assert sides == {
        ("few-labels", "error"): {"deep": same, "urs": over_images, "likeliest": over_images, "random": same},
        ("few-labels", "nll"): {"deep": same, "urs": over_images, "likeliest": over_images, "random": lost},
        ("rare-classes", "error"): dict.fromkeys(("deep", "urs", "likeliest", "random"), same),
        ("rare-classes", "nll"): dict.fromkeys(("deep", "urs", "likeliest", "random"), (0, -1)),
        ("tiny-imagenet", "error"): {"deep": same, "urs": over_images, "likeliest": same, "random": same},
        ("tiny-imagenet", "nll"): {"deep": over_images, "urs": over_images, "likeliest": (-1, -1), "random": same},
    }


def test_what_is_said_of_the_parts_is_in_the_record():
    """The sides of all intervals, over seeds and over images; and every row's settings are the recipe's."""
    record = tables.read("demo-parts", "comparison.json")
    sides = {
        (name, measure): tuple(map(tables._side, pair))
        for measure in ("error", "nll")
        for name, pair in zip(list(record["methods"])[1:], tables._apart(record, measure), strict=True)
    }
    assert {key: found for key, found in sides.items() if found != (0, 0)} == {
        ("likelihood", "error"): (1, 1),
        ("likelihood", "nll"): (1, 1),
        ("untrained", "error"): (1, 0),
    }
    rows, said = record["methods"], words("results")
    for name, where in (
        ("likelihood", "With the likelihood alone"),
        ("untrained", "without the untrained networks alone"),
    ):
        more = 100 * rows[name]["difference"]["error"]["mean"]
        assert f"{where} the error is {more:.2f} points higher" in said
    chosen = {name: [set(seed["architectures"]) for seed in row["seeds"]] for name, row in rows.items()}
    same = [
        sum(map(set.__eq__, chosen[one], chosen[other])) for one, other in (("starts", "nesbs"), ("delta0", "delta1"))
    ]
    assert same == [3, 2]  # "under three of the five seeds", "under two"
    assert (round(len(sides) / 20), len(sides)) == (1, 16)  # "about one of the sixteen"
    differences = [row["difference"]["error"] for name, row in rows.items() if name != "nesbs"]
    wide = sorted(50 * (each["high"] - each["low"]) for each in differences)
    assert f"Those of the error reach {wide[0]:.2f} to {wide[-1]:.2f} points to either side" in said
    for figure, what in (
        ("search_seconds", "A search took {:.0f} to {:.0f} s"),
        ("training_seconds", "{:.0f} to {:.0f} s."),
    ):
        seconds = sorted(seed[figure] for row in rows.values() for seed in row["seeds"])
        assert what.format(seconds[0], seconds[-1]) in said
    whole = load_recipe("demo")
    for _, settings in tables.PARTS.values():
        changes = [] if "`" in settings else settings.split()
        assert (load_recipe("demo", changes) == whole) == (not changes)


def test_what_is_left_out_can_be_asked_for():
    """The settings that the page names for it are the recipe's."""
    [section] = re.findall(r"### Left out so far\n(.*?)\n## ", PAGES["results"], re.S)
    asked = re.findall(r"`[^`]*?(--set\s[^`]*)`", section)
    assert len(asked) == 15
    for settings in asked:
        changes = [part.strip() for part in settings.split("--set")[1:]]
        recipe = "cifar10-nasbench201" + "-paper" * ("ensemble.size" in settings)
        assert load_recipe(recipe, changes) != load_recipe(recipe), settings


def test_what_is_said_of_fifty_candidates_is_in_the_record():
    rows, said = tables.read("cifar10-table", "comparison.json")["methods"], words("results")
    errors = {
        name: {seed["seed"]: 100 * seed["scores"]["error"] for seed in rows[name]["seeds"]}
        for name in ("nesbs", "nes-rs", "nes-rs-50")
    }
    many = errors["nes-rs-50"]
    few = fmean(errors["nes-rs"][seed] for seed in many)
    fewer = findings.less_error("nes-rs-50", "nes-rs")
    assert f"{fmean(many.values()):.2f} % instead of {few:.2f}, {fewer.replace(')', ' over images)')}" in said
    more = [error - errors["nesbs"][seed] for seed, error in many.items()]
    over_images = percent(rows["nes-rs-50"]["images"]["difference"]["error"])
    differences = "{:.2f} and {:.2f} points above ours, {mean:.2f} in the mean ({low:.2f} to {high:.2f} over images)"
    assert differences.format(*more, **over_images) in said
    (ours, _), (theirs, _) = (tables.seconds_alone(name, rows[name], 24) for name in ("nesbs", "nes-rs-50"))
    assert ours / theirs == pytest.approx(1 / 5, abs=0.02)  # "a fifth of their seconds"


def test_what_is_said_of_the_papers_method_above_its_paragraph_is_in_its_records():
    said, rows = words("results"), tables.read("cifar10-table", "comparison.json")["methods"]
    one, drawn, five = (
        [100 * seed["scores"]["error"] for seed in rows[name]["seeds"]] for name in ("paper", "paper-mc", "paper-deep")
    )
    assert f"has an error of {fmean(one):.2f} %, by Monte Carlo of {fmean(drawn):.2f} % (four seeds)" in said
    more = [f"{round(100 * rows[name]['difference']['error'][key], 9):.2f}" for name in ("paper", "paper-mc")
            for key in ("mean", "low", "high")]  # fmt: skip
    assert "{} points ({} to {}) and {} ({} to {}) above ours under these seeds".format(*more) in said
    told = "the paper's method {:.2f} % (four seeds): {} ({} to {}) more than ours under".format(fmean(one), *more[:3])
    assert told in words("README")
    told = f"{min(five):.1f} to {max(five):.1f} % under five seeds"
    assert f"the error is {told}, above ours under each, and not told apart from three random" in said
    beside = re.fullmatch(r"(\S+ points) \((\S+ to \S+)\)", findings.more_than_random())
    assert f"three random architectures ({beside[1]}, {beside[2]})" in said
    sizes = [{seed["seed"]: seed["multiply_adds"] / 1e6 for seed in rows[name]["seeds"]} for name in ("nesbs", "paper")]
    smaller = paired(*([size[seed] for seed in sizes[1]] for size in sizes))
    told = f"have {fmean(sizes[1].values()):.0f}, under the same seeds {smaller.mean:.0f} fewer than ours"
    assert f"{told} ({-smaller.low:.0f} more to {smaller.high:.0f} fewer)" in said
    (least, most), (lowest, highest) = ((min(orders), max(orders)) for orders in findings.orders_by_depth())
    orders = f"{least:.2f} to {most:.2f} (four seeds), of the second with {lowest:.2f} to {highest:.2f} (five)"
    for page in ("ranking", NOTES):
        assert orders.replace("-", "−") in words(page)
        assert findings.more_order_by_one_cell() in words(page)
    header = " ".join(recipe_text("cifar10-nasbench201-paper").replace("#", " ").split())
    assert load_recipe("cifar10-nasbench201-paper").supernet.cells == 1
    took = tables.search_seconds("cifar10-table/paper/seed-*")
    assert f"the search took {min(took):.0f} to {max(took):.0f} s (results/cifar10-table/paper)" in header
    accuracies = findings.chosen_accuracies("paper/seed-*")
    assert f"{min(accuracies):.1f} to {max(accuracies):.1f} % in the mean under four seeds by the benchmark's" in header
    assert f"an error of {min(one):.1f} to {max(one):.1f} % with members of 24 epochs" in header


def test_what_is_said_of_seconds_alone_is_in_the_records():
    """The paper's method by one cell was measured with nothing beside it, from the search to the trained members."""
    said, rows = words("results"), tables.read("cifar10-table", "comparison.json")["methods"]
    whole = [seed for name in ("paper", "paper-mc") for seed in rows[name]["seeds"]]
    searched, trained = ([seed[key] for seed in whole] for key in ("search_seconds", "training_seconds"))
    _, reckoned = tables.seconds_alone("paper", rows["paper"], 24)
    assert f"its searches took {min(searched):.0f} to {max(searched):.0f} s" in said
    assert f"three members {min(trained):.0f} to {max(trained):.0f} s, where {reckoned:.0f} are reckoned" in said
    deep = ("cifar10-table", "paper", "five-cells", "seed-32")
    stages = tables.read(*deep, "record.json")["stages"]
    twice = tables.read(*deep, "rivals", "nesbs-mc.json")["search_seconds"]
    alone = twice - sum(stages[name]["seconds"] for name in ("supernet", "posterior", "rival nesbs-mc"))
    supernet = tables.papers_supernet_alone()
    assert f"(the supernet, reckoned at {supernet:.0f} s, took {alone:.0f} s alone where its kernels" in said


def test_what_is_said_of_five_members_is_in_the_record():
    """Two seeds: intervals are over images."""
    record, said = tables.read("cifar10-table", "five", "comparison.json"), words("results")
    rows = record["methods"]
    apart = {name: row["images"]["difference"] for name, row in rows.items() if name != "nesbs-5"}
    behind = {name: percent(found["error"]) for name, found in apart.items() if found["error"]["low"] > 0}
    assert behind.keys() == rows.keys() - {"nesbs-5", "nesbs", "nesbs-mc-5", "likeliest-5", "oracle-5"}
    least, next_one, *_ = sorted(behind, key=lambda name: behind[name]["mean"])
    assert {least, next_one} == {"deep-5", "nes-re-5"}
    ends = [[round(behind[name][end], 9) for end in ("low", "high")] for name in ("deep-5", "nes-re-5")]
    told = [f"{low:.2f} to {high:.2f}" for low, high in ends]
    assert f"{behind[least]['mean']:.2f}" == f"{behind[next_one]['mean']:.2f}"
    assert f"NES-RE by {behind[least]['mean']:.2f} points ({' and '.join(told)} over images)" in said
    errors = [100 * seed["scores"]["error"] for name in ("paper-deep-5", "paper-deep-mc-5", "random-5")
              for seed in rows[name]["seeds"]]  # fmt: skip
    told = (
        "the paper's method has {:.2f} and {:.2f} %, by Monte Carlo {:.2f} and {:.2f} %, random ensembles {:.2f} and "
    )
    assert (told + "{:.2f} %.").format(*errors) in said
    three, copies = apart["nesbs"], apart["likeliest-5"]["nll"]
    assert "by {mean:.4f} ({low:.4f} to {high:.4f} over images); by error".format(**three["nll"]) in said
    told = "(three {mean:+.2f} points, {low:+.2f} to {high:+.2f})".format(**percent(three["error"]))
    assert told.replace("-", "−") in said
    told = "an NLL {:.4f} lower ({:.4f} lower to {:.4f} higher)".format(-copies["mean"], -copies["low"], copies["high"])
    assert told in said
    told = "(two seeds): by error {mean:+.2f} points ({low:+.2f} to {high:+.2f} over images)"
    assert told.format(**percent(apart["likeliest-5"]["error"])).replace("-", "−") in said
    assert all([seed["seed"] for seed in row["seeds"]] == [31, 32] for row in rows.values())
    with_three = tables.read("cifar10-table", "comparison.json")["methods"]
    found = [100 * seed["scores"]["error"] for name in ("nes-rs", "nes-re", "urs") for one in
             (rows[f"{name}-5"], with_three[name]) for seed in one["seeds"][:2]]  # fmt: skip
    told = (
        "{:.2f} and {:.2f} % with five, {:.2f} and {:.2f} with three; perhaps nine random candidates hold too few good "
        "ones. NES-RE, whose later candidates are children of its better ones, has {:.2f} and {:.2f} %, and {:.2f} and "
        "{:.2f}. URS has {:.2f} and {:.2f}, and {:.2f} and {:.2f}: with five"
    )
    assert told.format(*found) in said
    trained = [seed["training_seconds"] for seed in rows["likeliest-5"]["seeds"]]
    assert "beside the likeliest ({1:.0f} s, under seed 31 {0:.0f} s)".format(*trained) in said
    candidates = [[seed["evaluations"] for seed in rows[f"{name}-5"]["seeds"]] for name in ("urs", "nes-rs")]
    assert candidates == [[5, 5], [9, 9]]


def test_what_is_said_of_the_recipe_in_full_is_in_the_record():
    record, said = tables.read("cifar10-headline", "comparison.json"), words("results")
    rows = record["methods"]
    ours = [100 * seed["scores"]["error"] for seed in rows["nesbs"]["seeds"]]
    assert "**Three members: {:.2f} and {:.2f} %**".format(*ours) in said
    header = resources.files("nesbs").joinpath("recipes", "cifar10-nasbench201.yaml").read_text()
    five, oracle = (100 * rows[name]["mean"]["error"]["mean"] for name in ("nesbs-5", "oracle"))
    assert "{:.2f} and {:.2f} % under two seeds, five networks {:.2f} % under one".format(*ours, five) in header
    papers = paper_figures("table1").rows
    monte_carlo, svgd, deep = (
        papers[name]["CIFAR-10"] for name in ("NESBS (MC Sampling)", "NESBS (SVGD-RD)", "DeepEns")
    )
    assert f"The paper reports {monte_carlo} % by Monte Carlo, {svgd} % by SVGD-RD and {deep} % for its" in said
    gap = [-100 * rows["nesbs-5"]["images"]["difference"]["error"][key] for key in ("mean", "high", "low")]
    assert f"**Five members: {five:.2f} %**, one seed; " + "{:.2f} points better than the three".format(*gap) in said
    assert "({1:.2f} to {2:.2f} over images, for these networks)".format(*gap) in said
    cost = {name: row["seeds"][0]["multiply_adds"] for name, row in rows.items()}  # all of seed 31
    assert f"for {cost['nesbs-5'] / cost['nesbs']:.1f} times the multiply-adds" in said
    assert f"has {oracle:.2f} %, one seed, and is not told apart" in said
    alone = [100 * rows[name]["seeds"][0]["scores"]["member_error"] for name in ("nesbs", "nesbs-5", "oracle")]
    assert (
        "an error of {:.2f} % (three) and {:.2f} % (five) in the mean, the oracle's of {:.2f} %".format(*alone) in said
    )
    assert f"of the benchmark's best, {oracle:.2f} % (one seed), is as far below the paper's deep ensemble" in said
    three, many = (rows[name]["seeds"][0]["architectures"] for name in ("nesbs", "nesbs-5"))
    assert set(three) < set(many)
    found = [tables.read("cifar10-headline", *parts, "posterior.json") for parts in (["seed-31"], ["five", "seed-31"])]
    assert found[0] == found[1]


def test_the_ensemble_that_may_be_tried_is_the_records_and_answers_as_it():
    classifier, found = load(ENSEMBLE), tables.read("cifar10-headline", "half.json")
    assert ENSEMBLE.name in words("results")
    [ours, _] = tables.read("cifar10-headline", "comparison.json")["methods"]["nesbs"]["seeds"]
    assert [str(each) for each in classifier.ensemble.architectures] == ours["architectures"]
    assert classifier.held_out is not None
    assert found["error"]["run"] == pytest.approx(ours["scores"]["error"], abs=1e-9)
    assert found["nll"]["run"] == pytest.approx(ours["scores"]["nll"], abs=1e-4)
    assert found["same"] >= 0.999
    held = [path for path in ENSEMBLE.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in held) == found["bytes"] <= 8 * 2**20
    assert not [path for path in held if path.name in ("predictions.json", "report.html")]  # hold images of the data
    changed = round((1 - found["same"]) * found["images"])
    assert f"Rounding changes the answer to {changed} of the {found['images']:,} test images" in words("results")
    assert abs(found["nll"]["half"] - found["nll"]["run"]) < 0.00001  # as the page says
    assert f"({found['bytes'] / 2**20:.1f} MiB)" in words("results")


JOINED = {  # rows of a page's comparison by their folders and methods, of which `python -m benchmarks.joined` makes it
    "cifar10-table": {
        **dict.fromkeys(("nesbs", "nesbs-mc"), "seed-*"),
        "paper": "paper/seed-*:nesbs",
        "paper-mc": "paper/seed-*:nesbs-mc",
        "paper-deep": "paper/five-cells/seed-*:nesbs",
        "paper-deep-mc": "paper/five-cells/seed-*:nesbs-mc",
        "likeliest": "seed-*",
        "oracle": "oracle/seed-*:deep",
        **dict.fromkeys(("deep", "nes-rs"), "seed-*"),
        "nes-rs-50": "pool-50/seed-*:nes-rs",
        **dict.fromkeys(("nes-re", "urs", "random", "single-best", "mc-droppath", "snapshot"), "seed-*"),
    },
    "cifar10-table/five": {
        **{f"{name}-5": f"seed-*:{name}" for name in ("nesbs", "nesbs-mc")},
        "paper-deep-5": "paper/five-cells/seed-*:nesbs",
        "paper-deep-mc-5": "paper/five-cells/seed-*:nesbs-mc",
        "likeliest-5": "seed-*:likeliest",
        "oracle-5": "oracle/seed-*:deep",
        **{f"{name}-5": f"seed-*:{name}" for name in ("deep", "nes-rs", "nes-re", "urs", "random")},
        **{
            f"{name}-5": f"../seed-3[12]:{name}" for name in ("single-best", "mc-droppath")
        },  # one network, whatever n is
        "snapshot-5": "seed-*:snapshot",
        "nesbs": "../seed-3[12]",
    },
    "cifar10-headline": {"nesbs": "seed-*", "oracle": "seed-31:deep", "nesbs-5": "five/seed-*:nesbs"},
}


@pytest.mark.parametrize("name", JOINED)
def test_a_comparison_of_the_page_is_joined_from_its_seeds(name):
    kept = tables.read(name, "comparison.json")["methods"]
    rows = {row: where if ":" in where else f"{where}:{row}" for row, where in JOINED[name].items()}
    made = joined([f"{row}={ROOT / 'results' / name}/{where}" for row, where in rows.items()]).to_json()["methods"]
    assert list(made) == list(kept)
    assert [row.pop("seeds") for row in made.values()] == [row.pop("seeds") for row in kept.values()]
    (numbers, others), (kept_numbers, kept_others) = (by_kind(flatten(rows)) for rows in (made, kept))
    assert others == kept_others
    assert numbers == pytest.approx(kept_numbers, rel=1e-9, abs=1e-12)  # processors round sums otherwise


def by_kind(values):
    """Floats apart from everything else."""
    floats = {key: value for key, value in values.items() if isinstance(value, float)}
    return floats, {key: value for key, value in values.items() if key not in floats}


def test_what_is_said_of_our_kernels_accuracy_is_in_the_records():
    said = words("results")
    plain, ours = (tables.read("nasbench201", name, "metrics.json")["ensemble"] for name in ("best", "kernels"))
    assert ours["error"] == plain["error"]
    assert f"the same {100 * (1 - ours['error']):.2f} %" in said
    assert f"with an NLL of {ours['nll']:.4f} instead of {plain['nll']:.4f}" in said
    record = tables.read("quality-darts", "kernels.json")
    for how, words_of in (("ours", "by ours"), ("plain", "by torch's")):
        assert "{:.2f}, {:.2f} and {:.2f} % ".format(*record[how]["accuracy"]) + words_of in said


def test_the_notes_on_a_members_step_are_those_of_the_records():
    notes = (ROOT / "results" / "benchmarks" / "README.md").read_text()
    assert table(notes, "occupancy") == tables.occupancy()
    rows = [row for row in tables.read("benchmarks", "occupancy.json")["rows"] if row["cell"] == "DARTS"]
    warps = {name: [row["at_once"] for row in rows if row["kernel"] == name] for name in ("pull", "mix", "unmix")}
    assert warps == {"pull": [10, 10, 10], "mix": [8, 8, 8], "unmix": [28, 12, 20]}
    assert "10 of `pull`, which has 194 registers a thread, 8 of `mix`" in notes.replace("\n", " ")
    assert "28, 12 and 20 of `unmix`" in notes
    assert table(notes, "tiles") == tables.tiles()
    tried = tables.read("benchmarks", "h200-tried.json")
    step = {(row["tiles"], row["members"]): f"{1e3 * row['seconds']:.2f}" for row in tried["whole_step"]}
    best, today = "the best of each width", "today's"
    assert f"{step[best, 3]} ms instead of {step[today, 3]}" in notes.replace("\n", " ")
    assert f"one member's {step[best, 1]} instead of {step[today, 1]}" in notes.replace("\n", " ")
    for width, quickest in ((16, 128), (32, 128), (64, 64)):
        took = [(sum(row["microseconds"].values()), row) for row in tried["tiles"] if row["channels"] == width]
        _, row = min(took, key=lambda one: one[0])
        assert (row["pixels"], row["stages"]) == (quickest, 3)


def test_what_is_said_of_deltas_effect_is_in_the_record():
    rows = tables.read("reproduce", "fig-delta", "record.json")["gaussians"]["deltas"]
    densities = np.array([row["log_density"] for row in rows])  # (δ, seeds, particles)
    assert (np.diff(densities.std(-1).mean(-1)) > 0).all()
    assert densities[0].std(-1).max() < 0.01  # all on peaks
    fall = densities[0].mean() - densities[-1].mean()
    assert f"falls by {fall:.2f} nats, to {100 * np.exp(-fall):.0f} % of the density at the peaks" in words("reproduce")


def test_the_demos_seconds_are_those_of_the_record():
    record = tables.read("benchmarks", "cpu-demo.json")
    new, old, again = record["rows"]
    before, old_before = (row["seconds"] for row in record["earlier"]["rows"])
    range_of = f"{again['seconds']:.0f} to {before:.0f} s on two cores"
    assert range_of in words("README")
    assert range_of in resources.files("nesbs").joinpath("recipes", "demo.yaml").read_text()
    said = words("speed")
    assert f"(`results/benchmarks/cpu-demo.json`): {new['seconds']:.0f} s." in said
    assert f"took {old['seconds']:.0f} s right after it" in said
    assert f"an error of {100 * old['error']:.2f} % instead of {100 * new['error']:.2f}" in said
    assert f"and this one then {again['seconds']:.0f} s" in said
    assert f"the two took {before:.0f} s, with 200 steps of the posterior, and {old_before:.0f}." in said
    on_arm, old, later = tables.read("benchmarks", "cpu-arm-demo.json")["rows"]
    range_of = f"{on_arm['seconds']:.0f} to {later['seconds']:.0f} s on two of a"
    assert f"{range_of}n Arm Neoverse-N1" in words("README")
    assert f"{range_of} Neoverse-N1" in resources.files("nesbs").joinpath("recipes", "demo.yaml").read_text()
    assert f"it took {on_arm['seconds']:.0f} s, and the earlier version {old['seconds']:.0f} s forty minutes" in said
    assert f"it took {later['seconds']:.0f} s: small" in said
    assert f"(error {100 * later['error']:.2f} % instead of {100 * on_arm['error']:.2f})" in said


def _signed(found, between):
    """A difference and its interval as the pages write them."""
    mean, low, high = (f"{value:+.2f}".replace("-", "−") for value in found)
    return f"{mean} {between}{low} to {high}"


def test_what_the_page_on_choosing_says_is_in_the_records():
    record, said = tables.read("samplers", "samplers.json"), words("choosing")
    found = record["regression"]
    assert f"wrong by {found['error']:.2f} points (root mean square; rank correlation {found['spearman']:.3f})" in said
    assert f"by {found['error_best_tenth']:.2f} points in the best tenth" in said
    assert f"({found['spearman_best_tenth']:.3f})" in said
    held = sum(row["in_table"] for row in record["rows"]) / len(record["rows"])
    assert f"({100 * held:.0f} % of the members)" in said
    shown = [line.strip("| ").split(" | ") for line in table(TEXTS["choosing"], "judges").splitlines()[2:]]
    judged = {(line[0].strip("`"), line[1], line[2]): line for line in shown}
    drawn, by_loss = judged["nobody: all ensembles drawn", "–", "–"], judged["likelihood", "ensembles", "–"]
    one_by_one = judged["likelihood", "all members", "–"]
    assert f"{by_loss[3]} % where the candidates have {drawn[3]} %, and {one_by_one[3]} % member by member" in said
    told = {
        "`posterior` without the gain from `evidence`": ("judges",),
        "do: `posterior` is better by": ("further",),
    }
    first, others = (tables.judged_apart(files, "rounds", "posterior", "evidence") for files in told.values())
    assert f"from `evidence` ({_signed(first, 'points, ')})" in said
    assert "`posterior` is better by {:.2f} points ({:.2f} to {:.2f})".format(*others) in said
    nine = ("judges", "further")
    one, each = (tables.judged_apart(nine, way, "likelihood", None) for way in ("rounds", "forward"))
    assert f"Over all nine {_signed(one, 'points (')}) and {_signed(each, '(')}), not told apart" in said
    by_evidence = tables.judged_apart(nine, "rounds", "evidence", None)
    assert f"told apart from a draw**: {_signed(by_evidence, 'points over all nine (')})" in said
    ten, five = (tables.likeliest_apart(rounds, 0.35) for rounds in (10, 5))
    longer = _signed(tables.interval(ten, five), "points at `search.apart=0.35`, ")
    assert f"Ten rounds are not told apart from five ({longer})" in said
    svgd, drawn_at_once = tables.drawn_by("svgd-rd", 5.0, 0.0), tables.drawn_by("monte-carlo", None, None)
    better = _signed(tables.interval(svgd, drawn_at_once), "points (")
    assert f"over the five posteriors {better})" in said
    shown = [line.strip("| ").split(" | ") for line in table(TEXTS["choosing"], "further judges").splitlines()[2:]]
    judged = {(line[0].strip("`"), line[1]): line for line in shown}
    likely, alike = judged["posterior", "ensembles"], judged["posterior", "all members"]
    assert f"they differ on {likely[6]} % of the edges, and {alike[6]} % member by member" in said
    rows = [line.strip("| ").split(" | ") for line in table(TEXTS["choosing"], "apart").splitlines()[2:]]
    [taken] = [row for row in rows if row[0] == "10" and "0.35" in row[1]]
    better = taken[3].split()[0].removeprefix("+")
    assert f"members of {taken[2]} % that differ on {taken[5]} % of the edges" in said
    assert f"better than what is drawn by {better} points" in said
    tenth = {(row["chosen"], row.get("apart")): [] for row in tables.read("judges", "fresh.json")["rows"]}
    for row in tables.read("judges", "fresh.json")["rows"]:
        tenth[row["chosen"], row.get("apart")] += [row] if row["rounds"] == 10 else []
    found, drawn, plain = (
        f"{fmean(row['accuracy'] for row in tenth[kind]):.2f} %"
        for kind in (("posterior", 0.35), ("candidates", None), ("unjudged", None))
    )
    edges = f"{100 * fmean(row['differing'] for row in tenth['posterior', 0.35]):.0f} % of the edges"
    assert f"{found} at {edges}, where all that is drawn has {drawn} and the draws at δ = 0 have {plain}" in said
    errors = {name: tables.chosen_scores(name)[0].mean() for name in ("trained", "trained-command", "oracle")}
    script, command, oracle = (f"{errors[name]:.2f}" for name in ("trained", "trained-command", "oracle"))
    assert f"{script} against {oracle} % by the script, and {command} % by the command" in said
    differing, copies = (tables.chosen_scores(name)[0] for name in ("likeliest-apart", "likeliest"))
    costs_nothing = _signed(tables.interval(differing, copies), "points, ")
    assert f"not told apart ({costs_nothing})" in said
    trainings = [row["search"] for row in tables.read("trained", "judged.json")["networks"]]
    assert [trainings.count(seed) for seed in range(31, 36)] == [16, 16, 16, 12, 12]


def test_the_attack_pages_words_are_those_of_the_record():
    found, said = tables.read("attacks", "1000.json")["ensemble"]["attacks"], words("attack")
    assert all(one["defence"] > one["attack"] for one in found.values())
    strongest = found["autoattack"]
    assert f"{100 * strongest['defence']:.2f} % become {100 * strongest['adaptive']['attack']:.2f} %" in said
    everything = tables.read("attacks", "10000.json")["ensemble"]
    assert f"ensemble answers {100 * everything['clean']['ensemble']:.2f} %" in said
    assert f"{tables.read('attacks', 'record.json')['stages']['attack']['seconds']:.0f} s in all" in said


def test_the_ranking_of_the_rows_that_picked_nothing_is_the_records():
    everything, better = tables.on_the_rest()
    assert f"on the other 1,300 rows alone it ranks with {everything:.3f} and {better:.3f}" in words(NOTES)


def test_what_leave_one_out_loses_is_told():
    shown = {
        line.strip("| ").split(" | ")[0]: line.split(" | ")[1]
        for line in tables.estimators_on_the_benchmark().splitlines()[2:]
    }
    told = f"the paper's expect {shown['straight-through']} % accuracy, ours {shown['leave-one-out']} (three seeds)"
    assert told in words("ranking")


def test_what_ranks_darts_is_in_the_record():
    said = words("ranking")
    found = {**tables.read("quality-darts", "supernets.json")["rankings"]}
    found |= tables.read("quality-darts", "untrained.json")["rankings"]
    assert {one["ensembles"] for one in found.values()} == {60}
    for before, name in (
        ("of 50 epochs orders them with", "recipe: loss, share (0)"),
        ("helps in NAS-Bench-201, with", "three cells, mixed: loss, share (0)"),
        ("of eight cells do better:**", "untrained: untrained (0)"),
        ("with other random weights", "untrained: untrained (1)"),
        ("parameters reach", "sizes: parameters (0)"),
        ("multiply-adds", "sizes: multiply-adds (0)"),
        ("networks reach", "untrained, 8 channels: untrained (0)"),
        ("with five cells", "untrained, 5 cells, 8 channels: untrained (0)"),
        ("with three", "untrained, 3 cells: untrained (0)"),
        ("with other random weights", "untrained, 5 cells, 8 channels: untrained (1)"),
        ("0.59) and", "untrained, 3 cells: untrained (1)"),
        ("as heavy as the supernet:", "recipe: loss, share + 3 × untrained (0)"),
        ("equal weights reach", "recipe: loss, share + untrained (0)"),
    ):
        value = found[name]["spearman"]
        text = f"{value['value']:.2f} ({value['low']:.2f} to {value['high']:.2f})".replace("-", "−")
        assert f"{before} {text}" in said, name
    header = resources.files("nesbs").joinpath("recipes", "cifar10-darts.yaml").read_text()
    stated = " ".join(header.replace("#", " ").split())
    [whole] = tables.read("benchmarks", "h200-whole-darts-untrained.json")["rows"]
    assert f"the search takes {whole['seconds']:.0f} s (results/benchmarks/h200-whole-darts-untrained" in stated
    ranked = tables.read("cifar10-darts-untrained", "quality.json")["table"]["rankings"]
    both, loss = (ranked[name][0]["spearman"] for name in ("evidence", "loss"))
    assert f"it has now {both['value']:.2f} ({both['low']:.2f} to {both['high']:.2f})" in said
    assert f"accuracy {both['value']:.2f}, 95 % interval {both['low']:.2f} to {both['high']:.2f};" in stated
    assert f"loss alone {loss['value']:.2f}, {loss['low']:.2f} to {loss['high']:.2f};" in stated
    assert f"by parameters {found['sizes: parameters (0)']['spearman']['value']:.2f} (" in stated


def ranked(name, kind="loss"):
    """Spearman of a lever's supernets over all rows and over the better half, a pair for each seed."""
    found = [row["rankings"][kind] for row in tables.lever(name)]
    return [(one["spearman"]["value"], one["better_half"]) for one in found]


def kind_of(name):
    """What the figures of a lever, means of its seeds, say beside the two seeds of the base."""
    base = list(zip(*ranked("base"), strict=True))
    lows, highs = [min(both) for both in base], [max(both) for both in base]
    apart = [high - low for low, high in zip(lows, highs, strict=True)]
    found = [fmean(values) for values in zip(*ranked(name), strict=True)]
    below = [low - figure for low, figure in zip(lows, found, strict=True)]
    above = [figure - high for high, figure in zip(highs, found, strict=True)]
    for said, beyond in (("armful", below), ("elpful", above)):
        if min(beyond) > 0:
            sure = all(figure > gap for figure, gap in zip(beyond, apart, strict=True))
            return f"H{said}" if sure else f"Perhaps h{said}"
    return "Nothing to be seen"


def test_levers_are_called_what_they_are():
    bullets = re.findall(r"^- \*\*([^*]+)\*\*(.*?)(?=^- |^$)", TEXTS[NOTES], re.DOTALL | re.MULTILINE)
    called = {name: kind for kind, text in bullets for name in re.findall("`([^`]+)`", text) if name in tables.LEVERS}
    assert called == {name: kind_of(name) for name in tables.LEVERS if name != "base"}
    base = list(zip(*ranked("base"), strict=True))
    said = words(NOTES)
    apart = [max(both) - min(both) for both in base]
    assert "the two seeds of the first row are {:.2f} and {:.2f} apart".format(*apart) in said
    together, alone = tables.first_rows("best"), [fmean(both) for both in base]
    assert "{:.3f} and {:.3f} on the same rows against the base's {:.3f} and {:.3f}".format(*together, *alone) in said
    for taught, without, gap in zip(*ranked("20 epochs, distilled"), *ranked("20 epochs"), apart, strict=True):
        assert abs(taught - without) < gap
    for linear, own in zip(ranked("falls linearly"), ranked("base"), strict=True):
        assert linear[0] > own[0]
        assert linear[1] > own[1]
    [(dense, better)] = ranked("dense")
    assert dense < min(base[0])
    assert better > max(base[1])


def test_what_is_said_of_depth_is_in_the_records():
    [(shallow, _)] = ranked("one path")
    deep = [row["rankings"]["loss"]["spearman"]["value"] for row in tables.read("ranking", "paper.json")["rows"]]
    for said in (words(NOTES), words("ranking")):
        assert f"rank NAS-Bench-201 with {shallow:.3f}" in said
        assert f"those of five with {min(deep):.3f} to {max(deep):.3f}" in said
    assert f"Spearman was {min(deep):.3f} to {max(deep):.3f} under three seeds." in words("ranking")


def test_the_best_and_the_uniform_posterior_of_the_benchmark_are_the_records():
    known = tables.read("ranking", "mixed.json")["rows"][0]["posteriors"]["leave-one-out"]
    assert f"expects {known['uniform']:.1f} %, the best row has {known['best']:.1f} %" in words(NOTES)
    assert f"expects {known['uniform']:.1f} % accuracy, the best row has {known['best']:.1f} %" in words("ranking")


def test_the_verdicts_on_the_page_are_those_that_are_given():
    def spoken(value, low, high, loss=1.0):
        return verdict(Ranking(1, 10, *3 * [Interval(value, low, high)], None), loss=loss, classes=10)

    given = [
        spoken(0.8, 0.5, 0.9),
        spoken(0.6, 0.3, 0.8),
        spoken(0.4, -0.1, 0.7),
        spoken(-0.6, -0.8, -0.3),
        spoken(0.8, 0.5, 0.9, loss=2.3),
        spoken(0.8, None, None),
    ]
    _, section = PAGES["ranking"].split("## Read the verdict")
    listed = re.findall(r"^\| ([^|]+) \|", section.split("\n\n")[1], re.M)[2:]
    assert len(listed) == len(given)
    assert all(phrase in sentence for phrase, sentence in zip(listed, given, strict=True))


def test_what_is_ours_on_the_page_is_what_a_recipe_says_it_adds():
    ours = ["supernet.paths=fair", "supernet.skip_dead=true", "posterior.noise=0.1", "posterior.reference=8"]
    ours += ["posterior.untrained=1", "posterior.starts=2", "sampler.name=uniform", "search.method=forward"]
    ours += ["search.judge=posterior", "search.noise=100", "search.apart=0.35"]
    [rows] = re.findall(r"^\| ours, .*?\n\n", PAGES["how-it-works"], re.M | re.S)
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows.splitlines()[2:] if row]
    phrases = [re.sub(r" \(.*\)$", "", phrase) for phrase in load_recipe("toy", ours).additions()]
    assert [row[0] for row in rows] == [re.sub(r"\d+", "N", phrase) for phrase in phrases]
    off = [row[2].strip("`") for row in rows]
    assert load_recipe("toy", [*ours, *off]).additions() == ()
    for name in ("cifar10-nasbench201-paper", "cifar10-darts-paper", "imagenet-darts-paper", "cifar100-darts"):
        assert f"`{name}`" in PAGES["how-it-works"]
        assert load_recipe(name).additions() == ()


def test_what_is_ours_by_default_on_the_page_is_the_default():
    said, plain = words("how-it-works"), load_recipe("cifar100-darts")
    assert (plain.search.duplicates, plain.posterior.schedule, min(plain.sampler.delta)) == ("redraw", "cosine", -0.75)
    ours = [load_recipe(name).sampler.delta for name in recipe_names() if "paper" not in name]
    first = {min(SvgdRd(delta=grid).deltas) for grid in ours}
    assert (min(SvgdRd().deltas), min(first), max(first)) == (-0.5, -0.75, 0)
    assert "drawn again (`search.duplicates=allow` lets it pass), δ is one of a grid that begins at −0.5, in" in said
    assert "our recipes at −0.75 to 0 (paper: −2 to 1, which `search.tune=bayesian` searches)" in said
    assert "`posterior.schedule=constant`: it stays" in said


def test_what_differs_from_the_paper_on_the_page_is_in_the_recipes():
    """Settings that the table names are those of the recipes, and every recipe of the paper is named."""
    page = PAGES["reproduce"]
    for name in (name for name in recipe_names() if name.endswith("-paper")):
        assert f"`{name}`" in page
        assert f"`{name}`" in PAGES["how-it-works"]
    darts, edges, images = (
        load_recipe(f"{name}-paper") for name in ("cifar10-darts", "cifar10-nasbench201", "imagenet-darts")
    )
    for recipe in (darts, edges):
        values = recipe.sampler.delta
        assert f"a grid of {len(values)}, a quarter apart" in page
        assert f"{recipe.search.rounds * len(values)}: {recipe.search.rounds} for each of the {len(values)} δ" in page
        assert f"`posterior.evidence={recipe.posterior.evidence:g}`" in page
        assert f"`search.duplicates={recipe.search.duplicates}`" in page
        assert f"{recipe.posterior.batch_size}, that of the supernet | {recipe.posterior.steps:,} steps" in page
        assert f"statistics of the batch, {recipe.search.batch_size} images" in page
        assert f"{recipe.rivals.passes}, at its probability {recipe.rivals.drop_path}" in page
    assert f"weight 4 | {darts.members.auxiliary} |" in page
    assert f"`members.drop_path_schedule={darts.members.drop_path_schedule}`" in page
    assert (edges.supernet.cells, edges.supernet.channels) == (1, edges.members.channels)
    assert "one cell a stage, the benchmark's 16 channels" in page
    assert f"{images.members.channels} channels, as the paper's own networks" in page
    assert f"| {images.members.label_smoothing} | P-DARTS's |" in page
    figures = [experiment(f"fig-{name}").scales["paper"] for name in ("efficiency", "temperature", "diversity")]
    assert {max(scale.budgets) for scale in figures} == {910}
    assert "up to 910 judged" in page


@pytest.mark.parametrize("page", sorted(PAGES.keys() - {"index"}))
def test_a_page_begins_with_what_the_reader_can_do_after_it(page):
    assert re.match(r"# [^\n]+\n\nAfter this page you ", PAGES[page])


def test_the_ranking_page_is_short():
    assert len(PAGES["ranking"].splitlines()) <= 120


def test_what_is_said_of_the_stand_in_is_in_the_record():
    rows = tables.read("ranking", "tiny-imagenet.json")["rows"]
    known = rows[0]["posteriors"]["leave-one-out"]
    alone, both = (fmean(row["rankings"][kind]["better_half"] for row in rows) for kind in ("untrained", "standing"))
    said = words(NOTES)
    assert f"expects {known['uniform']:.1f} %, and the best row has {known['best']:.1f} %" in said
    assert f"rank higher alone, {alone:.3f}, than together with the loss, {both:.3f}" in said


def test_what_is_said_of_the_levers_is_in_the_records():
    base = tables.lever("base")[0]
    kinds = ("loss, batches of 128", "loss", "loss, batches of 5000")
    small, usual, large = (f"{base['rankings'][kind]['spearman']['value']:.3f}" for kind in kinds)
    said = words(NOTES)
    assert f"the base ranks with {small}, {usual} and {large}" in said
    found = tables.read("ranking", "batchnorm.json")["rankings"]
    batch, own = (
        (one["spearman"]["value"], one["better_half"]) for one in map(found.get, ("of the batch", "recalibrated"))
    )
    assert "{:.3f} and {:.3f} against {:.3f} and {:.3f} with".format(*own, *batch) in said
    everything, better = tables.together()
    assert f"recipe's three ranks with {everything:.3f} and {better:.3f}" in said
    rows = [row["rankings"]["loss"] for row in tables.read("ranking", "mixed.json")["rows"]]
    means = fmean(one["spearman"]["value"] for one in rows), fmean(one["better_half"] for one in rows)
    assert "one of them with {:.3f} and {:.3f} in the mean".format(*means) in said
    rows = [row["rankings"]["loss"] for row in tables.read("ranking", "fast-mixed.json")["rows"]]
    apart = stdev(one["spearman"]["value"] for one in rows), stdev(one["better_half"] for one in rows)
    assert "the first figure varies by {:.2f} and the second by {:.2f}".format(*apart) in said


def test_what_is_said_of_the_demos_estimates_is_in_the_record():
    stages = tables.read("demo-quality", "record.json")["stages"]
    ten, twenty, thirty = (
        tables.read("demo-quality", f"{name}.json")["trained"] for name in ("ten", "twenty", "quality")
    )
    said = words("ranking")
    assert f"after {stages['quality']['seconds']:.0f} s of training in all" in said
    for found in (ten, thirty):
        assert f"“{found['verdict'][: found['verdict'].index(')') + 1]}”" in said
    more = twenty["rankings"]["evidence"][0]["spearman"]
    assert f"twenty by {more['value']:.2f}, {more['low']:.2f} to {more['high']:.2f}," in said
    texts = [{one["architecture"] for one in found["architectures"]} for found in (ten, twenty, thirty)]
    assert texts[0] < texts[1] < texts[2]
    others = tables.read("demo-quality", "others.json")["trained"]
    assert f"had given {others['rankings']['evidence'][0]['spearman']['value']:.2f} (" in said
    same = len(texts[0] & {one["architecture"] for one in others["architectures"]})
    assert f"{('none', 'one', 'two', 'three', 'four', 'five', 'six')[same]} of them the same" in said


def test_what_is_said_of_darts_is_in_the_record():
    record, before = (tables.read("quality-darts", f"{name}.json")["trained"] for name in ("quality", "twelve"))
    found, said = record["rankings"], words(NOTES).replace("−", "-")
    loss, both = (found[kind][0]["spearman"] for kind in ("loss", "evidence"))
    papers = fisher_interval(float(tables.PAPER["spearman"][0]), 10, ranks=True)
    assert f"the first figure is {loss['low']:.2f} to {loss['high']:.2f}." in said
    assert f"they just can: {both['low']:.2f} to {both['high']:.2f}." in said
    assert loss["low"] < 0 < both["low"]
    assert f"as the paper has it, is {papers.low:.2f} to {papers.high:.2f}." in said
    assert f"gave {before['rankings']['loss'][0]['spearman']['value']:.2f} by loss;" in said
    for kind in ("loss", "evidence"):
        alone, *ensembles = (one["spearman"]["value"] for one in found[kind])
        assert min(ensembles) >= alone
    everything = {one["architecture"]: one for one in record["architectures"] + before["architectures"]}.values()
    estimated, true = (np.array([one[key] for one in everything]) for key in ("estimated_loss", "true_loss"))
    pooled = rank(estimated, true, [(place,) for place in range(len(true))]).spearman
    assert (
        f"all {len(true)} together give {pooled.value:.2f}, with an interval from {pooled.low:.2f} to "
        f"{pooled.high:.2f}" in said
    )


def test_what_is_said_of_the_best_response_is_in_the_record():
    during, *others = tables.by_response().values()
    for other in others:
        assert all(one["expected"] > two["expected"] for one, two in zip(during, other, strict=True))
    gaps = [100 * fmean(row["errors"]["gap"] for row in rows) for rows in tables.by_response().values()]
    best, leave, leave_as, straight, _ = (f"{gap:.2f}" for gap in gaps)
    said = words(NOTES)
    assert f"a gap of {leave} against {best} in the mean, under two of three seeds" in said
    after = tables.by_response()["after, leave-one-out"]
    assert sum(one["errors"]["gap"] < two["errors"]["gap"] for one, two in zip(after, during, strict=True)) == 2
    papers = paper_figures("table7").rows
    theirs = papers["NESBS (MC Sampling)"]
    assert f"({theirs['best-response']} % error with the best response, {theirs['post-training']} % after)" in said
    assert f"it does not show ({straight}), nor between posteriors that are as undecided ({leave_as})" in said


def test_the_gap_between_estimators_is_the_records():
    rows = tables.read("ranking", "best.json")["rows"]
    means = [np.mean([row["posteriors"][name]["expected"] for row in rows]) for name in rows[0]["posteriors"]]
    assert f"{means[1] - means[0]:.2f} points more true accuracy" in words(NOTES)
    for row in rows:
        leave, straight = (row["posteriors"][name]["mode_rank"] for name in ("leave-one-out", "straight-through"))
        assert straight < leave


def test_most_of_the_best_forty_have_a_way_around_the_cell():
    best = sorted(tables.BENCHMARK, key=tables.BENCHMARK.get)[-40:]
    around = [SPACES["nasbench201"]().parse(text).cells[0][-1][0][0] for text in best]
    assert around.count("skip_connect") > 20


def test_the_picture_of_the_curves_is_the_records():
    kept = (DOCS / "pictures" / "curves.svg").read_text()
    assert kept == (tables.RESULTS / "curves-forward" / "curves.svg").read_text()


def test_the_particles_of_the_picture_are_those_of_the_algorithm():
    kept, moved = json.loads((DOCS / "pictures" / "delta.json").read_text()), draw.move_particles()
    assert kept["deviations"] == pytest.approx(moved["deviations"], abs=0.05)
    assert kept["deviations"] == sorted(kept["deviations"])
    # At δ = −1 nothing pushes: every particle is at one of the two peaks.
    peaks = {tuple(round(value, 2) for value in point) for point in kept["particles"][0]}
    assert peaks == {(-0.07, 0.93), (-0.93, 0.07)}


class Page(HTMLParser):
    """What a page asks for when it is opened, and its images without words."""

    def __init__(self, text):
        super().__init__()
        self.asked, self.wordless = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio", "object", "embed", "use", "image"):
            self.asked += [given[key] for key in ("src", "href", "srcset", "data", "xlink:href") if given.get(key)]
        if tag == "link":
            self.asked.append(given["href"])
        if tag == "img" and not given.get("alt"):
            self.wordless.append(given.get("src"))


def test_examples_become_code():
    text = "Twice.\n\n>>> def twice(x):\n...     return 2 * x\n>>> twice(3)\n6\n\nNo more."
    before, example, after = examples.fenced(text).split("```")
    assert (before, after) == ("Twice.\n\n", "\n\nNo more.")
    assert example == "pycon\n>>> def twice(x):\n...     return 2 * x\n>>> twice(3)\n6\n"
    assert examples.fenced("No example.") == "No example."


def test_the_site_builds_strictly_and_asks_nobody(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    site = tmp_path / "site"
    assert {path.stem for path in site.glob("*.html")} == {*PAGES, "404"}
    for path in site.rglob("*.html"):
        page = Page(path.read_text())
        assert page.asked
        for address in page.asked:
            assert not address.lower().startswith(("http:", "https:", "//")), f"{path.name} asks {address}"
            if path.stem != "404" and not address.startswith(("data:", "#")):
                assert (path.parent / address.split("?")[0].split("#")[0]).exists(), f"{path.name} lacks {address}"
        assert not page.wordless, path.name
    for path in site.rglob("*.css"):
        text = path.read_text()
        assert "url(http" not in text, path.name
        assert "@import" not in text, path.name
    api = (site / "api.html").read_text()
    assert 'id="nesbs.search"' in api
    assert '<span class="gp">&gt;&gt;&gt; </span>' in api  # examples are shown as code
    assert "<blockquote>" not in api
    assert "largest change of a pixel; paper: 0.01" in api  # a setting's description


def begun(page, name):
    """The page with an empty section for a name, in the paper's order: what we conclude is left to write."""
    later = [f"### `{other}`: " for other in NAMES[NAMES.index(name) + 1 :]]
    end = next(heading for heading in [*later, "## What differs from the paper"] if heading in page)
    picture = f"![WHAT IS DRAWN](pictures/{name}.svg)\n\n" if name.startswith("fig-") else ""
    section = f"### `{name}`: {experiment(name).about}\n\n{picture}<!-- {name} table -->\n-\n<!-- end -->\n\n"
    return page if f"### `{name}`: " in page else page.replace(end, section + end, 1)


if __name__ == "__main__":  # writes the tables of all pages anew
    for page in dict.fromkeys(page for page, _ in TABLES):
        text = TEXTS[page]
        for name in tables.experiments() if page == "reproduce" else ():
            text = begun(text, name)
        for name in (name for other, name in TABLES if other == page):
            start, end = f"<!-- {name} table -->\n", "\n<!-- end -->"
            text = text.replace(start + table(text, name) + end, start + TABLES[page, name]() + end)
        (ROOT / f"{page}.md" if page == NOTES else DOCS / f"{page}.md").write_text(text)
