"""A worker ends quietly when the process that it works for has ended."""

import pickle
import sys
from queue import SimpleQueue

import pytest
from toy_tasks import Square

from nesbs.cluster import worker
from nesbs.cluster.contract import Setting


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
