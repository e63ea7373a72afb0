"""What `nesbs attack` does: which attacks, on how many images, epsilon curves and sanity checks on fewer."""

from typing import Annotated

from pydantic import Field, field_validator

from nesbs.attacks.autoattack import AutoAttack, AutoAttack8
from nesbs.attacks.carlini_wagner import CarliniWagner
from nesbs.attacks.fgsm import Fgsm
from nesbs.attacks.noise import Noise
from nesbs.attacks.pgd import Pgd
from nesbs.attacks.sanity import sanity_attacks
from nesbs.errors import NesbsError, did_you_mean, named
from nesbs.settings import MAX_BATCH, MAX_IMAGES, MAX_VALUES, Settings

# The paper's, app. B.6. It gives no ε for AutoAttack: `autoattack` has that of FGSM and PGD, the other its authors'.
NAMES = ("fgsm", "pgd", "cw", "autoattack", "autoattack8")
BATCH_SIZE = 250  # images that are attacked at once


class AttackSettings(Settings):
    """Settings of `nesbs attack`; those of an attack are a section of its name."""

    attacks: tuple[str, ...] = Field(NAMES, min_length=1, description=f"some of {', '.join(NAMES)}")
    images: int | None = Field(
        None, ge=1, le=MAX_IMAGES, description="so many test images, drawn by the seed; by default all"
    )
    batch_size: int = Field(BATCH_SIZE, ge=1, le=MAX_BATCH)
    epsilons: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(
        (0.002, 0.005, 0.01, 0.02, 0.05, 0.1),
        max_length=MAX_VALUES,
        description="of the epsilon curves; none: no curves, no checks",
    )
    closer: int = Field(200, ge=1, le=MAX_IMAGES, description="images of the epsilon curves and sanity checks")
    pictures: int = Field(3, ge=0, le=20, description="images that the report shows of each attack")
    fgsm: Fgsm = Fgsm()
    pgd: Pgd = Pgd()
    cw: CarliniWagner = CarliniWagner()
    autoattack: AutoAttack = AutoAttack()
    autoattack8: AutoAttack8 = AutoAttack8()

    @field_validator("attacks", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        """A single string is names with commas between."""
        names = value.split(",") if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            return value
        names = [name.strip() for name in names]
        for name in names:
            if name not in NAMES:
                raise NesbsError(f"unknown attack {named(name)}: {did_you_mean(name, NAMES)}")
        return [name for name in NAMES if name in names]

    @field_validator("epsilons", mode="before")
    @classmethod
    def _several(cls, value: object) -> object:
        """A single number is a list of one."""
        return [value] if isinstance(value, int | float) else value

    @field_validator("epsilons")
    @classmethod
    def _sizes(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(sorted(set(value)))

    def attack(self, name: str) -> Fgsm | Pgd | CarliniWagner | AutoAttack:
        """An attack with its settings.

        >>> AttackSettings(pgd=Pgd(steps=5)).attack("pgd").steps
        5
        """
        chosen: Fgsm | Pgd | CarliniWagner | AutoAttack = getattr(self, name)
        return chosen

    @property
    def curves(self) -> list[Fgsm | Pgd]:
        """The attacks of the epsilon curves, one for each ε.

        >>> [attack.name for attack in AttackSettings(epsilons=(0.01, 0.1)).curves]
        ['fgsm', 'fgsm', 'pgd', 'pgd']
        """
        by_one_step = [self.fgsm.model_copy(update={"epsilon": epsilon}) for epsilon in self.epsilons]
        return [*by_one_step, *map(self.pgd.at, self.epsilons)]

    @property
    def checks(self) -> dict[str, Fgsm | Pgd | Noise]:
        """The attacks of the sanity checks, which go with the curves."""
        return sanity_attacks(self.pgd) if self.epsilons else {}
