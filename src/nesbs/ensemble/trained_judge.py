"""The judge `trained`: promising candidates are trained for a few epochs and judged by their own predictions. Ours."""

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nesbs import rng
from nesbs.data import SearchTrain, SearchValid, expect_split, refuse_held_out
from nesbs.ensemble.members import Ensemble, build_member, by_content, groups, member_training
from nesbs.ensemble.scoring import ensemble_losses, losses_of_means, of_label
from nesbs.ensemble.settings import MemberSettings, SearchSettings
from nesbs.errors import expect
from nesbs.metrics import Combine
from nesbs.posterior import Posterior
from nesbs.samplers import Allowed
from nesbs.spaces import Architecture, Member, Space, TimedCosts
from nesbs.training import Epoch, side_by_side

DRAWS = 10_000  # of the posterior, among which its likeliest architectures are looked for


class ShortTraining:
    """How candidates are trained to be judged: on which images, and as members of which settings.

    The search says for how many epochs. `costs` are those of the networks, where they are known. `on_epoch` is told a
    network's name and the epoch that has ended. Here networks are trained in memory; a run keeps them in its folder
    (`runs/judging.py`).
    """

    def __init__(
        self,
        split: SearchTrain,
        settings: MemberSettings | None = None,
        *,
        costs: TimedCosts | None = None,
        on_epoch: Callable[[str, Epoch], None] | None = None,
    ) -> None:
        expect_split(split, "data.search_train")
        refuse_held_out(split)
        expect(
            settings, (MemberSettings, type(None)), "settings must be MemberSettings such as MemberSettings(cells=5)"
        )
        self.split, self.settings, self.costs, self._on_epoch = split, settings or MemberSettings(), costs, on_epoch
        self._started: float | None = None

    def begin(self, networks: int, epochs: int) -> None:
        """Be told that so many networks are going to be trained, each for so many epochs; seconds begin to count."""
        self._started = self._started or time.perf_counter()

    def seconds(self) -> float:
        """Return the seconds since the first training began."""
        return 0.0 if self._started is None else time.perf_counter() - self._started

    def has_begun(self, stem: str) -> bool:
        """Whether the training of a network began before the search was interrupted."""
        return False

    def at_a_time(self, networks: int, *, hurry: bool) -> int:
        """Return how many of the networks are trained before the next ones begin; fewer in a `hurry`."""
        return self.settings.together

    def networks(
        self, space: Space, architectures: Sequence[Architecture], stems: Sequence[str], epochs: int, *, seed: int
    ) -> list[Member]:
        """Train architectures from scratch, side by side; `stems` name them."""
        settings, split, told = self.shortened(epochs), self.split, self._on_epoch
        members, trainings = [], []
        for architecture, stem in zip(architectures, stems, strict=True):
            name = f"judge {stem}"
            member = build_member(space, architecture, split, settings, seed=seed, name=name)
            on_epoch = None if told is None else lambda epoch, stem=stem: told(stem, epoch)
            trainings.append(member_training(member, split, settings, seed=seed, name=name, on_epoch=on_epoch))
            members.append(member)
        side_by_side(trainings)
        return members

    def shortened(self, epochs: int) -> MemberSettings:
        """Return the members' settings with so many epochs."""
        warm_up = min(self.settings.warm_up, epochs - 1)
        return self.settings.model_copy(update={"epochs": epochs, "warm_up": warm_up})


class TrainedJudge:
    """Trains candidates and judges ensembles of the trained networks, each named by its place, on held-out images."""

    def __init__(
        self,
        space: Space,
        training: ShortTraining,
        split: SearchValid,
        settings: SearchSettings,
        *,
        size: int,
        combine: Combine,
        seed: int,
    ) -> None:
        self.architectures: list[Architecture] = []  # of the networks that are trained; copies of one are several
        self._space, self._training, self._split, self._settings = space, training, split, settings
        self.size, self.seed, self._combine = size, seed, combine
        self._predictions: list[Tensor] = []  # of each network: its label's probabilities, or what logits ask for

    def train(self, architectures: Sequence[Architecture]) -> list[int]:
        """Train architectures in this order, several at a time; the places of those that are trained.

        None begins when the budget in seconds is spent, unless there would be less than one ensemble.
        """
        first, settings = len(self.architectures), self._settings
        self._training.begin(first + len(architectures), settings.judge_epochs)
        stems = by_content([*self.architectures, *architectures])[first:]
        at_a_time = self._training.at_a_time(len(architectures), hurry=settings.judge_seconds is not None)
        for group in groups(range(len(architectures)), at_a_time):
            some = [architectures[place] for place in group]
            names = [stems[place] for place in group]
            spent = settings.judge_seconds is not None and self._training.seconds() >= settings.judge_seconds
            begun = any(self._training.has_begun(name) for name in names)
            if spent and not begun and len(self.architectures) >= self.size:
                break
            members = self._training.networks(self._space, some, names, settings.judge_epochs, seed=self.seed)
            self._predictions += [self._predicted(member) for member in members]
            self.architectures += some
        return list(range(first, len(self.architectures)))

    @property
    def seconds(self) -> float:
        """What training took so far."""
        return self._training.seconds()

    def another(self, place: int) -> list[int]:
        """Train the architecture of a network again, from another seed: its place, or nothing where time is up."""
        return self.train([self.architectures[place]])

    def __call__(self, ensembles: Sequence[Sequence[int]], weights: Tensor | None = None) -> Tensor:
        """Return the validation loss of ensembles of networks, (ensembles,), or as a `Judge` under weights."""
        labels, predictions = self._split.labels, torch.stack(self._predictions)
        members = torch.tensor(ensembles, device=labels.device)
        if self._combine == "probabilities":
            return losses_of_means(predictions, members, weights).cpu()
        return ensemble_losses(predictions, labels, members, self._combine, weights).cpu()

    def _predicted(self, member: Member) -> Tensor:
        log_probs = Ensemble([member]).predict(self._split).log_softmax(-1)
        return (of_label(log_probs, self._split.labels) if self._combine == "probabilities" else log_probs)[0]


def promising(
    posterior: Posterior,
    drawn: Sequence[Architecture],
    count: int,
    *,
    seed: int = 0,
    first: Sequence[Architecture] = (),
    allowed: Allowed | None = None,
) -> list[Architecture]:
    """Return so many different architectures, the most probable first: of those drawn, then of the whole posterior.

    The posterior's likeliest are looked for among many draws of it, so it may know fewer. All are `allowed`; those
    that are to be there in any case come `first`.

    >>> from nesbs.spaces import toy_edges
    >>> logits = torch.tensor([[0.0, 1.0, 3.0]] * 3)
    >>> posterior = Posterior(toy_edges(), logits)
    >>> promising(posterior, [], 2)[0] == posterior.mode()
    True
    """

    def ordered(architectures: Sequence[Architecture]) -> list[Architecture]:
        distinct = list(dict.fromkeys(architectures))
        log_p = posterior.log_prob(distinct).tolist() if distinct else []
        return [distinct[place] for place in sorted(range(len(distinct)), key=lambda place: -log_p[place])]

    candidates = list(dict.fromkeys([*first, *ordered(drawn)]))
    if len(candidates) < count:
        more = posterior.sample(DRAWS, generator=rng.generator(seed, "judge", "likeliest"))
        more = [one for one in more if allowed is None or allowed((one,))]
        candidates = list(dict.fromkeys([*candidates, *ordered(more)]))
    return candidates[:count]
