"""The learning rate of every step: a rise over the first epochs, then a cosine or a line down to 0."""

import math

from nesbs.training.settings import TrainingSettings


def learning_rate(settings: TrainingSettings, step: int, steps: int) -> float:
    """The learning rate of `step` (from 0 over the whole training) with `steps` steps an epoch.

    >>> settings = TrainingSettings(epochs=10, learning_rate=0.5, schedule="linear", warm_up=5)
    >>> [learning_rate(settings, step, 1) for step in (0, 4, 5, 6, 9)]
    [0.1, 0.5, 0.5, 0.4, 0.1]
    """
    rising = min(settings.warm_up, settings.epochs) * steps
    if step < rising:
        return settings.learning_rate * (step + 1) / rising
    fall = cosine if settings.schedule == "cosine" else linear
    return fall(step - rising, settings.epochs * steps - rising, settings.learning_rate)


def cosine(step: int, steps: int, start: float) -> float:
    """The learning rate before `step` (from 0) of `steps`, falling from `start` to 0.

    >>> cosine(0, 10, 0.1), cosine(5, 10, 0.1)
    (0.1, 0.05)
    """
    return start * 0.5 * (1 + math.cos(math.pi * step / steps))


def linear(step: int, steps: int, start: float) -> float:
    """The same along a line.

    >>> linear(0, 10, 0.1), linear(5, 10, 0.1)
    (0.1, 0.05)
    """
    return start * (steps - step) / steps
