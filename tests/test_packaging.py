"""The wheel holds the whole package and the pages; the source distribution is the whole repository."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = "share/doc/nesbs"  # below the environment's own folder
BUILD = "from setuptools import build_meta; build_meta.build_sdist('dist'); build_meta.build_wheel('dist')"


def tracked():
    """The files of the repository that exist, as git knows them."""
    if not (ROOT / ".git").exists():
        pytest.skip("git alone knows which files belong to the project")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return {name for name in names if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The tracked files, and the names in the wheel and in the source distribution that a clean copy of them gives."""
    copy, names = tmp_path_factory.mktemp("packaging"), tracked()
    for name in names:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy / name)
    subprocess.run([sys.executable, "-c", BUILD], cwd=copy, capture_output=True, check=True)
    [wheel], [source] = (copy / "dist").glob("*.whl"), (copy / "dist").glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
    with tarfile.open(source) as archive:
        in_source = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    return names, in_wheel, in_source


def test_the_source_distribution_is_the_repository(built):
    names, _, in_source = built
    assert names - in_source == set()
    made = {name for name in in_source - names if ".egg-info/" not in name}
    assert made == {"PKG-INFO", "setup.cfg"}


def test_the_wheel_holds_the_package_the_pages_and_their_pictures(built):
    names, in_wheel, _ = built
    package = {name.removeprefix("src/") for name in names if name.startswith("src/")}
    pages = {name for name in names if name.startswith("docs/") and (name.endswith(".md") or "/pictures/" in name)}
    found = {name for name in in_wheel if ".dist-info/" not in name and ".data/" not in name}
    assert found == package
    data = {name.partition(f".data/data/{PAGES}/")[2] for name in in_wheel if ".data/" in name}
    assert data == {"README.md", "CHANGELOG.md", *pages}
    about = {name.partition(".dist-info/")[2] for name in in_wheel if ".dist-info/" in name}
    assert {"licenses/LICENSE", "licenses/NOTICE", "METADATA", "entry_points.txt"} <= about


def test_every_kind_of_data_file_is_in_the_wheel(built):
    """What a build once left out: files that are no modules."""
    _, in_wheel, _ = built
    for kind in (
        *("nesbs/py.typed", "nesbs/recipes/demo.yaml", "nesbs/data/fashion_mini.npz", "nesbs/report/page.css"),
        *("nesbs/report/page.js", "nesbs/report/base.html"),
        *("nesbs/reproduce/experiments/table1.yaml", "nesbs/reproduce/paper/table1.yaml"),
    ):
        assert kind in in_wheel
