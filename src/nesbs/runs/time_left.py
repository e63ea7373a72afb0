"""How long a whole command still takes: from what its stages have taken so far, and no guess about the others."""

import time
from collections import deque
from collections.abc import Callable, Sequence

from nesbs.runs.plan import PlannedStage

LIKE = {"uniform": "members", "labels": "members"}  # stages whose unit, an epoch of a network, is another's


class TimeLeft:
    """Is told what a command will do and how it proceeds; knows the seconds left, and which stages they leave out.

    The speed of a stage is known from its first finished unit on (of one that is resumed, from its second). It is that
    of the later half of its units, since first steps often do what all others use. A stage to come has the speed that a
    stage of its kind had before, in this command. A seed of a comparison takes as long as the one before.

    >>> seconds = iter([0.0, 0.0, 0.0, 0.0, 10.0])
    >>> left = TimeLeft(lambda: next(seconds))
    >>> left.plan([PlannedStage("members", 4, False), PlannedStage("uniform", 4, False)])
    >>> left.start("members", 4)
    >>> left.advance(1)
    >>> left.seconds(), left.uncounted
    (70.0, [])
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._coming: list[PlannedStage] | None = None  # None where nobody has said what will come
        self._rates: dict[str, float] = {}  # seconds a unit, by kind of stage
        self._stage, self._total, self._done, self._began_at = "", 0, 0, 0
        self._marks = deque([(clock(), 0)])  # when so many units of the stage were finished; the first to measure from
        self._seeds_left: int | None = None
        self._seed_began, self._seed_seconds, self._seed_worked = clock(), 0.0, False

    def plan(self, stages: Sequence[PlannedStage], seeds_left: int | None = None) -> None:
        """These stages come now, finished ones left out; or a seed of a comparison, after which so many are left."""
        if self._seed_worked:
            self._seed_seconds = self._clock() - self._seed_began
        self._seed_began, self._seed_worked, self._seeds_left = self._clock(), False, seeds_left
        self._coming = [stage for stage in stages if not stage.finished]

    def start(self, stage: str, total: int) -> None:
        """A stage of so many units begins, or is counted in other units from now on."""
        names = [each.name for each in self._coming or ()]
        if self._coming and stage in names:
            self._coming = self._coming[names.index(stage) + 1 :]
        self._stage, self._total, self._done, self._began_at = stage, total, 0, 0
        self._marks, self._seed_worked = deque([(self._clock(), 0)]), True

    def advance(self, done: int) -> None:
        """So many units of the stage are finished."""
        if self._done == 0 and done > 1:  # resumed: those before it took their time in another process
            self._marks, self._began_at = deque([(self._clock(), done)]), done
        elif done > self._marks[-1][1]:
            self._marks.append((self._clock(), done))
            while 2 * self._marks[1][1] <= self._began_at + done:
                self._marks.popleft()
            (since, first), (now, _) = self._marks[0], self._marks[-1]
            self._rates[_kind(self._stage)] = (now - since) / (done - first)
        self._done = done

    def seconds(self) -> float | None:
        """The seconds left, of what can be counted; None where nothing is known yet."""
        rate = self._rates.get(_kind(self._stage))
        if self._coming is None or rate is None or not self._done:
            return None
        here = rate * (self._total - self._done)
        if self._seeds_left is None:
            return here + sum(stage.units * self._rates.get(_kind(stage.name), 0.0) for stage in self._coming)
        if not self._seed_seconds:
            return None
        of_seed = self._seed_seconds - (self._clock() - self._seed_began)
        return max(here, of_seed) + self._seeds_left * self._seed_seconds

    @property
    def uncounted(self) -> list[str]:
        """The stages to come of which nobody knows how long they take."""
        return [stage.name for stage in self._coming or () if _kind(stage.name) not in self._rates]


def _kind(stage: str) -> str:
    return LIKE.get(stage, stage)
