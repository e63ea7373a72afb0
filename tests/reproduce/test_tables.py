"""Tables and figures from hand-made records: every figure where it belongs, the paper's beside it, dashes elsewhere."""

import csv
import io
import math
import re

import matplotlib
import pytest
import tables

from nesbs import reproduce
from nesbs.records import ExperimentRecord
from nesbs.report import canvas
from nesbs.report.formats import NOTHING
from nesbs.reproduce import NAMES, experiment, paper_figures
from nesbs.reproduce.exhibit import as_csv, as_latex, as_markdown

ABOUT = {
    "data": "fashion-mini",
    "train_images": 800,
    "test_images": 400,
    "size": [12, 12],
    "space": "darts",
    "ensemble_size": 3,
    "searched_on": None,
    "epochs": {"supernet": 3, "members": 2},
}

SEARCH = {"epochs": {"supernet": 3, "members": None}, "added": ["dreams"]}
MOVED = {"searched_on": "CIFAR-10", "epochs": {"supernet": None, "members": 2}, "added": []}


def record(name, parts, *, scale="smoke", **more):
    asked = {"name": name, "scale": scale, "set": [], "seed": None}
    parts = {label: {**ABOUT, **part} for label, part in parts.items()}
    return {"asked": asked, "device": "cpu", "left_out": {}, "parts": parts, "complete": True, **more}


def outcome(seed, **figures):
    plain = {"error": 0.5, "top5_error": 0.25, "member_error": 0.5, "disagreement": 0.25}
    costs = {"parameters": 1.5e6, "multiply_adds": 2.5e8, "search_seconds": 36.0, "training_seconds": 9.0}
    return {"seed": seed, "architectures": ["a"], **plain, **costs, **figures}


def point(method, size, budget, error, temperature=None, delta=None, seeds=()):
    mean = None if error is None else {"mean": error, "standard_error": 0.01}
    keys = {"method": method, "size": size, "budget": budget, "temperature": temperature, "delta": delta}
    outcomes = [{"seed": seed, "error": each} for seed, each in enumerate(seeds)]
    return {**keys, "seeds": outcomes, "mean": {"error": mean, "nll": None}, "difference": None}


def rankings(*sizes):
    def interval(value):
        return {"value": value, "low": value - 0.1, "high": value + 0.1}

    return [
        {"size": n, "spearman": interval(n / 10), "pearson": interval(-n / 10), "agreement": interval(0.3)}
        for n in sizes
    ]


def attacked(accuracy):
    result = {"attack": accuracy, "attack_std": 0.01, "defence": accuracy + 0.2, "defence_std": 0.02, "images": 40}
    return {"clean": {}, "attacks": {"fgsm": {**result, "adaptive": accuracy / 2}}}


GAUSSIANS = {
    "centres": [[-1.0, 0.0], [0.0, 1.0]],
    "variances": [0.25, 0.5],
    "seeds": [0, 1],
    "deltas": [
        {"delta": -1.0, "particles": [[0.0, 0.0], [0.0, 1.0]], "log_density": [[-2.0, -2.0], [-2.0, -2.0]]},
        {"delta": 2.0, "particles": [[-2.0, 0.0], [1.0, 1.0]], "log_density": [[-1.0, -3.0], [-2.0, -6.0]]},
    ],
}
RECORDS = {
    "table1": record(
        "table1",
        {
            "CIFAR-10": {
                "methods": {"nesbs": [outcome(0, error=0.1), outcome(1, error=0.2)], "enas": [outcome(0, error=0.4)]}
            }
        },
    ),
    "table2": record("table2", {"CIFAR-10": {"methods": {"deep:darts-v2": [outcome(0, error=0.125)]}}}),
    "table3": record(
        "table3",
        {"CIFAR-10": SEARCH, "ImageNet": {**MOVED, "methods": {"nes-rs": [outcome(0, error=0.75, top5_error=0.5)]}}},
    ),
    "table4": record("table4", {"CIFAR-10": {"methods": {"nes-rs": attacked(0.5)}}}),
    "table5": record(
        "table5", {"CIFAR-10": {"methods": {"nesbs-mc": [outcome(0, member_error=0.3, disagreement=0.15)]}}}
    ),
    "table6": record(
        "table6",
        {
            "CIFAR-10": {
                "rankings": {"error": rankings(1, 3), "loss": rankings(1)},
                "truth": {"epochs": 1},
                "verdict": "It cannot be told from chance.",
            }
        },
    ),
    "table7": record(
        "table7",
        {
            "CIFAR-10": {
                "methods": {
                    "nesbs": [outcome(seed, error=0.10 + seed / 100) for seed in range(3)],
                    "nesbs-best-response": [outcome(seed, error=0.12 + seed / 50) for seed in range(3)],
                }
            }
        },
    ),
    "fig-delta": record("fig-delta", {}, gaussians=GAUSSIANS),
    "fig-tradeoff": record(
        "fig-tradeoff",
        {
            "CIFAR-10": {
                "methods": {
                    "nes-rs": {
                        "architectures": ["a"],
                        "errors": [0.1, 0.2],
                        "which": [0, 0],
                        "points": [[0, 1], [1, 0]],
                    }
                },
                "plane": "t-SNE, perplexity 1",
                "repeats": 2,
            }
        },
    ),
    "fig-discrepancy": record(
        "fig-discrepancy",
        {
            "CIFAR-10": {
                "posteriors": {
                    "post-training": [
                        {"seed": 0, "mode": 0.5, "best": 0.375, "gap": 0.125},
                        {"seed": 1, "mode": 0.5, "best": 0.25, "gap": 0.25},
                    ],
                    "best-response": [{"seed": 0, "mode": 0.5, "best": 0.25, "gap": 0.25}],
                }
            }
        },
    ),
    "fig-efficiency": record(
        "fig-efficiency",
        {
            "CIFAR-10": {
                "seeds": [0, 1],
                "points": [
                    point("nesbs", 3, 10, 0.30, 1.0),
                    point("nesbs", 3, 20, 0.25, 1.0),
                    point("nesbs", 5, 10, None, 1.0),
                    point("urs", 3, 10, 0.35),
                    point("single-best", 5, 20, 0.4),
                ],
            }
        },
    ),
    "fig-temperature": record(
        "fig-temperature",
        {
            "CIFAR-10": {
                "seeds": [0],
                "points": [
                    point("nesbs", 5, 40, 0.2, 0.1),
                    point("nesbs", 5, 40, 0.3, 10.0),
                    point("nesbs-mc", 5, 40, 0.4, 10.0),
                    point("single-best", 5, 40, 0.5),
                ],
            }
        },
    ),
    "fig-diversity": record(
        "fig-diversity",
        {
            "CIFAR-10": {
                "seeds": [0],
                "points": [
                    point("nesbs", 5, 40, 0.2, 0.1),
                    point("nesbs", 5, 40, 0.25, 0.1, -1.0),
                    point("nesbs", 5, 40, 0.15, 0.1, 1.0),
                    point("nesbs", 5, 40, 0.35, 10.0, -1.0),
                ],
            }
        },
    ),
}


def tables_of(known, value):
    return reproduce.tables_of(known, ExperimentRecord.from_json(value))


def picture_of(known, value):
    return reproduce.picture_of(known, ExperimentRecord.from_json(value))


def cells(table):
    """What a table says: row and column to figure, ours or the paper's."""
    printed = table.as_table()
    columns = [heading.replace("\n", ": ") for heading in printed.headings[1:]]
    return {(row[0], column): cell for row in printed.rows for column, cell in zip(columns, row[1:], strict=True)}


def test_every_name_has_a_record_here():
    assert set(RECORDS) == set(NAMES)


EXPECTED = {
    "table1": {
        ("NESBS (SVGD-RD)", "test error %: ours, fashion-mini"): "15.00 ± 5.00",
        ("NESBS (SVGD-RD)", "test error %: the paper's, CIFAR-10"): "5.92 ± 0.07",
        ("NESBS (SVGD-RD)", "search cost, h: ours, fashion-mini"): "0.0100 ± 0.0000",
        ("NESBS (SVGD-RD)", "search cost, h: the paper's, CIFAR-10"): "1.2",
        ("ENAS", "test error %: ours, fashion-mini"): "40.00",  # one seed has no spread
        ("GDAS", "test error %: ours, fashion-mini"): NOTHING,
        ("ResNet", "test error %: the paper's, CIFAR-10"): "6.03",
        ("ResNet", "search cost, h: the paper's, CIFAR-10"): NOTHING,
    },
    "table2": {
        ("DeepEns (DARTS)", "test error %: ours, fashion-mini"): "12.50",
        ("DeepEns (DARTS)", "test error %: the paper's, CIFAR-10"): "2.42",
        ("DeepEns (DARTS)", "parameters, M: ours, fashion-mini"): "1.500",
        ("NES-RS", "search cost, days: ours, fashion-mini"): NOTHING,
        ("NES-RS", "search cost, days: the paper's, CIFAR-10"): "0.7",
    },
    "table3": {
        ("NES-RS", "top-1 error %: ours, fashion-mini"): "75.00",
        ("NES-RS", "top-5 error %: ours, fashion-mini"): "50.00",
        ("NES-RS", "multiply-adds, M: ours, fashion-mini"): "250.0",
        ("NES-RS", "top-1 error %: the paper's, ImageNet"): "23.4",
        ("P-DARTS", "top-1 error %: ours, fashion-mini"): NOTHING,
    },
    "table4": {
        ("NES-RS, FGSM", "Attack, accuracy %: ours, fashion-mini"): "50.00 ± 1.00",
        ("NES-RS, FGSM", "Defence, accuracy %: ours, fashion-mini"): "70.00 ± 2.00",
        ("NES-RS, FGSM", "Adaptive, accuracy %: ours, fashion-mini"): "25.00",
        ("NES-RS, FGSM", "Defence, accuracy %: the paper's, CIFAR-10"): "89.32 ± 0.27",
        ("NES-RS, CW", "Attack, accuracy %: ours, fashion-mini"): NOTHING,
        ("NES-RS, CW", "Attack, accuracy %: the paper's, CIFAR-10"): "37.20 ± 4.62",
    },
    "table5": {
        ("NESBS (MC Sampling)", "ATE %: ours, fashion-mini"): "30.00",
        ("NESBS (MC Sampling)", "PPD %: ours, fashion-mini"): "15.00",
        ("NESBS (MC Sampling)", "PPD %: the paper's, CIFAR-10"): "2.57",
        ("MC DropPath (DARTS)", "ATE %: ours, fashion-mini"): NOTHING,
    },
    "table6": {
        ("Spearman, by error", "n = 3: ours, fashion-mini"): "0.30 [0.20, 0.40]",
        ("Pearson, by error", "n = 1: ours, fashion-mini"): "−0.10 [−0.20, 0.00]",
        ("Agreement-30 %, by error (in %)", "n = 1: ours, fashion-mini"): "30.00 [20.00, 40.00]",
        ("Spearman, by error", "n = 7: ours, fashion-mini"): NOTHING,
        ("Spearman, by error", "n = 7: the paper's, CIFAR-10"): "−0.12",
        ("Spearman, by loss", "n = 7: the paper's, CIFAR-10"): NOTHING,
    },
    "table7": {
        ("NESBS (SVGD-RD)", "best-response, test error %: ours, fashion-mini"): "14.00 ± 1.15",
        ("NESBS (SVGD-RD)", "post-training, test error %: ours, fashion-mini"): "11.00 ± 0.58",
        # Differences of 2, 3 and 4 points: mean 3, t interval of 4.303 standard errors of 1/√3.
        ("NESBS (SVGD-RD)", "Δ, points: ours, fashion-mini"): f"3.00 [{3 - 4.3027 / math.sqrt(3):.2f}, 5.48]",
        ("NESBS (SVGD-RD)", "Δ, points: the paper's, CIFAR-10"): "0.33",
        ("NESBS (MC Sampling)", "Δ, points: ours, fashion-mini"): NOTHING,
    },
    "fig-delta": {
        ("δ = −1", "spread of log density, nats: ours"): "0.000 ± 0.000",
        # Deviations √2 and 2√2 over two seeds.
        ("δ = 2", "spread of log density, nats: ours"): f"{1.5 * math.sqrt(2):.3f} ± {0.5 * math.sqrt(2):.3f}",
        ("δ = 2", "mean log density, nats: ours"): "−3.000 ± 1.000",
    },
    "fig-tradeoff": {
        ("NES-RS", "mean error of networks (ATE) %: ours, fashion-mini"): "15.00 ± 7.07",
        ("NES-RS", "mean error of networks (ATE) %: the paper's, CIFAR-10 (Table 5)"): "2.87",
        ("NES-RS", "networks: ours"): "2",
        ("DeepEns (DARTS)", "networks: ours"): NOTHING,
    },
    "fig-discrepancy": {
        ("post-training", "likeliest architecture, test error %: ours, fashion-mini"): "50.00 ± 0.00",
        ("post-training", "gap, points: ours, fashion-mini"): "18.75 ± 6.25",
        ("best-response", "best architecture, test error %: ours, fashion-mini"): "25.00",
        # The one seed that both have: 25 less 12.5.
        ("best-response less post-training", "gap, points: ours, fashion-mini"): "12.50",
    },
    "fig-efficiency": {
        ("NESBS (SVGD-RD)", "20 judged: ours, fashion-mini"): "25.00 ± 1.00",
        ("URS", "20 judged: ours, fashion-mini"): NOTHING,
    },
    "fig-temperature": {("NESBS (SVGD-RD)", "40 judged: ours, fashion-mini"): "20.00 ± 1.00"},
    "fig-diversity": {
        ("NESBS (SVGD-RD)", "δ = −1: ours, fashion-mini"): "25.00 ± 1.00",
        ("NESBS (SVGD-RD)", "δ = 1: ours, fashion-mini"): "15.00 ± 1.00",
    },
}


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_where_they_belong(name):
    tables = tables_of(experiment(name), RECORDS[name])
    said, text = cells(tables[0]), as_markdown(tables)
    assert {key: said.get(key) for key in EXPECTED[name]} == EXPECTED[name]
    for (row, _), figure in EXPECTED[name].items():
        line = next(line for line in text.splitlines() if line.startswith(f"| {row} "))
        assert f" {figure} " in line
    # No table of ours is called by the name of data that it was not made on.
    assert "CIFAR" not in " ".join(column for _, column in said if ": ours" in column)
    if RECORDS[name]["parts"]:
        assert "fashion-mini, 800 training and 400 test images of 12×12 pixels" in text


@pytest.mark.parametrize("name", NAMES)
def test_the_three_formats_say_the_same(name):
    tables = tables_of(experiment(name), RECORDS[name])
    rows = list(csv.DictReader(io.StringIO(as_csv(tables))))
    numbers = [cell for table in tables for _, row in table.rows for cell in row]
    for line, cell in zip(rows, numbers, strict=True):
        for whose, number in (("ours", cell.ours), ("paper", cell.paper)):
            assert line[whose] == NOTHING if number is None else float(line[whose]) == pytest.approx(number.value)
    latex = as_latex(tables)
    lines = [line for line in latex.splitlines() if line.endswith("\\\\") and "shortstack" not in line]
    assert len(lines) == sum(len(table.rows) for table in tables)
    assert all(line.count(" & ") == len(tables[0].as_table().headings) - 1 for line in lines[: len(tables[0].rows)])
    assert latex.count("\\begin{tabular}") == len(tables) == latex.count("\\end{tabular}")
    assert "".join(lines).isascii()  # pdflatex stops at a letter that it does not know
    assert not set("%&_#") & set(re.sub(r"\\[%&_#]| & ", "", "".join(lines)))


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_record_gives_dashes(name):
    tables = tables_of(experiment(name), {})
    assert all(cell.ours is None for table in tables for _, row in table.rows for cell in row)
    assert "Unfinished" in as_markdown(tables)


@pytest.fixture
def _no_pixels(monkeypatch):
    """Pictures of lines alone: a PNG takes as long again."""
    monkeypatch.setattr("nesbs.report.canvas.saved", lambda figure: (canvas.as_svg(figure), b""))


@pytest.mark.usefixtures("_no_pixels")
def test_a_record_from_another_hand_is_escaped():
    known = {"parts": {"CIFAR-10": {**ABOUT, "data": "a|b_c&{d}"}}}
    tables = tables_of(experiment("table5"), known)
    assert "a\\|b_c&{d}" in as_markdown(tables)
    assert "a|b\\_c\\&\\{d\\}" in as_latex(tables)
    svg, _ = picture_of(experiment("fig-discrepancy"), {"parts": {"CIFAR-10": {**ABOUT, "data": "$<x>^{$"}}})
    assert "$&lt;x&gt;^{$" in svg


@pytest.mark.parametrize("name", ["table1", "table4", "table6", *NAMES[7:11], "fig-diversity"])
def test_a_picture_of_every_kind(name):
    svg, png = picture_of(experiment(name), RECORDS[name])
    assert "<dc:date>" not in svg
    assert b"matplotlib" not in png
    assert png.startswith(b"\x89PNG")
    assert experiment(name).shows in svg  # says what it is the counterpart of
    if RECORDS[name]["parts"]:
        assert "fashion-mini" in svg


def test_the_same_record_gives_the_same_picture_whatever_the_users_style():
    name = "fig-discrepancy"
    first = picture_of(experiment(name), RECORDS[name])
    with matplotlib.rc_context({"font.size": 20, "svg.hashsalt": None, "axes.facecolor": "red"}):
        assert picture_of(experiment(name), RECORDS[name]) == first


@pytest.mark.usefixtures("_no_pixels")
@pytest.mark.parametrize("name", ["table7", "fig-tradeoff", "fig-efficiency", "fig-delta"])
def test_an_empty_record_gives_a_picture_too(name):
    assert picture_of(experiment(name), {})[0].startswith("<?xml")


@pytest.mark.usefixtures("_no_pixels")
def test_the_papers_errors_are_drawn_on_its_own_data_only():
    known = RECORDS["fig-tradeoff"]
    there = {**known, "parts": {"CIFAR-10": {**known["parts"]["CIFAR-10"], "data": "cifar10"}}}
    assert "the paper's 2.87" not in picture_of(experiment("fig-tradeoff"), known)[0]
    assert "the paper's 2.87" in picture_of(experiment("fig-tradeoff"), there)[0]


@pytest.mark.parametrize(("errors", "drawn"), [([0.029, 0.031], True), ([0.15, 0.16], False)])
def test_ours_fill_half_the_axis_or_more_and_the_papers_error_is_named(errors, drawn, monkeypatch):
    monkeypatch.setattr("nesbs.reproduce.draw_pictures.titled", lambda figure, _: figure)
    known = RECORDS["fig-tradeoff"]
    methods = {"nes-rs": {**known["parts"]["CIFAR-10"]["methods"]["nes-rs"], "errors": errors}}
    there = {"CIFAR-10": {**known["parts"]["CIFAR-10"], "data": "cifar10", "methods": methods}}
    panel = picture_of(experiment("fig-tradeoff"), {**known, "parts": there}).axes[1]  # of NES-RS
    low, high = panel.get_xlim()
    assert 100 * (errors[1] - errors[0]) > 0.4 * (high - low)
    assert [text.get_text() for text in panel.get_legend().get_texts()] == [
        f"mean of ours {50 * sum(errors):.2f}",
        "the paper's 2.87" if drawn else "the paper's 2.87, off the axis",
    ]
    assert (low < 2.87 < high) == drawn


def test_curves_come_in_panels_by_size_or_by_temperature():
    def titles(name):
        return [table.title.rpartition("; ")[2] for table in tables_of(experiment(name), RECORDS[name])]

    assert titles("fig-efficiency") == ["n = 3", "n = 5"]
    assert titles("fig-temperature") == ["τ = 0.1, n = 5", "τ = 10, n = 5"]
    assert titles("fig-diversity") == ["τ = 0.1, n = 5", "τ = 10, n = 5"]
    flat = cells(tables_of(experiment("fig-temperature"), RECORDS["fig-temperature"])[1])
    assert list(flat.values()) == ["30.00 ± 1.00", "40.00 ± 1.00", "50.00 ± 1.00"]


def test_darts_minus_is_the_mean_over_its_authors_cells_of_each_data_set():
    parts = {
        "CIFAR-10": {
            **ABOUT,
            "methods": {
                f"single:darts-minus{end}": [outcome(0, error=error)] for end, error in (("", 0.1), ("-4", 0.2))
            },
        },
        "CIFAR-100": {**ABOUT, "methods": {"single:darts-minus-c100-3": [outcome(0, error=0.5)]}},
    }
    known = record("table2", parts, scale="paper")
    [table] = tables_of(experiment("table2"), known)
    [row] = [cells for label, cells in table.rows if label == "DARTS- (avg)"]
    assert (row[0].ours.value, row[0].ours.spread) == pytest.approx((15.0, 5.0))  # two cells: √2 · 5 / √2
    assert row[1].ours.value == pytest.approx(50.0)
    assert (row[0].paper.value, row[1].paper.value) == (2.59, 17.51)
    assert "DARTS- (avg) is the mean over its authors' cells" in as_markdown([table])


def test_three_seeds_say_how_far_the_others_are_above_nesbs():
    methods = {
        "nesbs": [outcome(seed, error=0.1 + seed / 100) for seed in range(3)],
        "nes-rs": [outcome(seed, error=0.11 + seed / 50) for seed in range(3)],
        "deep": [outcome(seed, error=0.1) for seed in range(2)],  # too few
    }
    known = record("table1", {"CIFAR-10": {"methods": methods}})
    _, differences = tables_of(experiment("table1"), known)
    # 1, 2 and 3 points: 2 ± 4.303 · 1 / √3
    assert cells(differences) == {
        ("NES-RS", "Δ test error, points: ours, fashion-mini"): "2.00 [−0.48, 4.48]",
        ("NES-RS", "Δ test error, points: the paper's, CIFAR-10"): "−0.09",  # 5.83 less 5.92
    }
    assert picture_of(experiment("table1"), known)[1].startswith(b"\x89PNG")
    fewer = {name: rows[:2] for name, rows in methods.items()}
    assert len(tables_of(experiment("table1"), record("table1", {"CIFAR-10": {"methods": fewer}}))) == 1


def curves_of(name, *points):
    known = record(name, {"CIFAR-10": {"seeds": [0, 1, 2], "points": points}})
    return tables_of(experiment(name), known)


def test_three_seeds_say_how_far_the_other_curves_are_above_nesbs():
    points = [
        point("nesbs", 3, 10, 0.3, 1.0, seeds=[0.10, 0.11, 0.12]),
        point("nesbs", 3, 20, 0.3, 1.0, seeds=[0.10, 0.11]),
        point("urs", 3, 10, 0.3, seeds=[0.11, 0.13, 0.15]),
        point("urs", 3, 20, 0.3, seeds=[0.11, 0.13, 0.15]),  # two seeds in common: too few
        point("nes-rs", 3, 20, 0.3, seeds=[0.11, 0.13, 0.15]),
    ]
    *_, differences = curves_of("fig-efficiency", *points)
    assert cells(differences) == {
        ("URS, n = 3", "Δ at 10 judged, points: ours, fashion-mini"): "2.00 [−0.48, 4.48]",
        ("URS, n = 3", "Δ at 20 judged, points: ours, fashion-mini"): NOTHING,
    }
    assert "paired over seeds, with a 95 % t interval" in as_markdown([differences])
    assert len(curves_of("fig-efficiency", *points[1:])) == 1


def test_three_seeds_say_which_delta_is_best_under_a_sharp_and_a_flat_posterior():
    errors = {0.1: {-1.0: [0.3, 0.3, 0.1], 1.0: [0.2, 0.2, 0.2]}, 10.0: {-1.0: [0.1, 0.1, 0.2], 1.0: [0.2, 0.2, 0.2]}}
    points = [
        point("nesbs", 5, 40, 0.2, tau, delta, seeds=values)
        for tau, by_delta in errors.items()
        for delta, values in by_delta.items()
    ]
    *_, best = curves_of("fig-diversity", *points)
    # δ* is 1, 1, −1 at τ = 0.1: 1/3 ± 2/3; −1, −1 and a tie, 0, at τ = 10; the difference 2, 2, −1: 1 ± 4.303 · 1
    assert cells(best) == {
        ("τ = 0.1, n = 5", "δ*: ours, fashion-mini"): "0.33 ± 0.67",
        ("τ = 0.1, n = 5", "δ* less that at τ = 10, n = 5: ours, fashion-mini"): "1.00 [−3.30, 5.30]",
        ("τ = 10, n = 5", "δ*: ours, fashion-mini"): "−0.67 ± 0.33",
        ("τ = 10, n = 5", "δ* less that at τ = 10, n = 5: ours, fashion-mini"): NOTHING,
    }
    assert len(curves_of("fig-diversity", *points[:2])) == 1  # one τ: nothing to compare


def test_autoattack_is_shown_at_our_size_and_at_its_authors_beside_the_same_figure_of_the_paper():
    entry = attacked(0.5)
    entry["attacks"] |= {
        "autoattack": entry["attacks"]["fgsm"],
        "autoattack8": {**entry["attacks"]["fgsm"], "attack": 0.0},
    }
    known = record("table4", {"CIFAR-10": {**ABOUT, "methods": {"nes-rs": entry}}})
    tables = tables_of(experiment("table4"), known)
    said = cells(tables[0])
    for label, ours in (("ours at ε = 0.01", "50.00 ± 1.00"), ("ours at its authors' ε = 8/255", "0.00 ± 1.00")):
        assert said[f"NES-RS, AutoAttack, {label}", "Attack, accuracy %: ours, fashion-mini"] == ours
        assert said[f"NES-RS, AutoAttack, {label}", "Attack, accuracy %: the paper's, CIFAR-10"] == "35.00 ± 1.15"
    assert "gives no ε. Its figure stands beside both of ours" in as_markdown(tables)


def test_where_the_search_was_made_is_said():
    text = as_markdown(tables_of(experiment("table3"), RECORDS["table3"]))
    assert "in the place of CIFAR-10: fashion-mini, 800 training" in text
    assert "space darts; supernet 3 epochs, the search alone." in text
    assert "space darts; cells of the search in the place of CIFAR-10, members 2 epochs." in text
    assert "the paper's method plus ours: dreams." in text
    assert "nothing added" not in text  # where no search was made there was nothing to add to


def test_the_settings_of_short_attacks_are_said():
    known = RECORDS["table4"]
    there = {"CIFAR-10": {**known["parts"]["CIFAR-10"], "attack": ["pgd.steps=10"]}}
    assert "Ours under the settings pgd.steps=10." in as_markdown(
        tables_of(experiment("table4"), {**known, "parts": there})
    )


def test_what_is_left_out_and_changed_is_said():
    known = {**RECORDS["table1"], "left_out": {"CIFAR-100": "no data"}, "complete": False}
    known["asked"] = {**known["asked"], "set": ["members.epochs=1"]}
    text = as_markdown(tables_of(experiment("table1"), known))
    assert "Left out: CIFAR-100 (no data)." in text
    assert "Changed by --set: members.epochs=1." in text
    assert "Unfinished: the same command resumes." in text


@pytest.mark.parametrize(
    ("name", "unseen"), [("table1", "CIFAR-100 and ImageNet16-120"), ("table4", "CIFAR-100"), ("table6", None)]
)
def test_data_sets_that_a_scale_does_not_run_are_left_out_and_said(name, unseen):
    text = as_markdown(tables_of(experiment(name), RECORDS[name]))
    assert re.findall(r"The paper's figures on (.*) are not shown: this scale", text) == [unseen] * bool(unseen)
    assert "the paper's, CIFAR-100" not in text
    assert "not run |" not in text


def test_what_trains_no_members_speaks_of_none():
    assert "supernet 3 epochs, members 2 epochs." in as_markdown(tables_of(experiment("table5"), RECORDS["table5"]))
    for name, rest in (
        ("table6", ""),
        ("fig-discrepancy", ", the search alone"),
        ("fig-efficiency", ", the search alone"),
    ):
        assert f"supernet 3 epochs{rest}." in as_markdown(tables_of(experiment(name), RECORDS[name]))


def test_the_papers_figures_are_what_it_prints():
    two = paper_figures("table2").rows
    assert two["NESBS (SVGD-RD)"]["CIFAR-10 error"] == "2.36"
    assert two["P-DARTS"] == {"CIFAR-10 error": "2.50", "CIFAR-10 params": "3.4", "search cost": "0.3"}
    four = paper_figures("table4").rows
    assert len(four) == 2 * 6 * 4
    assert four["CIFAR-100, NESBS (MC Sampling), CW"] == {"Attack": "15.64 ± 2.83", "Defence": "71.25 ± 1.27"}
    for row in four.values():  # an ensemble always defends better than the attacked member
        assert float(row["Attack"].split()[0]) < float(row["Defence"].split()[0])
    for row in paper_figures("table7").rows.values():
        assert float(row["best-response"]) - float(row["post-training"]) == pytest.approx(float(row["Δ"]))


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_the_rows_that_were_run_and_what_they_took(name, tmp_path):
    value = RECORDS[name] | {"device": "a GPU", "seconds": 754.0, "torch": "2.11.0", "started": "2026-11-18"}
    ExperimentRecord.from_json(value).write(tmp_path / name / "record.json")
    found = tables.reproduced(name, tmp_path)
    assert "computed on a GPU (torch 2.11.0, 2026-11-18) in 12 min 34 s." in found
    assert f"nesbs reproduce {name} --scale smoke --out runs/paper" in found
    assert ("worth nothing beside the paper's" in found) == (name != "fig-delta")  # whose setting is the paper's
    rows = [line for line in found.splitlines() if line.startswith("|") and not line.startswith("| -")]
    assert len(rows) >= 2
    if name == "table1":  # of the paper's ten rows
        assert [row.split("|")[1].strip() for row in rows[1:]] == ["ENAS", "NESBS (SVGD-RD)"]
    assert tables.measured(tmp_path).startswith(f"Minutes on a GPU: `{name}` 12.6. The sum is 12.6 minutes, ")
