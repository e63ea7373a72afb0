"""The one training loop: optimiser, schedule, precision, checkpoints; supernet, members and rivals call it."""

from nesbs.training.capture import Batch
from nesbs.training.loop import Epoch, Loss, Training, place, side_by_side, train, training
from nesbs.training.schedule import cosine, learning_rate
from nesbs.training.settings import TrainingSettings

__all__ = [
    "Batch",
    "Epoch",
    "Loss",
    "Training",
    "TrainingSettings",
    "cosine",
    "learning_rate",
    "place",
    "side_by_side",
    "train",
    "training",
]
