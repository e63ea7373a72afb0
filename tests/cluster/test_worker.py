"""A worker ends quietly when the process that it works for has ended."""

import pickle
import sys
from queue import SimpleQueue
from types import ModuleType, SimpleNamespace

import pytest
from toy_tasks import Square

from nesbs.cluster import worker
from nesbs.cluster.contract import Setting
from nesbs.errors import NesbsError


def test_what_a_worker_cannot_import_is_an_error_in_words(monkeypatch):
    """A function of the script that was started, which workers do not import."""
    script = ModuleType("started_script")
    exec("def search(request): pass", vars(script))
    monkeypatch.setitem(sys.modules, "started_script", script)
    queue, answers = SimpleQueue(), []
    for message in ((Setting.here(), script.search), Square(3)):
        queue.put(pickle.dumps(message))
    queue.put(worker.END)
    monkeypatch.delitem(sys.modules, "started_script")
    monkeypatch.setattr(
        worker, "Connection", lambda _: SimpleNamespace(recv_bytes=queue.get, send_bytes=answers.append)
    )
    monkeypatch.setattr(sys, "argv", ["worker", "3"])
    worker.main()
    [answer] = answers
    with pytest.raises(
        NesbsError, match="cannot import what it is to run .*started_script.*put your own functions into"
    ):
        pickle.loads(answer).get()


def test_an_answer_that_nobody_takes_any_more_ends_the_worker_quietly(monkeypatch):
    class Broken:
        def __init__(self, number):
            messages = SimpleQueue()
            for message in ((Setting.here(), 100), Square(3)):
                messages.put(pickle.dumps(message))
            self.recv_bytes = messages.get  # then it waits: the thread's own look at the connection comes too late

        def send_bytes(self, answer):
            assert pickle.loads(answer).result[:2] == (3, 109)
            raise BrokenPipeError(32, "Broken pipe")

    def ended(code):
        raise SystemExit(code)

    monkeypatch.setattr(worker, "Connection", Broken)
    monkeypatch.setattr(worker.os, "_exit", ended)
    monkeypatch.setattr(sys, "argv", ["worker", "3"])
    with pytest.raises(SystemExit) as end:
        worker.main()
    assert end.value.code == 0
