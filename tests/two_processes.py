"""Two processes as torchrun starts them: the tests' own, and a fork of it that follows."""

import contextlib
import socket

import pytest
import torch
import torch.distributed as dist
from killed import started

from nesbs.cli import main


@contextlib.contextmanager
def as_rank(number, port):
    """The surroundings of one of two processes that torchrun starts."""
    values = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        for name, value in {**values, "TORCHELASTIC_RUN_ID": "test"}.items():
            patch.setenv(name, str(value))
        yield


def second(function, port):
    with as_rank(1, port):
        function()


def follow():
    main([])


@contextlib.contextmanager
def two_processes(function=follow):
    """This process is the first of two; the other one, which is yielded, calls a function."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.optim.SGD([torch.zeros(1)])  # what it imports is there before the fork
    other = started("spawn" if torch.cuda.is_available() else "fork", second, function, port)
    try:
        with as_rank(0, port):
            yield other
        other.join(30)
    finally:
        if dist.is_initialized():  # after an error
            dist.destroy_process_group()
        other.kill()
        other.join()
