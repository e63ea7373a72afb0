"""Where kernels are tested: on a GPU, or on a CPU in Triton's interpreter."""

import sys
from dataclasses import replace

import pytest
import torch


@pytest.fixture(autouse=True)
def _untraced_kernels(monkeypatch):
    """Inside the interpreter nothing is ours: following it line by line for coverage takes three times as long."""
    if torch.cuda.is_available():
        return
    from triton.runtime.interpreter import GridExecutor

    run = GridExecutor.__call__

    def untraced(*arguments, **named):
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return run(*arguments, **named)
        finally:
            sys.settrace(tracer)

    monkeypatch.setattr(GridExecutor, "__call__", untraced)


@pytest.fixture(autouse=True)
def _quick_interpreter(monkeypatch):
    """Leave out what takes half of the interpreter's time.

    It replaces Triton's language anew in every function that is called, and computes for every sum of whole numbers
    whether it overflows, which it then says to nobody.
    """
    if torch.cuda.is_available():
        yield
        return
    from triton.runtime import interpreter

    original, scopes = interpreter._patch_lang, {}

    def patch_once(function):
        if function.__module__ not in scopes:
            scopes[function.__module__] = original(function)
        return interpreter._LangPatchScope()

    builder = interpreter.interpreter_builder
    monkeypatch.setattr(interpreter, "_patch_lang", patch_once)
    monkeypatch.setattr(builder, "options", replace(builder.options, sanitize_overflow=False))
    yield
    for scope in reversed(scopes.values()):
        scope.restore()


@pytest.fixture
def device(monkeypatch):
    """Where kernels can run here."""
    monkeypatch.setattr("nesbs.kernels.support.INTERPRETED", True)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    """Products of float32 in float32: on a GPU both ways would round them to TF32, and ReLU cut off other pixels."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture
def close(device):
    """Asserts that two tensors are equal but for rounding, which BatchNorm of small batches magnifies."""
    share = 1e-4 if device.type == "cpu" else 1e-3

    def check(one, two):
        torch.testing.assert_close(one, two, rtol=share, atol=share * float(two.detach().abs().max()))

    return check


@pytest.fixture
def large_blocks(monkeypatch, device):
    """In the interpreter the number of programs is what takes time."""
    if device.type == "cpu":
        monkeypatch.setattr("nesbs.kernels.edge_cell.PIXELS", 1024)
        monkeypatch.setattr("nesbs.kernels.edge_cell.BYTES", 2**19)
        monkeypatch.setattr("nesbs.kernels.pair_cell.BLOCK", 512)
