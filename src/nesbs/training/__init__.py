"""The one training loop: optimiser, schedule, precision, checkpoints; supernet, members and rivals call it."""

from nesbs.training.capture import Batch, CapturedGraph, CapturedStep, capture_graph, make_current
from nesbs.training.loop import Epoch, Loss, Objective, Record, Step, Training, place, side_by_side, train, training
from nesbs.training.schedule import cosine, learning_rate
from nesbs.training.settings import TrainingSettings
