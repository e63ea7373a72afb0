"""Tasks on a Ray of this machine, started once for all of them; skipped where it cannot start."""

import gc
import os
import platform
import socket
import sys
import warnings
from types import SimpleNamespace

import pytest
import torch
from toy_tasks import DieOnce, Fail, Square, handing_out
from toys import call, tiny

from nesbs.cluster import Workers, on_ray, run_tasks
from nesbs.errors import DivergedError, NesbsError

FIXED = ["ensemble.architectures=['|nor_conv_3x3~0|+|none~0|nor_conv_3x3~1|']", "evaluation.uniform=false"]
ON_RAY = Workers(None, on_ray=True)


def forget_processes():
    """Collect the objects of processes that Ray leaves behind here, and not in a test that has none of it."""
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()


@pytest.fixture(scope="module")
def cluster():
    """A Ray of one CPU, whose workers can import what this process can.

    Its monitors, and workers that start before they are needed, would take longer than the tests.
    """
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(os.path.abspath(path) for path in sys.path))
        patch.setenv("RAY_prestart_worker_first_driver", "0")
        on_ray.library()  # sets its environment
        from ray.cluster_utils import Cluster

        small = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False}
        started, why = None, ""
        try:
            started = Cluster(
                initialize_head=True, head_node_args={**small, "include_log_monitor": False, "no_monitor": True}
            )
        except Exception as error:  # what it holds is let go behind this line
            why = str(error)
        if started is None:
            forget_processes()
            pytest.skip(f"Ray does not start here: {why}")
        ray.init(address=started.address, log_to_driver=False)
        yield ray
        ray.shutdown()
        started.shutdown()
    forget_processes()


@pytest.mark.usefixtures("cluster")
def test_ray_computes_what_this_process_does_and_does_again_what_a_dead_worker_left(tmp_path):
    tasks = [Square(number) for number in range(4)]
    there = list(run_tasks(handing_out([DieOnce(tmp_path / "mark", 7), *tasks]), 100, workers=ON_RAY))
    squares = sorted(result.value for result in there if isinstance(result.value, tuple))
    assert [one[:2] for one in squares] == [(n, n * n + 100) for n in range(4)]
    assert os.getpid() not in {one[2] for one in squares}
    assert {one[3] for one in squares} == {1}  # threads, as here
    assert 107 in [result.value for result in there]
    assert {result.node for result in there} == {platform.node()}
    with pytest.raises(DivergedError, match="the loss is not a number"):  # an error of its own is not tried again
        list(run_tasks(handing_out([Fail("diverged", tmp_path)]), 0, workers=ON_RAY))
    with pytest.raises(NesbsError, match="1 GPUs are asked for, and the Ray cluster has 0"):
        list(run_tasks(handing_out([Square(1)]), 0, workers=ON_RAY, gpu=True))


@pytest.mark.slow
def test_members_trained_on_ray_have_the_same_bytes(cluster, tmp_path):
    runs = [tiny(tmp_path / name, changes=FIXED) for name in ("here", "there")]
    runs[1].workers = ON_RAY
    for run in runs:
        run.ensemble()
    here, there = ({file.name: file.read_bytes() for file in run.folder.glob("members/*")} for run in runs)
    assert here == there
    assert runs[1].record.stage("members").workers == runs[1].recipe.ensemble.size


@pytest.mark.slow
def test_a_cluster_that_does_not_fit_is_one_line(cluster):
    torch.set_num_threads(3)
    with pytest.raises(NesbsError, match="computes with 3 threads, and no node of the Ray cluster has more"):
        list(run_tasks(handing_out([Square(1)]), 0, workers=ON_RAY))
    on_ray.check_nodes(cluster, on_ray.versions())  # they have the same


def test_a_node_with_another_version_of_anything_is_one_line():
    """Of a cluster that is made up: the real one has the same versions."""
    own = on_ray.versions()
    assert list(own) == ["nesbs", "torch", "Python", "Ray"]
    node = {"Alive": True, "NodeID": "0" * 56, "NodeManagerHostname": "other", "NodeManagerAddress": "10.0.0.2"}
    for name in own:
        answers = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=dict), remote=dict)
        ray = SimpleNamespace(
            remote=lambda *, answers=answers, **_: lambda _: answers,
            nodes=lambda: [node],
            get=lambda _, timeout, name=name: {**own, name: "0.1"},
            exceptions=pytest.importorskip("ray").exceptions,
        )
        message = rf"node other \(10.0.0.2\) of the Ray cluster has {name} 0.1, this process .*: install the same"
        with pytest.raises(NesbsError, match=message):
            on_ray.check_nodes(ray, own)


@pytest.mark.parametrize("other", ["ray_version", "python_version"])
def test_a_cluster_with_another_ray_or_python_is_one_line(monkeypatch, capsys, tmp_path, other):
    """What Ray raises then, before any node can be asked."""
    ray = pytest.importorskip("ray")
    from ray._private.utils import check_version_info, compute_version_info

    same = dict(zip(("ray_version", "python_version"), compute_version_info(), strict=True))

    def init(**_):
        check_version_info({**same, other: "0.1"}, "this machine")

    monkeypatch.setattr(on_ray, "check_answers", lambda _: None)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    assert call("compare", "toy", "--methods", "urs", "--ray", "host:1", "--out", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert said.startswith("error: --ray host:1: Version mismatch: The cluster was started with: Ray: ")
    assert ": 0.1" in said
    assert said.endswith(": install the same\n")
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_address_at_which_there_is_no_ray_is_one_line(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(on_ray, "WAIT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NesbsError, match=f"--ray {address}: there is no Ray cluster .*: give HOST:PORT"):
            on_ray.check_answers(address)
    for wrong in (address, "nothing", "127.0.0.1:notaport"):
        with pytest.raises(NesbsError, match=f"--ray {wrong}: there is no Ray cluster"):
            on_ray.check_answers(wrong)


def test_ray_without_the_extra_is_one_line_and_leaves_nothing(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert call("compare", "toy", "--methods", "urs", "--ray", "auto", "--out", tmp_path / "out") == 2
    assert capsys.readouterr().err == "error: --ray needs ray: pip install 'nesbs[ray]'\n"
    assert not (tmp_path / "out").exists()
