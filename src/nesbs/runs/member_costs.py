"""What a run's members cost and may cost, and the times that a latency is predicted from (`operation_times.json`)."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from nesbs.data import Dataset
from nesbs.ensemble import Limits, member_costs
from nesbs.records import Recipe
from nesbs.records.operation_times import MemberTimes, OperationTimesRecord
from nesbs.runs.folder_lock import locked
from nesbs.spaces import Architecture, Space, TimedCosts, time_network


class RunCosts:
    """The costs of networks as a run's recipe builds its members."""

    def __init__(self, folder: Path, recipe: Recipe, data: Dataset, space: Space) -> None:
        self._folder, self._recipe, self._data, self._space = folder, recipe, data, space

    @cached_property
    def members(self) -> TimedCosts:
        """What members cost, with the times of operations where the run has measured them already."""
        costs = member_costs(self._space, self._data.train, self._recipe.members)
        if self._recipe.search.limits.latency is not None:
            earlier = OperationTimesRecord.find(self._folder)
            costs.times = None if earlier is None else earlier.times()
        return costs

    def limits(self, size: int) -> Limits | None:
        """What ensembles of so many members may cost; None where nothing is limited."""
        settings = self._recipe.search.limits
        return Limits(settings, self.members, size) if settings.bounds else None

    def keep_times(self, chosen: Sequence[Architecture] = ()) -> None:
        """Write the times of operations and of the members that were chosen into the run's folder.

        They are there where latency is limited: the limits measure them once, when they are first asked.
        """
        costs = self.members
        if costs.times is None:
            return
        times = [
            MemberTimes(
                architecture=str(one),
                predicted=costs.times.predicted(costs, one),
                **vars(time_network(costs, one, costs.times.device)),
            )
            for one in chosen
        ]
        with locked(self._folder):
            record = OperationTimesRecord.of(costs.times).replace(chosen=tuple(times) or None)
            record.write(self._folder / OperationTimesRecord.FILE)
