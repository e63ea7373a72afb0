"""Attack one, defend with all (paper, sec. 4.2 and app. B.6): each member is attacked in turn, the ensemble answers.

Beside it the honest figure: an attack on the ensemble's own answer.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from nesbs import rng
from nesbs.attacks.autoattack import AutoAttack, AutoAttack8
from nesbs.attacks.captured import CapturedModel
from nesbs.attacks.carlini_wagner import CarliniWagner
from nesbs.attacks.fgsm import Fgsm
from nesbs.attacks.gradient import Model, frozen
from nesbs.attacks.noise import Noise
from nesbs.attacks.pgd import Pgd
from nesbs.attacks.settings import BATCH_SIZE
from nesbs.data import Dataset, Split
from nesbs.ensemble import Ensemble
from nesbs.errors import NesbsError, did_you_mean, expect
from nesbs.settings import checked_keywords


@runtime_checkable
class Attack(Protocol):
    """What changes images against a network; any object with these two will do."""

    name: ClassVar[str]

    def perturb(
        self, model: Model, images: Tensor, labels: Tensor, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Images (batch, channels, height, width) in [0, 1], changed against labels (batch,)."""
        ...


ATTACKS: dict[str, type[Fgsm] | type[Pgd] | type[CarliniWagner] | type[AutoAttack] | type[Noise]] = {
    attack.name: attack for attack in (Fgsm, Pgd, CarliniWagner, AutoAttack, AutoAttack8, Noise)
}


@dataclass(frozen=True)
class AttackedBatch:
    """A batch of one round: images before and after, (batch, channels, height, width), and answers, (batch,)."""

    images: Tensor
    perturbed: Tensor
    labels: Tensor
    before: Tensor  # the attacked network's answer to the clean images
    after: Tensor  # and to the perturbed ones
    ensemble: Tensor  # the ensemble's answer to the perturbed ones


@dataclass(frozen=True)
class Round:
    """One network attacked, all measured on the perturbed images; accuracies are shares (0 to 1)."""

    source: int | None  # the member that was attacked; None: the ensemble's own answer
    attack: float  # accuracy of the attacked network; an image it had wrong already counts as broken
    defence: float  # accuracy of the ensemble
    members: tuple[float, ...]  # accuracy of every member: a row of the transfer matrix
    success: float | None  # of the images the attacked network had right, the share that was broken
    l2: float | None  # median L2 norm of the change, over the images that were broken
    linf: float  # largest change of a pixel


@dataclass(frozen=True)
class Clean:
    """Accuracies before any attack."""

    ensemble: float
    members: tuple[float, ...]


@dataclass(frozen=True)
class Defence:
    """What an attack on each member in turn does to that member and to the ensemble."""

    name: str
    images: int
    clean: Clean
    rounds: tuple[Round, ...]  # one for each member attacked
    adaptive: Round  # the attack on the ensemble's own answer

    @property
    def attack(self) -> float:
        """Accuracy of the attacked member, mean over the rounds (the paper's column Attack)."""
        return fmean(entry.attack for entry in self.rounds)

    @property
    def defence(self) -> float:
        """Accuracy of the whole ensemble on the same images, mean over the rounds (Defence)."""
        return fmean(entry.defence for entry in self.rounds)

    @property
    def attack_std(self) -> float | None:
        """Its sample standard deviation over the rounds; one round has none."""
        return stdev(entry.attack for entry in self.rounds) if len(self.rounds) > 1 else None

    @property
    def defence_std(self) -> float | None:
        """The same for the ensemble."""
        return stdev(entry.defence for entry in self.rounds) if len(self.rounds) > 1 else None

    @property
    def transfer(self) -> tuple[tuple[float, ...], ...]:
        """Accuracy of member j (column) on images made against member i (row), (members, members)."""
        return tuple(entry.members for entry in self.rounds)

    @property
    def meaning(self) -> str:
        """What the figures say, in words."""
        if len(self.rounds) == 1:
            return (
                "An ensemble of one: the attacked network is all there is to defend with, so Attack, Defence and the "
                "attack on the ensemble are one figure."
            )
        return (
            "Attack: accuracy of the attacked member. Defence: accuracy of the ensemble on the same images, whose "
            "attacker knows one member only. Adaptive: accuracy of the ensemble where the attacker knows all of it."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data, means and deviations included."""
        names = ("attack", "attack_std", "defence", "defence_std", "meaning")
        return {**asdict(self), **{name: getattr(self, name) for name in names}}


def get_attack(attack: str | Attack) -> Attack:
    """An attack by its name, with the paper's settings; an attack as it is.

    >>> get_attack("pgd").steps
    40
    """
    if not isinstance(attack, str):
        expect(attack, Attack, "attack must be a name or an attack such as Pgd(epsilon=0.02)")
        return attack
    if attack not in ATTACKS:
        raise NesbsError(f"unknown attack {attack}: {did_you_mean(attack, ATTACKS)}")
    return ATTACKS[attack]()


@checked_keywords
def attack_then_defend(
    ensemble: Ensemble,
    attack: str | Attack,
    data: Split | Dataset,
    *,
    seed: int = 0,
    batch_size: int = BATCH_SIZE,
    on_round: Callable[[Round], None] | None = None,
) -> Defence:
    """Attack each member in turn, then the ensemble itself, and measure all of them on the perturbed images.

    `attack` is a name (`fgsm`, `pgd`, `cw`, `autoattack`, `autoattack8`: the paper's settings, AutoAttack with ε = 0.01
    and 8/255) or an object such as `nesbs.Pgd(epsilon=0.02)`; `data` a split, or a data set, whose test images are
    taken.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.ensemble import train_ensemble
    >>> from nesbs.spaces import toy_edges
    >>> data = load_dataset("fashion-mini", train_limit=200, test_limit=40)
    >>> ensemble = train_ensemble(toy_edges(), list(toy_edges())[-2:], data.train, epochs=1, cells=1, channels=4)
    >>> result = attack_then_defend(ensemble, "fgsm", data.test)
    >>> result.attack <= max(result.clean.members), len(result.rounds), len(result.transfer[0])
    (True, 2, 2)
    """
    chosen = get_attack(attack)
    expect(ensemble, Ensemble, "ensemble must be an Ensemble, which train_ensemble returns")
    expect(data, (Split, Dataset), "data must be a Split such as data.test, or a Dataset")
    split = data.test if isinstance(data, Dataset) else data
    ensemble.check_split(split)
    clean = clean_accuracy(ensemble, split, batch_size=batch_size)
    rounds = []
    for source in sources(ensemble):
        rounds.append(attack_round(ensemble, chosen, split, source, seed=seed, batch_size=batch_size))
        if on_round is not None:
            on_round(rounds[-1])
    return Defence(chosen.name, len(split), clean, tuple(rounds[:-1]), rounds[-1])


def sources(ensemble: Ensemble) -> list[int | None]:
    """What is attacked in turn: each member, then the ensemble (None)."""
    return [*range(len(ensemble.members)), None]


def clean_accuracy(ensemble: Ensemble, split: Split, *, batch_size: int = BATCH_SIZE) -> Clean:
    """Accuracies on the images as they are."""
    with frozen(ensemble):
        logits = ensemble.predict(split, batch_size=batch_size)
    right = logits.argmax(-1) == split.labels
    whole = ensemble.combined(logits).argmax(-1) == split.labels
    return Clean(_share(whole), tuple(map(_share, right)))


def attack_round(
    ensemble: Ensemble,
    attack: Attack,
    split: Split,
    source: int | None,
    *,
    seed: int = 0,
    batch_size: int = BATCH_SIZE,
    on_batch: Callable[[AttackedBatch], None] | None = None,
) -> Round:
    """Attack one member, or the ensemble's own answer where `source` is None, and measure everybody."""

    def answer(images: Tensor) -> Tensor:
        """The attacked network's logits; those of the ensemble are its log-probabilities."""
        if source is None:
            return ensemble.combined(ensemble(images))
        logits: Tensor = ensemble.members[source](images)
        return logits

    model = CapturedModel(answer) if split.device.type == "cuda" else answer
    whole = source is None or len(ensemble.members) == 1  # whether the ensemble is what was attacked
    right: list[Tensor] = []  # of each batch (attacked before, attacked after, ensemble, each member; batch)
    sizes: list[Tensor] = []  # of each batch (L2, L∞; batch)
    with frozen(ensemble):
        for number, index in enumerate(torch.arange(len(split), device=split.device).split(batch_size)):
            images, labels = split.pixels(index), split.labels[index]
            random = rng.generator(seed, "attack", attack.name, str(source), number, device=split.device)
            perturbed = attack.perturb(model, images, labels, generator=random)
            with torch.no_grad():
                before, after = answer(images).argmax(-1), answer(perturbed).argmax(-1)
                logits = ensemble(perturbed)
            combined = after if whole else ensemble.combined(logits).argmax(-1)
            answers = torch.stack([before, after, combined, *logits.argmax(-1)])
            right.append(answers == labels)
            change = (perturbed - images).flatten(1)
            sizes.append(torch.stack([change.norm(dim=1), change.abs().amax(1)]))
            if on_batch is not None:
                on_batch(AttackedBatch(images, perturbed, labels, before, after, combined))
    before, after, combined, *members = torch.cat(right, 1)
    l2, linf = torch.cat(sizes, 1)
    unbroken, broken = before & after, before & ~after
    if source is not None:
        members[source] = unbroken
    return Round(
        source=source,
        attack=_share(unbroken),
        defence=_share(unbroken if whole else combined),
        members=tuple(map(_share, [unbroken] if len(members) == 1 else members)),
        success=int(broken.sum()) / int(before.sum()) if bool(before.any()) else None,
        l2=float(l2[broken].double().quantile(0.5)) if bool(broken.any()) else None,
        linf=float(linf.max()),
    )


def _share(flags: Tensor) -> float:
    return int(flags.sum()) / len(flags)
