"""Fetching data sets, with a stand-in for torchvision."""

import sys
import types
from pathlib import Path

import pytest
from data.layouts import write_cifar10

from nesbs.data import download, load_dataset
from nesbs.errors import NesbsError


@pytest.fixture
def torchvision(monkeypatch):
    """A torchvision whose downloader writes CIFAR-10 in the layout of pickles, and the list of what it was asked."""
    asked = []

    def fetch(root, download):
        asked.append(root)
        assert download is True
        write_cifar10(Path(root), binary=False)

    datasets = types.ModuleType("torchvision.datasets")
    datasets.CIFAR10 = fetch
    package = types.ModuleType("torchvision")
    package.datasets = datasets
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", datasets)
    datasets.asked = asked
    return datasets


def test_what_is_missing_is_fetched_once(torchvision, tmp_path):
    root = tmp_path / "new" / "folder"
    assert download("cifar10", root)
    assert len(load_dataset("cifar10", root=root).train) == 20
    assert not download("cifar10", root)
    assert torchvision.asked == [str(root)]


def test_what_is_there_needs_no_torchvision(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    write_cifar10(tmp_path)
    assert not download("cifar10", tmp_path)


def test_without_torchvision_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)
    with pytest.raises(NesbsError, match=r"needs torchvision: install it with `pip install 'nesbs\[vision\]'`"):
        download("cifar10", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_torchvision_that_does_not_fit_is_explained(tmp_path, monkeypatch):
    def fail(name):
        raise RuntimeError("operator torchvision::nms does not exist\nand more")

    monkeypatch.setattr("nesbs.data.published.importlib.import_module", fail)
    with pytest.raises(NesbsError, match=r"cannot be imported \(operator torchvision::nms does not exist\)"):
        download("cifar10", tmp_path)


@pytest.mark.parametrize("error", [OSError("no route to host"), RuntimeError("File not found or corrupted.")])
def test_a_failed_download_is_explained(torchvision, tmp_path, error):
    def fail(root, download):
        raise error

    torchvision.CIFAR100 = fail
    with pytest.raises(NesbsError, match=r"cifar100 could not be fetched .*: is there a network\? .*cifar-100-binary"):
        download("cifar100", tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("imagenet", "imagenet is given out by image-net.org"),
        ("imagenet16-120", "given out with NAS-Bench-201"),
        ("fashion-mini", "inside the package"),
        ("cifra10", "takes a named data set, found cifra10: did you mean cifar10"),
    ],
)
def test_what_cannot_be_fetched_says_where_it_comes_from(tmp_path, name, message):
    with pytest.raises(NesbsError, match=message):
        download(name, tmp_path)
