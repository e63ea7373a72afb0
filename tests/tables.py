"""The tables of README and docs/, made from the committed records."""

from __future__ import annotations

import csv
import json
import operator
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
from scipy.stats import rankdata, spearmanr, t

from benchmarks.steps import three_members
from nesbs.records import CurvesRecord, ExperimentRecord
from nesbs.report import formats
from nesbs.report.cost import cost_as_text
from nesbs.report.curves import curves_tables
from nesbs.reproduce import NAMES, experiment
from nesbs.reproduce.cost import experiment_cost
from nesbs.reproduce.drawing import tables_of
from nesbs.runs.cost import RecipeCosts
from nesbs.runs.recipe import load_recipe
from nesbs.runs.step_times import StepTimes
from nesbs.spaces import nasbench201
from nesbs.supernet.fused_network import EDGE_CODES, edge_codes

RESULTS = Path(__file__).parents[1] / "results"
with (Path(__file__).parent / "nasbench201_sample.csv").open() as opened:
    BENCHMARK = {row["architecture"]: float(row["valid_acc_cifar10"]) for row in csv.DictReader(opened)}


def read(*parts):
    return json.loads(RESULTS.joinpath(*parts).read_text())


def demo_metrics():
    """The metrics of the demo under each seed, by seed."""
    return {folder.name: read("demo", folder.name, "metrics.json") for folder in sorted((RESULTS / "demo").iterdir())}


def demo():
    lines = [
        "| seed | ensemble: error %, NLL | best member: error %, NLL | uniform-random ensemble: error %, NLL |",
        "| --- | --- | --- | --- |",
    ]
    for seed, metrics in demo_metrics().items():
        ensemble, uniform = metrics["ensemble"], metrics["uniform"]
        best = {key: min(member[key] for member in ensemble["members"]) for key in ("error", "nll")}
        cells = [f"{100 * row['error']:.2f}, {row['nll']:.4f}" for row in (ensemble, best, uniform)]
        lines.append(f"| {seed} | {' | '.join(cells)} |")
    return "\n".join(lines)


def demo_compared():
    """The demo beside what it has to beat: means over seeds, paired differences from it, seconds of search."""
    methods = read("demo-compared", "comparison.json")["methods"]
    lines = ["| method | error % | NLL | error less `nesbs` | NLL less `nesbs` | search s |", "| --- " * 6 + "|"]
    for name, method in methods.items():
        error, nll = (method["mean"][measure]["mean"] for measure in ("error", "nll"))
        cells = [f"`{name}`", f"{100 * error:.2f}", f"{nll:.4f}"]
        for measure, factor, digits in (("error", 100, 2), ("nll", 1, 4)):
            found = (method["difference"] or {}).get(measure)
            cells.append(
                "–" if found is None else _between(*(factor * found[k] for k in ("mean", "low", "high")), digits)
            )
        seconds = method["cost"]["search_seconds"]["mean"]
        lines.append(f"| {' | '.join(cells)} | {seconds:.0f} |")
    own = {key: np.array([seed["scores"][key] for seed in methods["nesbs"]["seeds"]]) for key in ("error", "nll")}
    for variant in read("demo-compared", "trained.json")["variants"]:
        found = {key: np.array([seed[key] for seed in variant["seeds"]]) for key in own}
        seconds = fmean(seed["search_seconds"] for seed in variant["seeds"])
        cells = [f"`trained`: {variant['name']}", f"{100 * found['error'].mean():.2f}", f"{found['nll'].mean():.4f}"]
        cells.append(_interval(*_paired(100 * found["error"], 100 * own["error"]), 2))
        cells.append(_interval(*_paired(found["nll"], own["nll"]), 4))
        lines.append(f"| {' | '.join(cells)} | {seconds:.0f} |")
    return "\n".join(lines)


ELSEWHERE = {  # folders of results/demo-elsewhere, in the page's words
    "few-labels": "CIFAR-10, 5,000 of its labels",
    "rare-classes": "the same, of cats and trucks a tenth as many",
    "tiny-imagenet": "Tiny-ImageNet-16/120, 12,000 of its labels",
}


ERROR_AND_NLL = (
    "error % | NLL | error less `nesbs`, over seeds | over images | NLL less `nesbs`, over seeds | over images"
)


def _errors_and_nlls(record):
    """Every row's name, its error and NLL, and what these are less those of the first."""
    apart = [*zip(_apart(record, "error"), _apart(record, "nll"), strict=True)]
    for (name, row), found in zip(record["methods"].items(), [((), ()), *apart], strict=True):
        error, nll = (row["mean"][key]["mean"] for key in ("error", "nll"))
        errors, nlls = found
        less = [_cell(each, 100, 2) for each in errors] + [_cell(each, 1, 4) for each in nlls]
        yield name, [f"{100 * error:.2f}", f"{nll:.4f}", *(less or ["–"] * 4)]


def elsewhere():
    """The demo's recipe on other data: every method's error and NLL, and what these are less those of `nesbs`."""
    lines = [f"| data | ensemble | {ERROR_AND_NLL} |", "| --- " * 8 + "|"]
    for folder, data in ELSEWHERE.items():
        record = read("demo-elsewhere", folder, "comparison.json")
        for name, cells in _errors_and_nlls(record):
            first = data if name == record["reference"] else ""
            lines.append(f"| {' | '.join([first, _row_name(record, name), *cells])} |")
    return "\n".join(lines)


PARTS = {  # rows of results/demo-parts: what differs from the demo's recipe, and by which settings
    "nesbs": ("nothing", ""),
    "likelihood": ("evidence: the likelihood alone", "posterior.reference=0 posterior.untrained=0"),
    "untrained": ("evidence: no untrained networks", "posterior.untrained=0"),
    "starts": ("four fits of the posterior, of which the best is kept, in place of one", "posterior.starts=4"),
    "judge": (
        "chosen by the posterior's probability, members apart on 35 % of the edges, not by the loss",
        "search.judge=posterior search.gain=0 search.apart=0.35",
    ),
    "forward": ("chosen member by member, not as whole ensembles", "search.method=forward"),
    "delta0": ("δ = 0 alone, in place of 0 and 1", "sampler.delta=0"),
    "delta1": ("δ = 1 alone", "sampler.delta=1"),
    "nesbs-mc": ("Monte Carlo in place of SVGD-RD", "`--methods nesbs-mc`"),
}


def parts():
    """The demo's recipe with one part changed: error and NLL, and what these are less those of the whole."""
    record = read("demo-parts", "comparison.json")
    lines = [f"| what is changed | `--set` | {ERROR_AND_NLL} |", "| --- " * 8 + "|"]
    for name, cells in _errors_and_nlls(record):
        what, settings = PARTS[name]
        how = settings if "`" in settings else " ".join(f"`{one}`" for one in settings.split())
        lines.append(f"| {' | '.join([what, how, *cells])} |")
    return "\n".join(lines)


TABLE_ROWS = {  # rows of results/cifar10-table, in the page's words
    "nesbs": "`nesbs` (ours)",
    "nesbs-mc": "`nesbs-mc` (ours by Monte Carlo)",
    "paper": "the paper's method (1 cell)",
    "paper-mc": "the paper's method (1 cell) by Monte Carlo",
    "paper-deep": "the paper's method (5 cells)",
    "paper-deep-mc": "the paper's method (5 cells) by Monte Carlo",
    "likeliest": "deep ensemble of the posterior's likeliest",
    "deep": "deep ensemble of the best of the pool",
    "oracle": "an oracle's deep ensemble of the benchmark's best",
    "nes-rs-50": "`nes-rs` with 50 candidates",
}


def _row_name(record, name):
    """A row in words, with the number of its members where that is not the reference's."""
    method, five = name.removesuffix("-5"), name.endswith("-5")
    size = " with five members" if five else " with three members"
    return TABLE_ROWS.get(method, f"`{method}`") + size * (five != record["reference"].endswith("-5"))


MEASURES = {  # heading: key, factor, digits
    "error %": ("error", 100, 2),
    "NLL": ("nll", 1, 4),
    "Brier": ("brier", 1, 4),
    "ECE": ("ece", 1, 4),
    "ECE, scaled": ("scaled_ece", 1, 4),
    "PPD %": ("disagreement", 100, 2),
}
COSTS = {
    "GPU memory, GiB": ("peak_memory", 2**-30, 1),
    "parameters, millions": ("parameters", 1e-6, 2),
    "multiply-adds, millions": ("multiply_adds", 1e-6, 0),
}


def compared(record, epochs=24):
    """A joined comparison as three tables: measures of every row, differences over seeds and over images, costs.

    Costs begin with seconds as they were measured, and those of a quiet GPU in brackets, by the members' `epochs`.
    """
    kinds = "error, over seeds | error, over images | NLL, over seeds | NLL, over images"
    lines = [f"| less {_row_name(record, record['reference'])} | {kinds} |", "| --- " * 5 + "|"]
    for name, (error, nll) in zip(
        list(record["methods"])[1:], zip(_apart(record, "error"), _apart(record, "nll"), strict=True), strict=True
    ):
        cells = [_cell(each, 100, 2) for each in error] + [_cell(each, 1, 4) for each in nll]
        lines.append(f"| {_row_name(record, name)} | {' | '.join(cells)} |")
    return "\n\n".join([_means(record, MEASURES), "\n".join(lines), _means(record, COSTS, epochs)])


def _means(record, columns, epochs=None):
    """A table of means over the seeds, a row for every method; with `epochs` of a member also the seconds."""
    lines = [f"| | seeds | {'search s | training s | ' * bool(epochs)}{' | '.join(columns)} |"]
    lines.append("| --- " * (lines[0].count("|") - 1) + "|")
    for name, row in record["methods"].items():
        mean = {key: value["mean"] for key, value in {**row["mean"], **row["cost"]}.items()}
        cells = [f"{factor * mean[key]:.{digits}f}" if key in mean else "–" for key, factor, digits in columns.values()]
        if epochs:
            alone = seconds_alone(name, row, epochs)
            took = zip((mean["search_seconds"], mean["training_seconds"]), alone, strict=True)
            cells = [f"{measured:.0f} ({quiet:.0f})" if round(measured) else "0" for measured, quiet in took] + cells
        lines.append(f"| {_row_name(record, name)} | {len(row['seeds'])} | {' | '.join(cells)} |")
    return "\n".join(lines)


def seconds_alone(name, row, epochs):
    """What search and training of a row take on a GPU of their own, by measured steps; or as measured alone."""
    method = name.removesuffix("-5")
    one, three, compiled, *_ = (each["seconds"] for each in read("benchmarks", "h200-members.json")["results"])
    if method in ("nesbs", "nesbs-mc", "likeliest"):
        search = read("benchmarks", "h200-whole.json")["rows"][0]["seconds"]
    elif method.startswith("paper-deep"):
        search = papers_search_alone()
    elif method.startswith("paper"):
        search = row["cost"]["search_seconds"]["mean"]
    else:  # of a pool each candidate is trained for twelve epochs on 70 % of the images
        search = row["cost"]["evaluations"]["mean"] * 12 * (35_000 // 256) * three / 3
    networks = len(row["seeds"][0]["architectures"])
    step = compiled if method == "snapshot" else one if networks == 1 else networks * three / 3
    return search, epochs * (50_000 // 256) * step


def papers_search_alone():
    """Its supernet of five cells a stage and 2,340 steps of its posterior, in seconds, without its choosing."""
    mixture, _ = read("benchmarks", "h200-tried.json")["mixture"]
    return papers_supernet_alone() + 2340 * mixture["seconds"]


def papers_supernet_alone():
    """Fifty epochs, in seconds."""
    steps = {row["name"]: row["seconds"] for row in read("benchmarks", "h200.json")["results"]}
    return 50 * (35_000 // 128) * steps["supernet, NAS-Bench-201, N=5, one, float32"]


def left_out():
    """What the comparison on CIFAR-10 lacks, and how long it would take by what was measured of steps and searches."""
    _, three, *_ = read("benchmarks", "h200-members.json")["results"]
    [search] = read("benchmarks", "h200-whole.json")["rows"]
    search = search["seconds"]
    epoch = three["seconds"] / 3 * (50_000 // 256)  # of a member, three in one step
    judged = 12 * 0.7  # epochs of a candidate, on 70 % of the images
    attack = read("attacks", "record.json")["stages"]["attack"]["seconds"]  # of one ensemble
    papers = fmean(search_seconds("cifar10-table/paper/seed-*"))
    rows = [  # epochs of a member, and seconds of other work
        ("the paper's method (1 cell) under seed 35, and for n = 5 under two seeds", (6 + 2 * 10) * 24, 3 * papers),
        ("200 epochs: NES-RS, the likeliest and random, one seed", 3 * 3 * 200 + 9 * judged, search),
        ("searches within equal sizes: ours and NES-RS, three seeds", 2 * 3 * 3 * 24 + 3 * 9 * judged, 3 * search),
        ("200 epochs: the oracle's three under seed 32, its fourth and fifth under 31", 5 * 200, 0),
        ("what each of eight parts of the method is worth, three seeds", 8 * 3 * 3 * 24, 8 * 3 * search),
        ("four sets of data that nobody tuned on, three methods, three seeds", 4 * 3 * 9 * 24, 4 * 3 * search),
        ("attacks, shifted and unseen images, two methods, three seeds", 6 * 3 * 24, 6 * attack),
    ]
    lines = ["| left out | epochs of a member | searches and attacks, min | minutes in all |", "| --- " * 4 + "|"]
    for what, epochs, seconds in rows:
        lines.append(f"| {what} | {epochs:,.0f} | {seconds / 60:.0f} | {(epochs * epoch + seconds) / 60:.0f} |")
    return "\n".join(lines)


def search_seconds(pattern):
    """What the searches in kept folders took, from the supernet to the choice."""
    stages = [read(folder, "record.json")["stages"] for folder in sorted(RESULTS.glob(pattern))]
    return [sum(each[name]["seconds"] for name in ("supernet", "posterior", "selection")) for each in stages]


def _apart(record, measure):
    """The differences of every row but the first, the reference: over seeds, and over images."""
    for row in list(record["methods"].values())[1:]:
        over_images = (row["images"] or {}).get("difference") or {}
        yield row["difference"].get(measure), over_images.get(measure)


def _cell(found, factor, digits):
    """A difference with its interval, or without one where there are too few seeds."""
    if found is None:
        return "–"
    values = [None if found[key] is None else round(factor * found[key], 9) for key in ("mean", "low", "high")]
    return f"{values[0]:+.{digits}f}".replace("-", "−") if None in values else _between(*values, digits)


CHANCE = {  # by the sides of two intervals, over seeds and over images: 1 above zero, −1 below, 0 with zero inside
    (1, 1): "worse beyond chance, over seeds and over images",
    (-1, -1): "better beyond chance, over seeds and over images",
    (1, 0): "worse over seeds, not over images",
    (-1, 0): "better over seeds, not over images",
    (0, 1): "worse over images, not over seeds",
    (0, -1): "better over images, not over seeds",
    (None, 1): "worse over images, too few seeds",
    (None, -1): "better over images, too few seeds",
    (0, 0): "not told apart",
    (1, None): "worse over seeds",
    (-1, None): "better over seeds",
    (0, None): "not told apart over seeds",
    (None, 0): "not told apart over images, too few seeds",
}


def beyond_chance(record):
    """What is beyond chance and what is not, as lists: 95 % intervals of differences to the reference."""
    by_error, by_nll = (_verdicts(record, measure) for measure in ("error", "nll"))
    lists = {"error and by NLL": by_error} if by_error == by_nll else {"error": by_error, "NLL": by_nll}
    beside = f"beside `{record['reference'].removesuffix('-5')}`"
    return "\n\n".join(
        "\n".join(
            [f"By {measure}, {beside}:\n", *(f"- **{words}**: {', '.join(rows)}" for words, rows in found.items())]
        )
        for measure, found in lists.items()
    )


def _verdicts(record, measure):
    """The rows by what the intervals of their differences say, in words."""
    found = {}
    for name, sides in zip(list(record["methods"])[1:], _apart(record, measure), strict=True):
        found.setdefault(tuple(map(_side, sides)), []).append(_row_name(record, name))
    return {words: found[sides] for sides, words in CHANCE.items() if sides in found}


def _side(found):
    """1 where an interval lies above zero, −1 below, 0 where it holds zero, None where there is none."""
    if found is None or found["low"] is None:
        return None
    return (found["low"] > 0) - (found["high"] < 0)


REPRODUCED = RESULTS / "reproduce"
SAID_ONCE = ("The paper's figures are those of", formats.NOTHING)  # how notes begin that the page has for all tables


def experiments(folder=REPRODUCED):
    """The records of `nesbs reproduce` at scale `hour`, by name, in the paper's order."""
    return {name: ExperimentRecord.read(folder / name / ExperimentRecord.FILE) for name in NAMES
            if (folder / name).is_dir()}  # fmt: skip


def reproduced(name, folder=REPRODUCED):
    """One of the paper's tables from its record: the rows that were run, ours beside the paper's, and how."""
    record = experiments(folder)[name]
    found, notes = [], []
    for table in tables_of(experiment(name), record):
        rows = tuple(row for row in table.rows if any(cell.ours is not None for cell in row[1]))
        if rows:
            found.append(replace(replace(table, rows=rows).as_table(), title="", notes=()).as_markdown())
            notes += [note for note in table.notes if not note.startswith(SAID_ONCE)]
    changes = "".join(f" --set {change}" for change in (*record.asked.set, *["data.root=DATA"] * bool(record.parts)))
    seed = "" if record.asked.seed is None else f" --seed {record.asked.seed}"
    command = f"`nesbs reproduce {name} --scale {record.asked.scale} --out runs/paper{changes}{seed}`"
    notes.append(f"Made by {command}; the record is `results/reproduce/{name}`.")
    return "\n\n".join([*found, "\n".join(f"- {note}" for note in dict.fromkeys(notes))])


def measured(folder=REPRODUCED):
    """What names took at scale `hour`, device by device."""
    records, words = experiments(folder), []
    for device in dict.fromkeys(record.device for record in records.values()):
        minutes = [f"`{name}` {one.seconds / 60:.1f}" for name, one in records.items() if one.device == device]
        words.append(f"Minutes on {device.replace('cpu', 'a CPU')}: {', '.join(minutes)}.")
    together = sum(record.seconds for record in records.values()) / 60
    return " ".join([*words, f"The sum is {together:.1f} minutes, one name after the other."])


def demo_wins():
    """Under how many seeds the ensemble beats its best member and the uniform-random ensemble, in words."""
    wins = [
        sum(row["ensemble"][key] < min(one[key] for one in of(row)) for row in demo_metrics().values())
        for of in (lambda row: row["ensemble"]["members"], lambda row: [row["uniform"]])
        for key in ("error", "nll")
    ]
    return (
        "lower error than it under {} of the 5 seeds, and a lower NLL under {}. Against three architectures drawn at "
        "random and trained the same way it has a lower error under {}, and a lower NLL under {}: the mean"
    ).format(*wins)


def demo_in_words():
    """The means over the seeds, as a sentence has them."""
    means = [
        [fmean(metrics[name][key] for metrics in demo_metrics().values()) for key in ("error", "nll")]
        for name in ("ensemble", "uniform")
    ]
    (error, nll), (other_error, other_nll) = means
    return f"error {100 * error:.2f} % against {100 * other_error:.2f} %, NLL {nll:.4f} against {other_nll:.4f}"


def against_benchmark():
    """Of each network that the benchmark has too: name, accuracy in per cent, the benchmark's, its row."""
    # One of the benchmark's best on CIFAR-10, test accuracy, trained twice: by torch's kernels and by ours.
    for name, known in (("best", 94.36), ("kernels", 94.36), ("middle", None)):
        metrics, record = (read("nasbench201", name, f"{file}.json") for file in ("metrics", "record"))
        [text] = metrics["ensemble"]["architectures"]
        accuracy = 100 * (1 - metrics["ensemble"]["error"])
        known = known or BENCHMARK[text]
        kind = "test" if metrics["measured_on"] == "test" else "held-out"
        seconds = record["stages"]["members"]["seconds"]
        row = f"{metrics['test_images']:,} {kind} | {accuracy:.2f} | {known:g} | {seconds:.0f} |"
        yield name, accuracy, known, row


def benchmark():
    """Networks that the benchmark has too, by name: their accuracy beside the benchmark's."""
    lines = ["| architecture | images | accuracy % | the benchmark's | seconds |", "| --- | --- | --- | --- | --- |"]
    for name, _, _, row in against_benchmark():
        lines.append(f"| {'`best`, by our kernels' if name == 'kernels' else f'`{name}`'} | {row}")
    return "\n".join(lines)


def _beside_plain(rows, digits):
    lines = ["| | ours, ms | plain, ms | ratio |", "| --- | --- | --- | --- |"]
    for row in rows:
        ours, plain = (f"{1e3 * row[each]:.{digits}f}" for each in ("seconds", "reference_seconds"))
        lines.append(f"| {row['name']} | {ours} | {plain} | {row['ratio']:.1f} |")
    return "\n".join(lines)


def arm():
    return _beside_plain(read("benchmarks", "cpu-arm-steps.json")["results"], 0)


def speed():
    runs = [read("benchmarks", f"h200{part}.json")["results"] for part in ("", "-estimation", "-members")]
    rows = {row["name"]: row for rows in runs for row in rows}  # the later run's where both have it
    del rows["3 members, NAS-Bench-201, batch 256"]  # an epoch of three side by side, before they had one step
    return _beside_plain(rows.values(), 2)


def occupancy():
    """The kernels of three members in one step: what they take, warps at once, and bytes that convolutions read."""
    _, three, *_ = read("benchmarks", "h200-members.json")["results"]
    record = read("benchmarks", "occupancy.json")
    rows = {(row["kernel"], row["channels"]): row for row in record["rows"] if row["cell"] == "NAS-Bench-201"}
    codes = [code for one in three_members(nasbench201()) for code in edge_codes(nasbench201(), one)]
    large, small = (codes.count(EDGE_CODES[f"nor_conv_{size}"]) for size in ("3x3", "1x1"))
    widths = (16, 32, 64)
    states = [5 * 256 * 32**2 * 16 * 2 * 16 / width for width in widths]  # bytes of one state of each of five cells
    taps = {width: -(-9 // (64 // width)) for width in widths}  # how often `weigh`, which has 64 / width at once, reads
    reads = {
        "convolve": [(9 * large + small) * state for state in states],
        "pull": [(9 * large + small) * state for state in states],
        "weigh": [((9 + taps[width]) * large + 2 * small) * state for width, state in zip(widths, states, strict=True)],
    }
    lines = ["| kernel | ms a step | warps at once, 16, 32, 64 channels | read by convolutions, GB | TB a second |"]
    lines.append("| --- " * 5 + "|")
    for name, seconds in three["longest"].items():
        if (name, 16) in rows:
            warps = ", ".join(f"{rows[name, width]['at_once']} ({rows[name, width]['bound']})" for width in widths)
            moved = sum(reads.get(name, []))
            cells = f"{moved / 1e9:.1f} | {moved / seconds / 1e12:.1f}" if moved else "– | –"
            lines.append(f"| `{name}` | {1e3 * seconds:.1f} | {warps} | {cells} |")
    return "\n".join(lines)


def tiles():
    """What the two kernels of convolutions take by tiles of other sizes, µs for a cell of each width."""
    found = {}
    for row in read("benchmarks", "h200-tried.json")["tiles"]:
        if row["taps"] == 1:
            took = row["microseconds"]
            widths = found.setdefault((row["pixels"], row["stages"]), {16: {}, 32: {}, 64: {}})
            widths[row["channels"]].setdefault(row["warps"], f"{took['convolve']:.0f}, {took['pull']:.0f}")
    lines = ["| pixels, stages | warps: `convolve`, `pull`; 16 channels | 32 | 64 |", "| --- " * 4 + "|"]
    for (pixels, stages), widths in found.items():
        cells = ("; ".join(f"{warps}: {text}" for warps, text in each.items()) for each in widths.values())
        lines.append(f"| {pixels}, {stages} | {' | '.join(cells)} |")
    return "\n".join(lines)


def reckoned():
    """What stages took and what `nesbs cost` says of them, in seconds."""

    def costs(recipe, *changes):
        return RecipeCosts(load_recipe(recipe, changes), StepTimes.recorded())

    whole, fair, darts = (read("benchmarks", f"h200-whole{name}.json")["rows"][0] for name in ("", "-fair", "-darts"))
    once = ("supernet.paths=fair", "supernet.epochs=40", "posterior.reference=0", "posterior.starts=1")
    as_it_was = (
        "supernet.epochs=50",
        "posterior.steps=2340",
        "posterior.batch_size=128",
        "posterior.architectures=4",
        "posterior.reference=0",
    )
    by_loss = "search.judge=likelihood"  # on all held-out images
    drawn = ("sampler.delta=0.0", f"search.rounds={len(darts['svgd-rd']['proposals'])}", by_loss)
    then = costs("cifar10-nasbench201", *once, "posterior.untrained=0")
    pairs = costs("cifar10-darts", *as_it_was, *drawn, "posterior.untrained=0")
    own = costs("cifar10-nasbench201")
    one, two = (row["seconds"] for row in read("cluster", "speed.json")["pool"])
    rows = [
        ("supernet of `cifar10-nasbench201`", whole["stages"]["supernet"], own.supernet().seconds),
        ("the same with fair groups, 40 epochs", fair["stages"]["supernet"], then.supernet().seconds),
        ("one fit of its posterior", fair["stages"]["posterior"], then.posterior().seconds),
        ("supernet of `cifar10-darts`", darts["stages"]["supernet"], pairs.supernet().seconds),
        ("its posterior, without untrained networks", darts["stages"]["posterior"], pairs.posterior().seconds),
        ("judging 60 ensembles there", darts["stages"]["selection"], pairs.selection().seconds),
        ("24 networks by two workers on two cores, from the time of one", two, one / 2),
    ]
    lines = ["| what | measured, s | reckoned, s |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {what} | {took:.1f} | {said:.1f} |" for what, took, said in rows)])


def cost():
    """What the page's second command prints."""
    record = experiment_cost(experiment("table2"), "paper", StepTimes.recorded(), [1, 8, 64])
    return f"```text\n{cost_as_text(record)}\n```"


def cluster_speed():
    """A pool by one worker and by two, and what Ray costs."""
    record = read("cluster", "speed.json")
    one, two = record["pool"]
    rows = [
        (f"{record['networks']} networks of six epochs by {count} of one thread", took)
        for count, took in (("one worker", one), ("two workers", two))
    ]
    lines = ["| what | seconds | of CPUs |", "| --- | --- | --- |"]
    lines += [f"| {what} | {took['seconds']:.1f} | {took['cpu_seconds']:.1f} |" for what, took in rows]
    ratios = [two[key] / one[key] for key in ("seconds", "cpu_seconds")]
    ray = record["ray"]
    return "\n".join(
        [
            *lines,
            f"| two workers against one | {ratios[0]:.2f} | {ratios[1]:.2f} |",
            f"| two Ray nodes start | {ray['start_seconds']:.1f} | – |",
            f"| connecting, and asking each node for its versions | {ray['connect_seconds']:.1f} | – |",
            f"| a task on Ray that does nothing, of {ray['tasks']} | {ray['task_seconds']:.3f} | – |",
        ]
    )


def estimators():
    lines = ["| | bias | deviation | cosine |", "| --- | --- | --- | --- |"]
    for place, rows in read("benchmarks", "estimators.json")["results"].items():
        for row in rows:
            figures = " | ".join(f"{row[key]:.2f}" for key in ("bias", "deviation", "cosine"))
            lines.append(f"| {place}: {row['name']} | {figures} |")
    return "\n".join(lines)


def _spread(values, digits):
    return f"{fmean(values):.{digits}f} ± {stdev(values):.{digits}f}"


KINDS = {
    "loss": "loss",
    "error": "accuracy",
    "brier": "Brier score",
    "untrained": "untrained networks",
    "standing": "loss and untrained networks",
}


def ranking(name="mixed"):
    """The recipe's supernet under three seeds, mean and deviation: its ranking, and the posteriors."""
    rows = read("ranking", f"{name}.json")["rows"]
    lines = ["| estimate by | Spearman, all | the better half |", "| --- | --- | --- |"]
    for kind, said in KINDS.items():
        found = [row["rankings"][kind] for row in rows]
        figures = [[one["spearman"]["value"] for one in found], [one["better_half"] for one in found]]
        lines.append(f"| {said} | {' | '.join(_spread(values, 3) for values in figures)} |")
    called = {"leave-one-out": "the likelihood", "leave-one-out, standing": "both, as shares beaten"}
    return "\n".join(lines) + "\n\n" + _posteriors(rows, called, "posterior fitted to")


def all_and_better(estimates, places):
    """Spearman of estimates with the truth at some of the benchmark's rows, and at the truly better half of these."""
    true = np.array(list(BENCHMARK.values()))
    better = places[true[places] >= np.median(true[places])]
    return [spearmanr(-np.array(estimates)[rows], true[rows]).statistic for rows in (places, better)]


def on_the_rest():
    """Spearman over the rows that had no part in picking the measure of untrained networks, all and the better half."""
    rest = np.sort(np.random.default_rng(0).permutation(len(BENCHMARK))[700:])
    found = [all_and_better(row["estimates"]["standing"], rest) for row in read("ranking", "mixed.json")["rows"]]
    return np.mean(found, axis=0)


def estimators_on_the_benchmark():
    """Posteriors of one supernet by each estimator, fitted to the likelihood."""
    rows = read("ranking", "best.json")["rows"]
    return _posteriors(rows, {name: name for name in rows[0]["posteriors"]}, "posterior by")


def _posteriors(rows, called, heading):
    lines = [f"| {heading} | expected accuracy % | rank of the likeliest row | effective sample size |"]
    lines.append("| --- | --- | --- | --- |")
    for key, said in called.items():
        found = [row["posteriors"][key] for row in rows]
        ranks = ", ".join(f"{one['mode_rank']}" for one in found)
        expected, effective = ([one[figure] for one in found] for figure in ("expected", "effective"))
        lines.append(f"| {said} | {_spread(expected, 2)} | {ranks} | {_spread(effective, 1)} |")
    return "\n".join(lines)


def beside_the_papers():
    """The paper's setting and the recipe's: ranking, posterior, seconds."""
    lines = [
        "| | Spearman, all | the better half | expected accuracy % | rank of the likeliest row | supernet s | "
        "posterior s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for said, name, kind, posterior in (
        ("the paper's setting, by loss", "paper", "loss", "straight-through"),
        ("the recipe's", "mixed", "standing", "leave-one-out, standing"),
    ):
        for row in read("ranking", f"{name}.json")["rows"]:
            ranked, fitted = row["rankings"][kind], row["posteriors"][posterior]
            figures = [
                f"{said}, seed {row['seed']}",
                *(f"{value:.3f}" for value in (ranked["spearman"]["value"], ranked["better_half"])),
                *(f"{fitted['expected']:.2f}", f"{fitted['mode_rank']}"),
                *(f"{seconds:.0f}" for seconds in (row["supernet_seconds"], fitted["seconds"])),
            ]
            lines.append(f"| {' | '.join(figures)} |")
    return "\n".join(lines)


def lever(name):
    """The rows of one of the levers, a seed each."""
    known = read("ranking", "levers.json")["rows"] + read("ranking", "fast-mixed.json")["rows"]
    return [row for row in known if row["name"] == name]


def first_rows(name, count=1000):
    """Spearman by loss over the first rows and over their better half, means of a record's seeds."""
    rows = read("ranking", f"{name}.json")["rows"]
    return np.mean([all_and_better(row["estimates"]["loss"], np.arange(count)) for row in rows], axis=0)


def levers():
    """Settings varied one at a time, and what they became together: Spearman over 1,000 rows by loss and accuracy."""
    lines = [
        "| | seeds | by loss: all, the better half | by accuracy: all, the better half | expected accuracy % |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, said in LEVERS.items():
        rows = lever(name)
        figures = []
        for kind in ("loss", "error"):
            found = [row["rankings"][kind] for row in rows]
            means = fmean(one["spearman"]["value"] for one in found), fmean(one["better_half"] for one in found)
            figures.append(", ".join(f"{mean:.3f}" for mean in means))
        figures.append(f"{fmean(row['posteriors']['leave-one-out']['expected'] for row in rows):.2f}")
        lines.append(f"| {said} | {len(rows)} | {' | '.join(figures)} |")
    return "\n".join(lines)


LEVERS = {
    "base": "one cell a stage, 16 channels, fair groups, 40 epochs, batches of 256, decay 3e-4",
    "one path": "… one path a step, 200 epochs (as many paths)",
    "dense": "… groups without `none`, 50 epochs (as many paths)",
    "two cells": "… two cells a stage",
    "three cells": "… three cells a stage",
    "32 channels": "… 32 channels",
    "20 epochs": "… 20 epochs",
    "80 epochs": "… 80 epochs",
    "batch 128": "… batches of 128",
    "decay 1e-3": "… decay 1e-3",
    "falls linearly": "… a rate that falls linearly, not along a cosine",
    "rises first": "… a rate that rises for five epochs first",
    "convolutions first": "… convolutions alone for the first ten epochs, one path a step",
    "affine": "… BatchNorm with a scale and a shift to learn",
    "averaged": "… weights averaged over the last ten epochs",
    "20 epochs, distilled": "… 20 epochs, half taught by another supernet's likeliest path",
    "cutout 8": "… cutout of 8×8",
    "plain images": "… images neither cropped nor flipped",
    "mixed, 20 epochs": "batches of 128, decay 1e-3, fair and dense groups in turn, 20 epochs",
}


def together():
    """Spearman of the mean loss of the recipe's three supernets, over all rows and over the better half."""
    mean = np.mean([row["estimates"]["loss"] for row in read("ranking", "mixed.json")["rows"]], axis=0)
    return all_and_better(mean, np.arange(len(BENCHMARK)))


SIZES = (1, 3, 5, 7)
PAPER = {  # app. C.1
    "spearman": ("0.65", "0.33", "0.40", "−0.12"),
    "pearson": ("0.82", "0.45", "0.45", "−0.16"),
    "agreement": ("33 %", "20 %", "31 %", "25 %"),
}


CORRELATIONS = {"spearman": "Spearman", "pearson": "Pearson", "agreement": "Agreement-30 %"}


def correlations(folder, *, papers):
    """Of estimated and true performance by the ensembles' size; with the paper's own where the space is its own."""
    found = read(folder, "quality.json")["trained"]["rankings"]
    lines = [f"| | {' | '.join(f'n = {size}' for size in SIZES)} |", f"| --- |{' --- |' * len(SIZES)}"]
    for key, said in CORRELATIONS.items():
        for kind, by in (("loss", "by loss"), ("evidence", "with untrained networks")):
            values = [one[key]["value"] for one in found[kind]]
            cells = [f"{100 * value:.0f} %" if key == "agreement" else f"{value:.2f}" for value in values]
            lines.append(f"| {said}, {by} | {' | '.join(cells).replace('-', '−')} |")
        if papers:
            lines.append(f"| {said}, the paper's | {' | '.join(PAPER[key])} |")
    return "\n".join(lines)


def responses():
    """The posterior learned during the supernet's training and those fitted after it, seed by seed."""
    lines = [
        "| posterior | entropy | gap, points of error | the mode's error % | expected accuracy % | "
        "rank of the likeliest row |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, rows in by_response().items():
        entropies, gaps, modes = (
            [f"{factor * value:.{digits}f}" for value in values]
            for factor, digits, values in (
                (1, 1, [row["entropy"] for row in rows]),
                (100, 2, [row["errors"]["gap"] for row in rows]),
                (100, 1, [row["errors"]["mode"] for row in rows]),
            )
        )
        expected = _spread([row["expected"] for row in rows], 2)
        ranks = [str(row["mode_rank"]) for row in rows]
        cells = [name, *map(", ".join, (entropies, gaps, modes)), expected, ", ".join(ranks)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def by_response():
    """The rows of each posterior, by its name."""
    found = {}
    for row in read("ranking", "responses.json")["rows"]:
        found.setdefault(row["name"], []).append(row)
    return found


def around():
    """Where the better half of the rows stands in truth and by estimates, by the operation from input to output."""
    rows = read("ranking", "mixed.json")["rows"]
    true = np.array(list(BENCHMARK.values()))
    half = true >= np.median(true)
    judged = [-np.mean([row["estimates"][kind] for row in rows], axis=0) for kind in ("loss", "untrained", "standing")]
    places = [100 * (rankdata(values[half]) - 0.5) / half.sum() for values in (true, *judged)]
    space = nasbench201()
    used = [space.parse(text).cells[0][-1][0][0] for text in BENCHMARK]
    used = np.array(used)[half]
    lines = ["| from input to output | architectures | in truth % | by loss % | untrained % | both % |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for operation in space.operations:
        inside = used == operation
        means = " | ".join(f"{place[inside].mean():.0f}" for place in places)
        lines.append(f"| `{operation}` | {inside.sum()} | {means} |")
    return "\n".join(lines)


PATHS = {"mixed": {"fast": "fast-mixed", "plain": "plain-mixed"}, "one path": {"fast": "fast", "plain": "plain"}}


def by_path(name):
    """Spearman of the supernets of one record, by seed: by loss, accuracy and, where it was taken, Brier score."""
    found = [row["rankings"] for row in read("ranking", f"{name}.json")["rows"]]
    kinds = [kind for kind in ("loss", "error", "brier") if kind in found[0]]
    return {kind: [one[kind]["spearman"]["value"] for one in found] for kind in kinds}


def fast_and_plain():
    """Spearman over 1,000 rows of supernets trained by the fast and by the plain path, seed by seed."""
    lines = ["| | by loss | by accuracy |", "| --- | --- | --- |"]
    for trained, records in PATHS.items():
        for path, name in records.items():
            found = by_path(name)
            cells = [
                f"{', '.join(f'{value:.3f}' for value in found[kind])}: mean {fmean(found[kind]):.3f}"
                for kind in ("loss", "error")
            ]
            lines.append(f"| {trained}, {path} | {' | '.join(cells)} |")
    return "\n".join(lines)


def curves(folder, budgets):
    """Test errors of the budget curves at some of the budgets, a table for each size."""
    found = []
    for table in curves_tables(CurvesRecord.read(RESULTS / folder / "curves.json")):
        heading = table.headings
        columns = [0, *(heading.index(str(budget)) for budget in budgets)]
        lines = [[row[column] for column in columns] for row in (heading, ["---"] * len(heading), *table.rows)]
        found.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(found)


def gap(folder, one, other, size, budget):
    """The test error of one method less that of another, in points: mean over seeds, and half its 95 % t interval."""
    errors = {
        point["method"]: np.array([seed["error"] for seed in point["seeds"]])
        for point in read(folder, "curves.json")["points"]
        if (point["size"], point["budget"]) == (size, budget)
    }
    found = 100 * (errors[one] - errors[other])
    return found.mean(), t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / len(found) ** 0.5


def differences(folder, size, budget):
    """How many of their operations two members differ in, by method, in per cent: means over pairs and seeds."""
    found = {}
    for point in read(folder, "curves.json")["points"]:
        if (point["size"], point["budget"]) == (size, budget):
            members = [[re.findall(r"(\w+)~", text) for text in seed["architectures"]] for seed in point["seeds"]]
            pairs = [pair for ensemble in members for pair in combinations(ensemble, 2)]
            if pairs:  # a single network has none
                found[point["method"]] = 100 * fmean(fmean(map(operator.ne, *pair)) for pair in pairs)
    return found


def samplers():
    """Drawn members by the truth: accuracy, the weakest member's, edges that differ; means of the posteriors."""
    rows = read("samplers", "samplers.json")["rows"]
    lines = [
        "| drawn by | variance | δ | members' accuracy % | the weakest's % | edges differing % |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, variance, delta in dict.fromkeys((row["sampler"], row.get("variance"), row.get("delta")) for row in rows):
        same = [
            row for row in rows if (row["sampler"], row.get("variance"), row.get("delta")) == (name, variance, delta)
        ]
        cells = [f"{fmean(row[key] for row in same):.2f}" for key in ("accuracy", "weakest")]
        apart = f"{100 * fmean(row['differing'] for row in same):.0f}"
        settings = ("–", "–") if delta is None else (f"{variance:g}", f"{delta:g}".replace("-", "−"))
        drawn_by = {"monte-carlo": "Monte Carlo", "svgd-rd": "SVGD-RD"}[name]
        lines.append(f"| {drawn_by} | {' | '.join(settings)} | {' | '.join(cells)} | {apart} |")
    return "\n".join(lines)


def judges(file="judges.json"):
    """What each judge chose, by the truth: means of the searches, and the paired difference from the candidates."""
    rows = read("judges", file)["rows"]
    lines = [
        "| chosen by | from | gain's weight | members' accuracy % | less the candidates', 95 % interval "
        "| the weakest's % | edges differing % | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    all_candidates = np.array([row["accuracy"] for row in rows if row["chosen"] == "candidates"])
    for kind in dict.fromkeys((row["chosen"], row.get("judge"), row.get("gain"), row.get("gain_pool")) for row in rows):
        way, judge, gain, pool = kind
        if gain not in (None, 0.0, 0.5, 1.0) or pool == "uniform":
            continue
        same = [row for row in rows if (row["chosen"], *(row.get(key) for key in JUDGED)) == kind]
        accuracies = np.array([row["accuracy"] for row in same])
        mean, half = _paired(accuracies, all_candidates)
        apart = _interval(mean, half, 2)
        about = {"candidates": ("nobody: all ensembles drawn", "–"), "unjudged": ("nobody: those drawn at δ = 0", "–")}
        name, source = about.get(way, (f"`{judge}`", {"rounds": "ensembles", "forward": "all members"}.get(way)))
        cells = [name, source, "–" if gain is None else f"{gain:g}", f"{accuracies.mean():.2f}"]
        cells += ["–" if way == "candidates" else apart, f"{fmean(row['weakest'] for row in same):.2f}"]
        cells.append(f"{100 * fmean(row['differing'] for row in same):.0f}")
        cells.append("–" if judge in (None, "likelihood") else f"{fmean(row['judge_seconds'] for row in same):.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def apart():
    """The likeliest ensemble under every `search.apart`: means of the searches, differences from what is drawn."""
    rows = read("judges", "apart.json")["rows"]
    lines = [
        "| `search.rounds` | chosen | members' accuracy % | less the candidates' | less those at δ = 0 "
        "| edges differing % |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for rounds in dict.fromkeys(row["rounds"] for row in rows):
        found = {}  # by what is chosen: accuracies, a mean for every search; edges that differ
        for row in rows:
            if row["rounds"] == rounds:
                found.setdefault((row["chosen"], row.get("apart")), {}).setdefault(row["seed"], []).append(row)
        means = {kind: np.array([fmean(row["accuracy"] for row in same) for same in seeds.values()])
                 for kind, seeds in found.items()}  # fmt: skip
        drawn, plain = (means[kind, None] for kind in ("candidates", "unjudged"))
        names = {"candidates": "all ensembles drawn", "unjudged": "those drawn at δ = 0"}
        for (chosen, share), seeds in found.items():
            own = means[chosen, share]
            cells = [
                f"{rounds}",
                names.get(chosen, f"the likeliest, `search.apart={share:g}`" if share else "the likeliest"),
            ]
            cells.append(f"{own.mean():.2f}")
            cells += ["–" if own is other else _interval(*_paired(own, other), 2) for other in (drawn, plain)]
            cells.append(f"{100 * fmean(row['differing'] for same in seeds.values() for row in same):.0f}")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


JUDGED = ("judge", "gain", "gain_pool")  # what tells judges apart in their record
CHOSEN = {  # folders of ensembles trained under the seeds of five searches
    "trained": "three architectures by short trainings",
    "trained-command": "the same by `search.judge=trained`",
    "likeliest-apart": "three likely architectures that differ",
    "likeliest": "a deep ensemble of the posterior's likeliest",
    "oracle": "a deep ensemble of the benchmark's best, an oracle's",
}


def chosen_ensembles():
    """Error and NLL of the ensembles of CHOSEN by seed, and the paired difference from the first of them."""
    lines = [
        "| ensemble | error % by seed | mean | NLL | error less the first's, 95 % interval | NLL less the first's |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    found = {folder: chosen_scores(folder) for folder in CHOSEN}
    first = found["trained"]
    for folder, name in CHOSEN.items():
        errors, nlls = found[folder]
        cells = [" ".join(f"{error:.2f}" for error in errors), f"{errors.mean():.2f}", f"{nlls.mean():.4f}"]
        if folder == "trained":
            cells += ["–", "–"]
        else:
            pairs = [(own, other[: len(own)]) for own, other in zip(found[folder], first, strict=True)]
            cells += [_interval(*_paired(*pair), digits) for pair, digits in zip(pairs, (2, 4), strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def chosen_scores(folder):
    """Test errors in per cent, (seeds,), and NLL, (seeds,), of the seeds from 31 on that were trained."""
    seeds = sorted(int(one.name) for one in (RESULTS / folder).iterdir() if one.name.isdecimal())
    scores = [read(folder, str(seed), "metrics.json")["ensemble"] for seed in seeds]
    return np.array([100 * score["error"] for score in scores]), np.array([score["nll"] for score in scores])


def _interval(mean, half, digits):
    """A mean difference with its interval."""
    return _between(mean, mean - half, mean + half, digits)


def _between(value, low, high, digits):
    return f"{value:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})".replace("-", "−")


def _paired(values, others):
    """The mean difference, and half the width of its 95 % interval."""
    apart = values - others
    return apart.mean(), t.ppf(0.975, len(apart) - 1) * apart.std(ddof=1) / len(apart) ** 0.5


def interval(values, others):
    """The mean difference, and the ends of its 95 % interval."""
    mean, half = _paired(values, others)
    return mean, mean - half, mean + half


def judged_apart(files, way, judge, other):
    """How much better the members are that a judge chose, without the gain, than another's, or than all drawn."""
    rows = [row for file in files for row in read("judges", f"{file}.json")["rows"]]

    def accuracies(chosen, judge):
        same = [row for row in rows if (row["chosen"], row.get("judge")) == (chosen, judge) and not row.get("gain")]
        return np.array([row["accuracy"] for row in same])

    return interval(accuracies(way, judge), accuracies(way if other else "candidates", other))


def likeliest_apart(rounds, share):
    """The accuracies of the likeliest ensembles that are so far apart, a mean for every search."""
    found = {}
    for row in read("judges", "apart.json")["rows"]:
        if (row["rounds"], row.get("apart")) == (rounds, share):
            found.setdefault(row["seed"], []).append(row["accuracy"])
    return np.array([fmean(same) for same in found.values()])


def drawn_by(sampler, variance, delta):
    """The accuracies of members as a sampler draws them, one of each posterior, in their order."""
    kind = (sampler, variance, delta)
    rows = read("samplers", "samplers.json")["rows"]
    same = [row for row in rows if (row["sampler"], row.get("variance"), row.get("delta")) == kind]
    return np.array([row["accuracy"] for row in sorted(same, key=lambda row: row["posterior"])])


def one_run(name):
    """A run whole: errors and NLL of the ensemble and its members, disagreement, and what each part took."""
    metrics, record = (read(name, f"{file}.json") for file in ("metrics", "record"))
    ensemble = metrics["ensemble"]
    lines = ["| | error % | NLL |", "| --- | --- | --- |"]
    lines.append(f"| ensemble | {100 * ensemble['error']:.2f} | {ensemble['nll']:.4f} |")
    for number, member in enumerate(ensemble["members"], start=1):
        lines.append(f"| member {number} | {100 * member['error']:.2f} | {member['nll']:.4f} |")
    lines.append(f"| mean of the members | {100 * ensemble['member_error']:.2f} | – |")
    told = ", ".join(f"{stage} {entry['seconds']:.0f} s" for stage, entry in record["stages"].items())
    lines += ["", f"PPD {100 * ensemble['disagreement']:.2f} %. {record['device'].replace('cpu', 'CPU')}: {told}."]
    return "\n".join(lines)


def beyond():
    """What else was measured of the benchmark's best network."""
    ensemble = read("nasbench201", "best", "metrics.json")["ensemble"]
    heat, people, unseen = (ensemble[part]["ensemble"] for part in ("temperature", "human", "unseen"))
    by_kind = ensemble["corruptions"]["ensemble"]["by_corruption"]
    lines = ["| measure | value |", "| --- | --- |"]
    lines.append(f"| ECE before, after temperature scaling | {heat['before']['ece']:.4f}, {heat['after']['ece']:.4f} |")
    lines.append(f"| NLL before, after | {heat['before']['nll']:.4f}, {heat['after']['nll']:.4f} |")
    lines.append(f"| KL divergence to people's labels (CIFAR-10H) | {people['kl_divergence']:.4f} |")
    score = unseen["max_probability"]
    lines.append(f"| AUROC against `fashion-mini`, by maximum probability | {score['auroc']:.4f} |")
    for place, severity in ((0, 1), (4, 5)):
        mean = fmean(rows["error"][place] for rows in by_kind.values())
        lines.append(f"| error %, mean over {len(by_kind)} corruptions, severity {severity} | {100 * mean:.2f} |")
    return "\n".join(lines)


def shifted():
    """The three of the headline beside people's labels and unseen images, and one network of the benchmark's best."""

    def networks(*folder):
        ensemble = read(*folder, "metrics.json")["ensemble"]
        people, unseen = ensemble["human"], ensemble["unseen"]
        for human, other in [
            (people["ensemble"], unseen["ensemble"]),
            *zip(people["members"], unseen["members"], strict=True),
        ]:
            yield human["kl_divergence"], other["entropy"]["auroc"]

    (ensemble, *members), (single, *_) = networks("cifar10-headline", "shift"), networks("nasbench201", "best")
    names = ("KL divergence to people's labels (CIFAR-10H)", "AUROC against `fashion-mini`, by entropy")
    lines = ["| measure | the ensemble | its networks, mean | `best`, one network |", "| --- " * 4 + "|"]
    for name, *values in zip(names, ensemble, map(fmean, zip(*members, strict=True)), single, strict=True):
        lines.append(f"| {name} | {' | '.join(f'{value:.4f}' for value in values)} |")
    return "\n".join(lines)


def robust():
    """The demo's ensembles and copies of their posterior's likeliest on changed images: means and differences."""
    ours, copies = (
        [_robustness(folder) for folder in sorted((RESULTS / "demo-robust").glob(f"{kind}-*"))]
        for kind in ("ours", "copies")
    )
    lines = [f"| {len(ours)} seeds | ours | three copies | copies less ours |", "| --- " * 4 + "|"]
    told_apart = []
    for name, digits in {measure: 4 if measure.startswith(("AUROC", "NLL")) else 2 for measure in ours[0]}.items():
        two = [np.array([found[name] for found in rows]) for rows in (ours, copies)]
        means = " | ".join(f"{values.mean():.{digits}f}" for values in two)
        apart, half = _paired(*reversed(two))
        lines.append(f"| {name} | {means} | {_between(apart, apart - half, apart + half, digits)} |")
        if abs(apart) > half:
            told_apart.append(f"{name.removesuffix(' %')} (the {'copies' if apart > 0 else 'ensembles'} have more)")
    lines += ["", f"Told apart over seeds, by intervals of 95 %: {'; '.join(told_apart) or 'nothing'}."]
    return "\n".join(lines)


def _robustness(folder):
    """What one ensemble is worth on images that are not as those it was trained on; shares in per cent."""
    ensemble = read(folder, "metrics.json")["ensemble"]
    corrupted = ensemble["corruptions"]["ensemble"]["mean"]
    found = {
        "error %": 100 * ensemble["error"],
        "error on corrupted images %": 100 * corrupted["error"],
        "NLL on corrupted images": corrupted["nll"],
        "AUROC against CIFAR-10, by entropy": ensemble["unseen"]["ensemble"]["entropy"]["auroc"],
    }
    for name, attack in read(folder, "attacks.json")["ensemble"]["attacks"].items():
        found[f"{name.upper()}, attacked network: right %"] = 100 * attack["attack"]
        found[f"{name.upper()}, ensemble on the same images: right %"] = 100 * attack["defence"]
        found[f"{name.upper()} on the ensemble itself: right %"] = 100 * attack["adaptive"]["attack"]
    return found


def attacks():
    """An ensemble under attack: on 1,000 test images with all attacks, on all of them with two."""
    return _attacked(read("attacks", "1000.json"), read("attacks", "10000.json"))


def attacked():
    """The ensemble of the headline under attack."""
    return _attacked(read("cifar10-headline", "shift", "attacks.json"))


def _attacked(*records):
    lines = [
        "| attack | test images | clean: members, ensemble | Attack | Defence | adaptive | median L2 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for record in records:
        for name, found in record["ensemble"]["attacks"].items():
            clean = found["clean"]
            cells = [
                {"cw": "CW", "autoattack": "AutoAttack"}.get(name, name.upper()),
                f"{found['images']:,}",
                f"{100 * fmean(clean['members']):.2f}, {100 * clean['ensemble']:.2f}",
                *(f"{100 * found[kind]:.2f} ± {100 * found[f'{kind}_std']:.2f}" for kind in ("attack", "defence")),
                f"{100 * found['adaptive']['attack']:.2f}",
                f"{fmean(one['l2'] for one in found['rounds']):.3f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
