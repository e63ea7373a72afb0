"""A whole model as ONNX, and its parts: conversion by torch's exporter (extra `export`)."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import torch
from torch.export import Dim, ExportedProgram

from nesbs.deploy.whole_model import INPUT, WholeModel

if TYPE_CHECKING:
    import onnx
    import onnxruntime

EXAMPLE = 2  # images; a batch of one would be taken for a fixed size
BATCH = "batch"  # the name of the axis of images in the file


def has_extra() -> bool:
    """Whether the packages of the extra `export` are installed."""
    try:
        for name in ("onnx", "onnxscript", "onnxruntime"):
            import_module(name)
    except ImportError:
        return False
    return True


def traced(model: WholeModel, shape: Sequence[int]) -> ExportedProgram:
    """Return the model as torch's exported program, for any number of images of `shape` (height, width, channels)."""
    example = torch.zeros(EXAMPLE, *shape, dtype=torch.uint8)
    with quiet(), torch.no_grad():
        program = torch.export.export(model.eval(), (example,), dynamic_shapes=({0: Dim(BATCH)},))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of the machine that exports
    return program


def onnx_model(program: ExportedProgram, outputs: Sequence[str], about: Mapping[str, str]) -> onnx.ModelProto:
    """Return an exported program as ONNX with these names of its outputs; `about` becomes its metadata."""
    import onnx

    with quiet():
        converted = torch.onnx.export(
            program, dynamo=True, verbose=False, input_names=[INPUT], output_names=list(outputs)
        )
    assert converted is not None
    model: onnx.ModelProto = converted.model_proto
    del model.graph.value_info[:], model.graph.metadata_props[:]
    for node in model.graph.node:
        node.ClearField("doc_string")
        del node.metadata_props[:]  # paths of the machine that exports
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = BATCH
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, dict(about))
    onnx.checker.check_model(model)
    return model


def part(model: onnx.ModelProto, outputs: Sequence[str]) -> onnx.ModelProto:
    """Return the part of a model that these outputs need."""
    import onnx

    extracted: onnx.ModelProto = onnx.utils.Extractor(model).extract_model([INPUT], list(outputs))
    return extracted


def session(content: bytes, *, threads: int | None = None) -> onnxruntime.InferenceSession:
    """Open an ONNX file's bytes on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    if threads is not None:
        options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


@contextmanager
def quiet() -> Iterator[None]:
    """Keep torch's exporter from speaking about itself: torchvision is missing, its own code is deprecated."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
