"""A process that runs tasks for another one (`run_in_processes`), and ends when that one does."""

import os
import pickle
import platform
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from nesbs.cluster.contract import Outcome

END = b""  # a message instead of a task: nothing is left to do


def main() -> None:
    """Run tasks as they come through the connection whose number is the first argument, until `END` comes."""
    connection = Connection(int(sys.argv[1]))
    messages: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, messages), daemon=True).start()
    setting, shared = pickle.loads(messages.get())
    setting.apply()
    while message := messages.get():
        answer = outcome(pickle.loads(message), shared)
        try:
            connection.send_bytes(answer)
        except OSError:  # the other process has ended in this moment
            os._exit(0)


def _listen(connection: Connection, messages: "SimpleQueue[bytes]") -> None:
    """Take messages while a task runs; end this process at once where the other one has ended."""
    try:
        while True:
            messages.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)


def outcome(task: Any, shared: object) -> bytes:
    """The result of a task or its error, pickled; an error that cannot be pickled as its traceback."""
    node = platform.node()
    try:
        return pickle.dumps(Outcome(result=task(shared), node=node))
    except Exception as error:
        told = "".join(traceback.format_exception(error))
        error.add_note(f"in a process of its own, on {node}:\n{told}")
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = RuntimeError(told)
        return pickle.dumps(Outcome(error=error, node=node))
