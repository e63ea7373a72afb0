"""The pictures of these pages, drawn from records: `python docs/draw.py` writes `docs/pictures`.

What a picture shows is in a JSON file; `PICTURES` says which. The particles of δ's picture are computed here
and kept in `docs/pictures/delta.json`; `ranking.svg` shows what supernets estimated and `levers.svg` how well those of
other settings rank (`results/ranking`), `attack.svg` an ensemble under attack (`results/attacks`), the others the
demo of seed 0 (`results/demo/0`). Each of the paper's figures that has a record in `results/reproduce` is drawn as
`nesbs reproduce` draws it.
"""

from __future__ import annotations

import csv
import json
import math
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import torch
from torch import Tensor

import nesbs
from nesbs.records import ExperimentRecord
from nesbs.report import draw_cells
from nesbs.reproduce import experiment, picture_of

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
DEMO = ROOT / "results" / "demo" / "0"
RANKING = ROOT / "results" / "ranking"
ATTACKS = ROOT / "results" / "attacks" / "1000.json"
REPRODUCED = ROOT / "results" / "reproduce"
BENCHMARK = ROOT / "tests" / "nasbench201_sample.csv"
WIDTH = 400  # of every picture: its text stays legible on a telephone
INK, GREY, PALE, TEAL, ORANGE = "#1b2a2f", "#5c6b70", "#e3ecee", "#00796b", "#c24e00"
DELTAS = (-1.0, 0.0, 1.0, 2.0)
MEANS, VARIANCES = ((-1.0, 0.0), (0.0, 1.0)), (0.25, 0.5)  # paper, fig. 2


def two_gaussians(x: Tensor) -> Tensor:
    """The log density of the paper's two Gaussians, (…, 2) to (…)."""
    means, variances = x.new_tensor(MEANS), x.new_tensor(VARIANCES)
    each = -(x[..., None, :] - means).square() / (2 * variances)
    return each.sum(-1).logsumexp(-1) - math.log(4 * math.pi * math.sqrt(VARIANCES[0] * VARIANCES[1]))


def move_particles() -> dict[str, Any]:
    """Fifteen particles under every δ, from the same start; with the deviation of their log densities."""
    start = torch.randn(15, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    deltas = torch.tensor(DELTAS, dtype=torch.float64)
    found = nesbs.sample_svgd_rd(two_gaussians, start.expand(len(DELTAS), -1, -1), delta=deltas, steps=1000)
    return {
        "deltas": DELTAS,
        "particles": [[[round(value, 4) for value in point] for point in one] for one in found.tolist()],
        "deviations": [round(value, 4) for value in two_gaussians(found).std(-1).tolist()],
    }


def picture(title: str, height: float) -> ET.Element:
    """An empty picture on a white card, with a name for those who cannot see it."""
    view = {"viewBox": f"0 0 {WIDTH} {height:g}", "width": str(WIDTH), "height": f"{height:g}"}
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", **view})
    ET.SubElement(root, "title").text = title
    ET.SubElement(root, "style").text = f"text{{font:13px system-ui,sans-serif;fill:{INK}}}"
    add(root, "rect", width=WIDTH, height=height, rx=8, fill="#ffffff")
    return root


def add(parent: ET.Element, tag: str, words: str | None = None, **attributes: str | float) -> ET.Element:
    """Add an element; `_` in an attribute's name stands for `-`."""
    named = {
        name.replace("_", "-"): value if isinstance(value, str) else f"{value:.4g}"
        for name, value in attributes.items()
    }
    element = ET.SubElement(parent, tag, named)
    element.text = words
    return element


def text_of(root: ET.Element) -> str:
    """The picture as a file's text."""
    ET.indent(root, " ")
    return ET.tostring(root, encoding="unicode") + "\n"


def pipeline(record: dict[str, Any], selection: dict[str, Any]) -> str:
    """The stages from images to a measured ensemble, with what each took."""
    data, stages = record["data"], record["stages"]
    judged = len(selection["proposals"])
    rows = [
        ("images", f"{data['search_train']:,} to train on, {data['search_valid']:,} held out", None),
        ("supernet", "one network for the whole space", stages["supernet"]["seconds"]),
        ("posterior", "how probable is each architecture?", stages["posterior"]["seconds"]),
        ("ensembles", f"{judged} drawn and judged, one kept", stages["selection"]["seconds"]),
        ("members", f"{len(selection['architectures'])} networks, trained from scratch", stages["members"]["seconds"]),
        ("measures", f"on {data['test_images']:,} test images, and a page", stages["evaluation"]["seconds"]),
    ]
    pitch = 58
    said = "; ".join(f"{name}: {what}" for name, what, _ in rows)
    root = picture(f"The stages of the method, from top to bottom. {said}", pitch * len(rows) + 6)
    for place, (name, what, seconds) in enumerate(rows):
        top = 10 + place * pitch
        add(root, "rect", x=10, y=top, width=92, height=38, rx=6, fill=TEAL)
        add(root, "text", name, x=56, y=top + 24, text_anchor="middle", style="fill:#fff;font-weight:600")
        add(root, "text", what, x=112, y=top + (16 if seconds is not None else 24))
        if seconds is not None:
            took = f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
            add(root, "text", took, x=112, y=top + 34, style=f"fill:{GREY}")
        if place:
            add(root, "path", d=f"M56,{top - 20}v12m-5,-5l5,6l5,-6", fill="none", stroke=INK, stroke_width=2)
    return text_of(root)


def heat_map(posterior: dict[str, Any]) -> str:
    """The probability of every operation on every edge, written in its field; the likeliest has a frame."""
    variables = posterior["variables"]
    choices = variables[0]["choices"]
    left, top, row, column = 44, 62, 34, (WIDTH - 44 - 12) / len(choices)
    best = ", ".join(f"{v['name']} {choices[_largest(v['probabilities'])]}" for v in variables)
    root = picture(f"The posterior: the likeliest operation on each edge is {best}", top + row * len(variables) + 40)
    add(root, "text", "edge", x=10, y=top - 10, style=f"fill:{GREY}")
    for place, choice in enumerate(choices):
        for line, part in enumerate(choice.rsplit("_", 1)):
            at = {"x": left + (place + 0.5) * column, "y": top - 26 + 15 * line}
            add(root, "text", part, text_anchor="middle", style="font-size:12px", **at)
    for line, variable in enumerate(variables):
        y = top + line * row
        add(root, "text", variable["name"], x=10, y=y + 22)
        most = _largest(variable["probabilities"])
        for place, share in enumerate(variable["probabilities"]):
            field = {"x": left + place * column + 2, "y": y + 2, "width": column - 4, "height": row - 4, "rx": 4}
            frame = {"stroke": INK, "stroke_width": 2} if place == most else {}
            add(root, "rect", fill=_shade(share), **field, **frame)
            ink = "#fff" if share > 0.75 else INK
            at = {"x": left + (place + 0.5) * column, "y": y + 22}
            add(root, "text", f"{share:.2f}", text_anchor="middle", style=f"fill:{ink}", **at)
    entropy, prior = posterior["entropy"], posterior["log_size"]
    told = f"entropy {entropy:.2f} nats; the uniform prior's is {prior:.2f}"
    add(root, "text", told, x=10, y=top + row * len(variables) + 24, style=f"fill:{GREY}")
    return text_of(root)


def _largest(values: list[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def _shade(share: float) -> str:
    """From nearly white to teal."""
    ends = (0xF1, 0x00), (0xF7, 0x79), (0xF6, 0x6B)
    return "#" + "".join(f"{round(low + (high - low) * min(1.0, share)):02x}" for low, high in ends)


def effect_of_delta(record: dict[str, Any]) -> str:
    """The particles under each δ over the two Gaussians' density."""
    side, gap, top = 186, 9, 34
    deltas, deviations = record["deltas"], record["deviations"]
    told = ", ".join(f"{s:.2f} at δ = {d:g}" for d, s in zip(deltas, deviations, strict=True))
    root = picture(
        f"Fifteen particles on two Gaussians. Deviation of their log densities: {told}", 2 * (side + top) + 14
    )
    density = add(add(root, "defs"), "g", id="density")
    for level, shade in zip(
        (0.012, 0.04, 0.09, 0.15, 0.2), ("#eef4f5", "#dbe9ea", "#c3dbdd", "#a9cccf", "#8bbabe"), strict=True
    ):
        add(density, "path", d=_region(level, side), fill=shade)
    for place, (delta, deviation, points) in enumerate(zip(deltas, deviations, record["particles"], strict=True)):
        x, y = gap + (place % 2) * (side + gap), top + (place // 2) * (side + top)
        words = f"δ = {delta:g}".replace("-", "−")
        add(root, "text", words, x=x + 2, y=y - 8, style="font-weight:600")
        add(root, "text", f"deviation {deviation:.2f}", x=x + side, y=y - 8, text_anchor="end", style=f"fill:{GREY}")
        panel = add(root, "g", transform=f"translate({x:g},{y:g})")
        add(panel, "use", href="#density")
        add(panel, "rect", width=side, height=side, fill="none", stroke=GREY)
        for point in points:
            across, down = _place(*point, side)
            add(panel, "circle", cx=across, cy=down, r=4.5, fill=ORANGE, stroke="#ffffff")
    return text_of(root)


LEFT, RIGHT, LOW, HIGH = -3.0, 2.5, -2.25, 3.25  # what δ's picture shows


def _place(x: float, y: float, side: float) -> tuple[float, float]:
    """Where a point lies in a panel."""
    return round((x - LEFT) / (RIGHT - LEFT) * side, 1), round((HIGH - y) / (HIGH - LOW) * side, 1)


def _region(level: float, side: int) -> str:
    """The part of a panel where the density is above a level, as strips."""
    columns = torch.linspace(LEFT, RIGHT, 4 * side + 1, dtype=torch.float64)
    strips = []
    for line in range(side):
        y = HIGH - (line + 0.5) / side * (HIGH - LOW)
        inside = two_gaussians(torch.stack([columns, torch.full_like(columns, y)], -1)).exp() > level
        strips += [
            f"M{start / 4:g},{line}h{(end - start) / 4:g}v1.3h{(start - end) / 4:g}z"
            for start, end in _runs(inside.tolist())
        ]
    return "".join(strips)


def _runs(flags: list[bool]) -> Iterator[tuple[int, int]]:
    """Where each run of true begins and ends."""
    start = None
    for place, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = place
        elif not flag and start is not None:
            yield start, place
            start = None


def proposals(selection: dict[str, Any]) -> str:
    """Every ensemble that was judged, by its estimated validation loss; the chosen one is a full star."""
    judged = selection["proposals"]
    deltas = sorted({entry["delta"] for entry in judged})
    losses = [entry["loss"] for entry in judged]
    low, high, left, top, row = min(losses), max(losses), 78, 16, 44
    base = top + row * len(deltas)
    root = picture(
        f"{len(judged)} ensembles and their estimated validation losses, from {low:.3f} to {high:.3f}; the lowest was "
        f"chosen, with δ = {selection['delta']:g}",
        base + 66,
    )

    def across(loss: float) -> float:
        return left + 14 + (loss - low) / (high - low) * (WIDTH - left - 40)

    for line, delta in enumerate(deltas):
        y = top + row * (line + 0.5)
        add(root, "text", f"δ = {delta:g}", x=10, y=y + 5)
        add(root, "path", d=f"M{left},{y:g}H{WIDTH - 12}", stroke=PALE, stroke_width=2)
        for entry in judged:
            if entry["delta"] == delta and entry["loss"] != selection["loss"]:
                add(root, "circle", cx=across(entry["loss"]), cy=y, r=6, fill="none", stroke=TEAL, stroke_width=2)
        if delta == selection["delta"]:
            add(root, "path", d=_star(across(selection["loss"]), y), fill=ORANGE)
    add(root, "path", d=f"M{left},{base}H{WIDTH - 12}", stroke=INK)
    for loss in (low, high):
        add(root, "text", f"{loss:.3f}", x=across(loss), y=base + 18, text_anchor="middle")
    add(
        root,
        "text",
        "estimated validation loss",
        x=(left + WIDTH) / 2,
        y=base + 36,
        text_anchor="middle",
        style=f"fill:{GREY}",
    )
    add(root, "path", d=_star(left, base + 52), fill=ORANGE)
    add(root, "text", "chosen", x=left + 14, y=base + 56)
    add(root, "circle", cx=left + 90, cy=base + 52, r=6, fill="none", stroke=TEAL, stroke_width=2)
    add(root, "text", "another ensemble", x=left + 104, y=base + 56)
    return text_of(root)


def _star(x: float, y: float) -> str:
    """Five points around a place."""
    corners = [(11 - 6.2 * (k % 2), math.pi * k / 5) for k in range(10)]
    return "M" + "L".join(f"{x + r * math.sin(a):.1f},{y - r * math.cos(a):.1f}" for r, a in corners) + "Z"


def cell(selection: dict[str, Any]) -> str:
    """The first chosen cell."""
    space = nesbs.nasbench201()
    return draw_cells(space, space.parse(selection["architectures"][0]), "the first member's cell")


def read(path: Path) -> dict[str, Any]:
    """A record."""
    value: dict[str, Any] = json.loads(path.read_text())
    return value


def places(record: dict[str, Any]) -> list[tuple[bool, float, dict[str, float]]]:
    """Of the better half of the benchmark's rows: whether `skip_connect` leads around the cell, true accuracy, places.

    A place is the share of these rows that the mean of the supernets' estimates puts below, in per cent.
    """
    space = nesbs.nasbench201()
    with BENCHMARK.open() as opened:
        rows = [(space.parse(row["architecture"]), float(row["valid_acc_cifar10"])) for row in csv.DictReader(opened)]
    middle = statistics.median(true for _, true in rows)
    better = [place for place, (_, true) in enumerate(rows) if true >= middle]
    found: list[dict[str, float]] = [{} for _ in better]
    for kind in ("loss", "standing"):
        means = [statistics.fmean(row["estimates"][kind][place] for row in record["rows"]) for place in better]
        order = sorted(range(len(better)), key=lambda one: -means[one])  # the highest is the worst
        for rank, one in enumerate(order):
            found[one][kind] = 100 * (rank + 0.5) / len(better)
    return [
        (rows[place][0].cells[0][-1][0][0] == "skip_connect", rows[place][1], judged)
        for place, judged in zip(better, found, strict=True)
    ]


def ranking(record: dict[str, Any]) -> str:
    """Where the better architectures stand by the supernet's loss, and by it and untrained networks together."""
    low, high, left, top, side, gap = 87.0, 91.7, 40, 30, 190, 34
    width, bottom = WIDTH - left - 14, top + 2 * side + gap
    root = picture(
        "Place by estimate against true accuracy. By loss, networks with a skip connection around the cell stand too "
        "low; with untrained networks beside it they rise",
        bottom + 78,
    )
    found = places(record)
    for panel, (kind, title) in enumerate((("loss", "by loss"), ("standing", "by loss and untrained networks"))):
        first = top + panel * (side + gap)

        def place(true: float, judged: float, first: float = first) -> str:
            return f"{left + (true - low) / (high - low) * width:.1f},{first + (1 - judged / 100) * side:.1f}"

        add(root, "path", d=f"M{left},{first}v{side}h{width}", fill="none", stroke=INK)
        add(root, "text", f"place {title}, %", x=6, y=first - 12, style=f"fill:{GREY}")
        for mark in (0, 50, 100):
            add(root, "text", str(mark), x=left - 8, y=f"{first + (1 - mark / 100) * side + 5:g}", text_anchor="end")
        for inside, colour in ((False, GREY), (True, ORANGE)):
            dots = "".join(f"M{place(true, judged[kind])}h0" for around, true, judged in found if around == inside)
            style = {"stroke": colour, "stroke_width": 3, "stroke_linecap": "round", "stroke_opacity": 0.6}
            add(root, "path", d=dots, fill="none", **style)
    for mark in range(87, 92):
        x = left + (mark - low) / (high - low) * width
        add(root, "text", str(mark), x=f"{x:.1f}", y=bottom + 18, text_anchor="middle")
    middle = left + width / 2
    add(root, "text", "true accuracy %", x=f"{middle:g}", y=bottom + 38, text_anchor="middle", style=f"fill:{GREY}")
    for number, (said, colour) in enumerate((("skip_connect around the cell", ORANGE), ("anything else", GREY))):
        x = left + number * 220
        add(root, "circle", cx=x + 4, cy=bottom + 58, r=5, fill=colour)
        add(root, "text", said, x=x + 14, y=bottom + 63)
    return text_of(root)


def levers(varied: dict[str, Any], together: dict[str, Any]) -> str:
    """Spearman by loss of supernets of other settings, a dot a seed; what the base's seeds span is shaded."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in varied["rows"] + together["rows"]:
        found.setdefault(row["name"], []).append(row["rankings"]["loss"])
    columns: list[tuple[str, float, Callable[[dict[str, Any]], float]]] = [
        ("all rows", 0.65, lambda one: one["spearman"]["value"]),
        ("the better half", 0.0, lambda one: one["better_half"]),
    ]
    base = found.pop("base")
    order = sorted(found, key=lambda name: -statistics.fmean(columns[0][2](one) for one in found[name]))
    left, top, line, gap = 145, 48, 24, 34
    width, bottom = (WIDTH - left - gap - 16) / len(columns), top + line * len(order)
    spans = [sorted(value(one) for one in base) for _, _, value in columns]
    said = " and ".join(f"from {span[0]:.2f} to {span[-1]:.2f}" for span in spans)
    root = picture(
        f"How settings rank, one line each, from {order[0]} to {order[-1]}. The base's seeds span {said}", bottom + 44
    )
    add(root, "text", "Spearman by loss", x=6, y=16, style=f"fill:{GREY}")
    for place, ((title, low, value), span) in enumerate(zip(columns, spans, strict=True)):
        corner, reach = left + place * (width + gap), (0.9 if place == 0 else 0.55) - low

        def across(figure: float, corner: float = corner, low: float = low, reach: float = reach) -> float:
            return corner + (figure - low) / reach * width

        shaded = {"x": across(span[0]), "width": across(span[-1]) - across(span[0]), "height": bottom - top}
        add(root, "rect", y=top, fill=PALE, **shaded)
        add(root, "text", title, x=corner + width / 2, y=top - 10, text_anchor="middle", style="font-weight:600")
        add(root, "path", d=f"M{corner:g},{bottom}h{width:g}", stroke=INK)
        for mark in (low, low + reach):
            add(root, "text", f"{mark:g}", x=across(mark), y=bottom + 18, text_anchor="middle")
        for number, name in enumerate(order):
            for one in found[name]:
                beyond = not span[0] <= value(one) <= span[-1]
                at = {"cx": across(value(one)), "cy": top + line * (number + 0.5)}
                add(root, "circle", r=5, fill=ORANGE if beyond else TEAL, fill_opacity=0.8, **at)
    for number, name in enumerate(order):
        add(root, "text", name, x=6, y=top + line * (number + 0.5) + 5)
    add(root, "rect", x=6, y=bottom + 26, width=22, height=12, fill=PALE)
    add(root, "text", "between the base's two seeds", x=36, y=bottom + 37)
    return text_of(root)


def attack(record: dict[str, Any]) -> str:
    """Accuracy of the attacked member, of the ensemble, and of the ensemble under its own attack, over ε."""
    closer = record["ensemble"]["closer"]
    lines = [
        ("attack", "attacked member", GREY),
        ("defence", "ensemble", TEAL),
        ("adaptive", "attacked ensemble", ORANGE),
    ]
    left, top, gap, width, height = 38, 46, 16, 166, 200
    sizes = [math.log(size) for size in closer["epsilons"]]
    said = "; ".join(
        f"{name.upper()} at ε = {closer['epsilons'][2]}: "
        + ", ".join(f"{told} {100 * curve[key][2]:.0f} %" for key, told, _ in lines)
        for name, curve in closer["curves"].items()
    )
    root = picture(f"Accuracy over the size of the attack. {said}", top + height + 74)
    add(root, "text", "accuracy %", x=6, y=16, style=f"fill:{GREY}")
    for panel, (name, curve) in enumerate(closer["curves"].items()):
        corner = left + panel * (width + gap)
        add(root, "text", name.upper(), x=corner + width / 2, y=top - 10, text_anchor="middle", style="font-weight:600")
        add(root, "path", d=f"M{corner},{top}v{height}h{width}", fill="none", stroke=INK)

        def place(size: float, accuracy: float, corner: float = corner) -> str:
            share = (size - sizes[0]) / (sizes[-1] - sizes[0])
            return f"{corner + 8 + share * (width - 22):.1f},{top + (1 - accuracy) * height:.1f}"

        for key, _, colour in lines:
            points = [place(*point) for point in zip(sizes, curve[key], strict=True)]
            add(root, "path", d="M" + "L".join(points), fill="none", stroke=colour, stroke_width=2.5)
            add(
                root,
                "path",
                d="".join(f"M{p}h0" for p in points),
                stroke=colour,
                stroke_width=7,
                stroke_linecap="round",
            )
        for size, mark in zip(sizes, closer["epsilons"], strict=True):
            if mark in (0.002, 0.01, 0.1):
                x = place(size, 0).split(",")[0]
                add(root, "text", f"{mark:g}", x=x, y=top + height + 18, text_anchor="middle")
    for share in (0, 0.5, 1):
        add(root, "text", f"{100 * share:.0f}", x=left - 6, y=top + (1 - share) * height + 5, text_anchor="end")
    add(root, "text", "ε", x=left + width + gap / 2, y=top + height + 36, text_anchor="middle", style=f"fill:{GREY}")
    for number, (_, told, colour) in enumerate(lines):
        x = 10 + (0, 136, 226)[number]
        add(root, "circle", cx=x + 5, cy=top + height + 56, r=5, fill=colour)
        add(root, "text", told, x=x + 15, y=top + height + 61)
    return text_of(root)


def reproduced(record: dict[str, Any]) -> str:
    """One of the paper's figures, as `nesbs reproduce` draws it from its record."""
    return picture_of(experiment(record["asked"]["name"]), ExperimentRecord.from_json(record))[0]


# The file of each picture, what draws it, and the records it is drawn from.
PICTURES: dict[str, tuple[Callable[..., str], tuple[Path, ...]]] = {
    "pipeline.svg": (pipeline, (DEMO / "record.json", DEMO / "selection.json")),
    "cell.svg": (cell, (DEMO / "selection.json",)),
    "posterior.svg": (heat_map, (DEMO / "posterior.json",)),
    "proposals.svg": (proposals, (DEMO / "selection.json",)),
    "ranking.svg": (ranking, (RANKING / "mixed.json",)),
    "levers.svg": (levers, (RANKING / "levers.json", RANKING / "fast-mixed.json")),
    "attack.svg": (attack, (ATTACKS,)),
    "delta.svg": (effect_of_delta, (FOLDER / "delta.json",)),
    **{f"{path.parent.name}.svg": (reproduced, (path,)) for path in sorted(REPRODUCED.glob("fig-*/record.json"))},
}


def drawn(name: str) -> str:
    """A picture's text, from its records."""
    draw, records = PICTURES[name]
    return draw(*map(read, records))


def main() -> None:
    """Draw all of them."""
    (FOLDER / "delta.json").write_text(json.dumps(move_particles(), indent=1) + "\n")
    for name in PICTURES:
        (FOLDER / name).write_text(drawn(name))


if __name__ == "__main__":
    main()
