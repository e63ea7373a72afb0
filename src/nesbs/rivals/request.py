"""What a one-shot search is asked and what it answers: one type of each for all of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nesbs.data import SearchTrain, SearchValid, expect_held_out, refuse_held_out
from nesbs.samplers import Allowed
from nesbs.spaces import Architecture, Space
from nesbs.supernet import Supernet, SupernetSettings, build_supernet
from nesbs.training import Epoch


@dataclass(frozen=True)
class SearchRequest:
    """A one-shot search to be made: weights learn from `train`, what chooses paths from `valid`.

    `learning_rate` is that of what is learned beside the supernet's weights; None takes the method's own. Methods that
    judge architectures at the end judge `samples` of them, in batches of `batch_size`. What they end with is `allowed`,
    where limits say what is. With a `checkpoint` an interrupted search resumes; `on_epoch` is called after every epoch.
    """

    space: Space
    train: SearchTrain
    valid: SearchValid
    settings: SupernetSettings = field(default_factory=SupernetSettings)
    learning_rate: float | None = None
    samples: int = 100
    batch_size: int = 250
    seed: int = 0
    allowed: Allowed | None = None
    checkpoint: Path | None = None
    on_epoch: Callable[[Epoch], None] | None = None

    def __post_init__(self) -> None:
        refuse_held_out(self.train)
        expect_held_out(self.valid)

    def supernet(self, *, mixed_by: str | None = None) -> Supernet:
        """A supernet with its first weights; raises where it cannot mix operations as the method named does."""
        supernet = build_supernet(self.space, self.train, self.settings, seed=self.seed)
        if mixed_by is not None:
            supernet.check_mixture(mixed_by)
        return supernet


@dataclass(frozen=True)
class SearchResult:
    """What a one-shot search ends with: the architecture by the method's own rule, and the weights it learned."""

    architecture: Architecture
    supernet: Supernet
