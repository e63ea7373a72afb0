"""The zoo: published sizes, texts, and cells from outside the DARTS space in its network."""

import csv
import hashlib
from pathlib import Path

import pytest
import torch

from nesbs.errors import NesbsError
from nesbs.spaces import darts, get_space, parameters, toy_pairs, zoo
from nesbs.spaces.operations import operation

SPACE = darts()
OUTSIDE = ["setn", "nasnet-a", "amoebanet-a", "pnas", "enas", "enas-script", "robnet-free"]
DIGESTS = {  # of the published cells' texts, read once more beside their authors' when they were written down here
    "darts-v1": "b4751efeffcb",
    "darts-v2": "ffd2a389c43c",
    "gdas": "b15bd226df7b",
    "p-darts": "853e7f51a864",
    "pc-darts": "c8011402a723",
    "pc-darts-imagenet": "d0c3a13bafc7",
    "sdarts-rs": "66d065befdbd",
    "sdarts-adv": "543bd63b4f66",
    "snas-mild": "9529aa2c4838",
    "darts-minus": "20f5698f6aa7",
    "darts-minus-1": "054d0baff828",
    "darts-minus-2": "22921be856e3",
    "darts-minus-3": "37003d0d4c78",
    "darts-minus-4": "46b77829a649",
    "darts-minus-c100": "0d89a9b46346",
    "darts-minus-c100-1": "33c2d495b81b",
    "darts-minus-c100-2": "73a50b86e547",
    "darts-minus-c100-3": "f6cecffd6920",
    "setn": "72b07df160c1",
    "nasnet-a": "a842028deedd",
    "amoebanet-a": "723067076e7e",
    "pnas": "f4608f134d0f",
    "enas": "c77ae4050dfc",
    "enas-script": "bd1d84186e3c",
    "robnet-free": "c3625d0da955",
    "resnet": "23730435607f",
}


def size(name, **more):
    return parameters(get_space(zoo.entry(name).space).network(zoo[name], **more)) / 1e6


@pytest.mark.usefixtures("shapes_alone")
@pytest.mark.parametrize("name", list(zoo))
def test_every_entry_has_its_size_and_says_what_it_was_held_against(name):
    entry, counted = zoo.entry(name), size(name)
    assert round(counted, 2) == entry.size
    assert entry.source
    if entry.published is not None:
        assert round(counted, 1) == entry.published
    else:
        assert entry.note  # what differs, or that there was nothing to hold it against


@pytest.mark.usefixtures("shapes_alone")
def test_sizes_that_notes_speak_of():
    assert round(size("nasnet-a", channels=32), 2) == 3.06
    assert round(size("pnas", channels=48, cells=11), 2) == 4.27
    assert round(size("enas", classes=100), 2) == 3.92
    assert round(size("snas-mild", channels=48, cells=14, stem="imagenet", classes=1000), 2) == 3.94
    for names, mean in (
        (["darts-minus", *(f"darts-minus-{n}" for n in range(1, 5))], 3.54),
        (["darts-minus-c100", *(f"darts-minus-c100-{n}" for n in range(1, 4))], 3.35),
    ):
        assert round(sum(zoo.entry(name).size for name in names) / len(names), 2) == mean


@pytest.mark.usefixtures("shapes_alone")
def test_robnet_large_has_its_published_size():
    # 33 cells alike and 64 channels, as its authors' configuration says; printed as 33.3 million in arXiv:2212.11005.
    code = "1111111111011101101101010111"
    member = SPACE.network(SPACE.parse(f"robnet={[code] * 33}"), channels=64, cells=33)
    assert round(parameters(member) / 1e6, 1) == 33.3


def test_resnet_has_the_benchmarks_size():
    # The benchmark's row that differs from it in an operation without weights.
    with (Path(__file__).parents[1] / "nasbench201_sample.csv").open() as file:
        sizes = {row["architecture"]: int(row["params_cifar10"]) for row in csv.DictReader(file)}
    pooled = str(zoo["resnet"]).replace("skip_connect~2", "avg_pool_3x3~2")
    assert round(size("resnet") * 1e6) == sizes[pooled] == 559_386


@pytest.mark.parametrize("name", list(zoo))
def test_texts_are_read_back(name):
    assert get_space(zoo.entry(name).space).parse(str(zoo[name])) == zoo[name]


def test_cells_are_those_that_were_compared_with_their_authors():
    """A size does not change with an edge's input, nor with one pooling for another."""
    assert {name: hashlib.sha256(str(zoo[name]).encode()).hexdigest()[:12] for name in zoo} == DIGESTS


def test_the_genotype_that_a_search_prints_is_read():
    lists = {kind: [("sep_conv_3x3", source) for source in (0, 1, 2, 0, 0, 3, 4, 1)] for kind in ("normal", "reduce")}
    plain = "normal={normal} reduce={reduce}".format(**lists)
    printed = "Genotype(normal={normal}, normal_concat=range(2, 6), reduce={reduce}, reduce_concat=range(2, 6))"
    assert SPACE.parse(printed.format(**lists)) == SPACE.parse(plain)
    with pytest.raises(NesbsError, match="normal_concat must name nodes from 2 to 5, each once; found range.2, 9."):
        SPACE.parse(printed.replace("6", "9").format(**lists))


def test_the_zoo_is_a_mapping_with_sources():
    names = (
        "nasnet-a amoebanet-a pnas enas darts-v1 darts-v2 gdas setn p-darts pc-darts sdarts-adv darts-minus robnet-free"
    )
    assert {*names.split(), "enas-script", "resnet"} <= set(zoo)
    assert len(zoo) == 26
    assert "quark0/darts" in zoo.entry("darts-v2").source
    with pytest.raises(NesbsError, match="no cell darts-v3 in the zoo: did you mean darts-v"):
        zoo["darts-v3"]
    assert (zoo.get("darts-v3"), zoo.get("darts-v3", 1), zoo.get("gdas")) == (None, 1, zoo["gdas"])


def test_published_cells_that_lie_inside_the_space_are_points_of_it():
    for name in zoo:
        if zoo.entry(name).space != "darts":
            continue
        if name in OUTSIDE:
            with pytest.raises(NesbsError, match="lies outside space darts: it can be trained, not searched"):
                SPACE.encode(zoo[name])
        else:
            assert SPACE.architecture([max(choice, 0) for choice in SPACE.encode(zoo[name])]) == zoo[name]


@pytest.mark.parametrize(("name", "stem"), [*((name, "cifar") for name in OUTSIDE), ("nasnet-a", "imagenet")])
def test_cells_from_outside_run_with_tower_and_drop_path(name, stem, random):
    cells = 20 if name == "robnet-free" else 4
    member = SPACE.network(zoo[name], channels=2, cells=cells, stem=stem, auxiliary=True)
    side = 8 if stem == "cifar" else 64
    drop = torch.ones(*member.network.drop_paths, 2)
    logits, tower = member.outputs(torch.rand(2, 3, side, side, generator=random), drop=drop)
    assert logits.shape == tower.shape == (2, 10)
    (logits.sum() + tower.sum()).backward()
    assert all(p.grad is not None for p in member.parameters())  # every weight is on a path to the output


def test_only_the_darts_space_takes_cells_from_outside():
    for name in ("nasnet-a", "darts-v2"):
        with pytest.raises(NesbsError, match="this architecture is not of space toy-pairs"):
            toy_pairs().network(zoo[name], channels=4, cells=3)


def genotype(nodes, out):
    return SPACE.parse(f"normal={nodes} normal_concat={out} reduce={nodes} reduce_concat={out}")


@pytest.mark.parametrize("out", [[2], [3], [2, 3]])
def test_a_cell_adds_what_its_nodes_take_and_hands_on_what_leaves_it(out, random):
    # Identities alone: node 2 is the sum of both inputs, node 3 twice the second one.
    nodes = [("skip_connect", 0), ("skip_connect", 1), ("skip_connect", 1), ("skip_connect", 1)]
    architecture = genotype(nodes, out)
    member = SPACE.network(architecture, channels=2, cells=3)
    cell = member.network.cells[0]
    before, last = torch.rand(2, 2, 6, 8, 8, generator=random)
    first, second = cell.first(before), cell.second(last)
    made = cell.output(before, last, SPACE.paths(architecture)[0])
    torch.testing.assert_close(made, torch.cat([{2: first + second, 3: 2 * second}[state] for state in out], 1))


def test_an_operation_that_is_used_twice_on_one_input_has_two_weights(random):
    architecture = genotype([("sep_conv_3x3", 1), ("sep_conv_3x3", 1)], [2])
    cell = SPACE.network(architecture, channels=2, cells=3).network.cells[0]
    one, two = cell.edges["2_1"].values()
    assert one is not two
    before, last = torch.rand(2, 2, 6, 8, 8, generator=random)
    made = cell.output(before, last, SPACE.paths(architecture)[0])
    torch.testing.assert_close(made, one(cell.second(last)) + two(cell.second(last)))


@pytest.mark.parametrize(("name", "kernel"), [("conv_3x1_1x3", 3), ("conv_7x1_1x7", 7)])
@pytest.mark.parametrize("stride", [1, 2])
def test_crossed_convolutions_are_one_with_a_kernel_of_rank_one(name, kernel, stride, random):
    module = operation(name, 2, stride, lambda channels: torch.nn.Identity()).double()
    rows, columns = (weight.detach() for weight in module.parameters())
    assert (rows.shape, columns.shape) == ((2, 2, 1, kernel), (2, 2, kernel, 1))
    whole = torch.einsum("omy,mix->oiyx", columns[..., 0], rows[:, :, 0])
    x = torch.randn(3, 2, 8, 8, generator=random, dtype=torch.float64)
    expected = torch.nn.functional.conv2d(x.relu(), whole, stride=stride, padding=kernel // 2)
    torch.testing.assert_close(module(x), expected)


@pytest.mark.parametrize("stride", [1, 2])
def test_robnets_operation_is_a_convolution_beside_a_skip(stride, random):
    module = operation("res_sep_3x3", 4, stride, torch.nn.BatchNorm2d)
    x = torch.randn(3, 4, 8, 8, generator=random)
    torch.testing.assert_close(module(x), module.convolution(x) + module.skip(x))
    if stride == 1:
        torch.testing.assert_close(module.skip(x), x)


BITS = "11" * 14


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("normal=[('skip_connect', 0)] normal_concat=[2] reduce=[]", "must have two entries a node, found 1"),
        ("normal=[('skip', 0), ('skip', 0)] normal_concat=[2]", "unknown operation skip in the normal cell"),
        ("normal=[('skip_connect', 0), ('skip_connect', 2)] normal_concat=[2]", "node 2 must take inputs below 2"),
        (
            "normal=[('skip_connect', 0), ('skip_connect', 1)] normal_concat=[3] "
            "reduce=[('skip_connect', 0), ('skip_connect', 1)]",
            "normal_concat must name nodes from 2 to 2, each once; found .3.",
        ),
        ("normal_concat=[2]", "no list normal="),
        (f"robnet={[BITS] * 2}", "robnet needs 3 cells or more"),
        (f"robnet={[BITS[:-2]] * 3}", "cell 1 of robnet must be 28 bits"),
        (f"robnet={[BITS, BITS, '0000' + BITS[4:]]}", "nothing arrives at a node of cell 3 of robnet"),
    ],
)
def test_what_cannot_be_built_is_refused(text, message):
    if "reduce=" not in text:
        text += " reduce=[('skip_connect', 0), ('skip_connect', 1)] reduce_concat=[2]" if "normal=" in text else ""
    with pytest.raises(NesbsError, match=message):
        SPACE.parse(text)


def test_robnet_has_as_many_cells_as_it_has():
    with pytest.raises(NesbsError, match=r"the network has 20 different cells: set members\.cells=20"):
        SPACE.network(zoo["robnet-free"], cells=8)
    with pytest.raises(NesbsError, match="no list normal="):
        toy_pairs().parse(str(zoo["robnet-free"]))
