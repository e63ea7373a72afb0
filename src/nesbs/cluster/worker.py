"""A process that runs tasks for another one (`run_tasks`), and ends when that one does."""

import os
import pickle
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import torch

from nesbs.cluster.tasks import Outcome


def main() -> None:
    """Run tasks as they come through the connection whose number is the first argument."""
    connection = Connection(int(sys.argv[1]))
    messages: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, messages), daemon=True).start()
    threads, deterministic, shared = pickle.loads(messages.get())
    torch.set_num_threads(threads)
    torch.backends.cudnn.deterministic = deterministic
    while True:
        connection.send_bytes(_outcome(pickle.loads(messages.get()), shared))


def _listen(connection: Connection, messages: "SimpleQueue[bytes]") -> None:
    """Take messages while a task runs; end this process at once where the other one has ended."""
    try:
        while True:
            messages.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)


def _outcome(task: Any, shared: object) -> bytes:
    """The result of a task or its error, pickled; an error that cannot be pickled as its traceback."""
    try:
        return pickle.dumps(Outcome(result=task(shared)))
    except Exception as error:
        told = "".join(traceback.format_exception(error))
        error.add_note(f"in a process of its own:\n{told}")
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = RuntimeError(told)
        return pickle.dumps(Outcome(error=error))
