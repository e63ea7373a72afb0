"""A function in a process of its own, which ends with `kill -9`."""

import multiprocessing
import warnings

import torch


def exit_code(function, *arguments) -> int:
    """Call `function` in another process and return how that ended: −9 where it was killed.

    Forked, it has torch and nesbs in memory: to import them again takes six seconds. CUDA cannot be forked.
    """
    context = multiprocessing.get_context("spawn" if torch.cuda.is_available() else "fork")
    process = context.Process(target=function, args=arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads, and pytest-xdist has some
        process.start()
    process.join()
    return process.exitcode
