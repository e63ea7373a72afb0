"""A process that runs tasks for another one (`run_in_processes`), and ends when that one does."""

import os
import pickle
import platform
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from nesbs.cluster.contract import Outcome
from nesbs.errors import NesbsError

END = b""  # a message instead of a task: nothing is left to do


def main() -> None:
    """Run tasks as they come through the connection whose number is the first argument, until `END` comes."""
    connection = Connection(int(sys.argv[1]))
    messages: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, messages), daemon=True).start()
    shared = _begun(messages.get())
    while message := messages.get():
        answer = outcome(partial(_run, message), shared)
        try:
            connection.send_bytes(answer)
        except OSError:  # the other process has ended in this moment
            os._exit(0)


def _run(task: bytes, shared: Callable[[], Any]) -> Any:
    """Run a task with what all of them share."""
    return pickle.loads(task)(shared())


def _begun(first: bytes) -> Callable[[], Any]:
    """Set this process up; what gives its tasks what they share, or raises where that cannot be read here."""
    try:
        setting, shared = pickle.loads(first)
    except (AttributeError, ImportError) as error:
        refusal = NesbsError(
            f"a worker cannot import what it is to run ({error}): workers know nesbs and installed modules, so put "
            "your own functions into a module, not into the script that is started"
        )

        def refuse() -> Any:
            raise refusal

        return refuse
    setting.apply()
    return lambda: shared


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
