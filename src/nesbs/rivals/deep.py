"""Deep ensembles (Lakshminarayanan et al., 2017): one architecture, trained n times from different initial weights.

Members differ in their initial weights, the order of images and the augmentation; their probabilities are
averaged. Nothing is searched: the architecture is any of the space, or a cell of the zoo.
"""

from dataclasses import replace

from nesbs.ensemble import Selection
from nesbs.spaces import Architecture


def deep(architecture: Architecture, size: int) -> Selection:
    """An ensemble of `size` copies of one architecture, to be trained by `nesbs.train_ensemble`.

    >>> from nesbs.spaces import zoo
    >>> deep(zoo["darts-v2"], 3).duplicates
    2
    """
    return replace(Selection.fixed((architecture,) * size), sampler="deep")
