"""What a reader asks of a robust evaluation before believing it: whether the attacks work at all.

Accuracies here are those of the attacked member, mean over the members.
"""

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nesbs.attacks.fgsm import Fgsm
from nesbs.attacks.noise import Noise
from nesbs.attacks.pgd import Pgd

SLACK = 0.01  # a share of images: one or two may fall back over the border at an attack's last step
LARGE = Pgd(epsilon=0.5, step_size=0.02, steps=40)  # any image can become an even grey


@dataclass(frozen=True)
class Check:
    """One question, the accuracies (0 to 1) that answer it, and whether the answer is the right one."""

    question: str
    accuracies: dict[str, float]
    passed: bool

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def sanity_attacks(pgd: Pgd) -> dict[str, Fgsm | Pgd | Noise]:
    """The attacks whose accuracies `sanity_checks` wants, by name; all but the last have the size of `pgd`.

    >>> list(sanity_attacks(Pgd()))
    ['noise', 'FGSM', 'PGD-10', 'PGD-40', 'PGD-80', 'PGD at ε = 0.5']
    """
    counts = sorted({max(1, pgd.steps // 4), pgd.steps, 2 * pgd.steps})
    return {
        "noise": Noise(epsilon=pgd.epsilon),
        "FGSM": Fgsm(epsilon=pgd.epsilon),
        **{f"PGD-{steps}": pgd.model_copy(update={"steps": steps}) for steps in counts},
        f"PGD at ε = {LARGE.epsilon:g}": LARGE,
    }


def sanity_checks(clean: float, accuracies: Mapping[str, float]) -> list[Check]:
    """The four checks from the accuracy on clean images and under each attack of `sanity_attacks`.

    >>> accuracies = {"noise": 0.9, "FGSM": 0.5, "PGD-10": 0.4, "PGD-40": 0.3, "PGD-80": 0.3, "PGD at ε = 0.5": 0.0}
    >>> [check.passed for check in sanity_checks(0.9, accuracies)]
    [True, True, True, True]
    >>> masked = {**dict.fromkeys(accuracies, 0.9), "noise": 0.8}  # gradients lead nowhere
    >>> [check.passed for check in sanity_checks(0.9, masked)]
    [False, True, True, False]
    """
    noise, fgsm, *many, large = accuracies
    asked = many[-2] if len(many) > 1 else many[0]
    falling = all(accuracies[later] <= accuracies[earlier] + SLACK for earlier, later in itertools.pairwise(many))
    nothing_to_break = clean == 0

    def check(question: str, names: list[str], passed: bool) -> Check:
        return Check(question, {"clean": clean, **{name: accuracies[name] for name in names}}, passed)

    return [
        check("Does the accuracy fall to zero as ε grows?", [asked, large], accuracies[large] <= SLACK),
        check("Is PGD at least as strong as FGSM?", [fgsm, asked], accuracies[asked] <= accuracies[fgsm] + SLACK),
        check("Are more steps not weaker?", many, falling),
        check(
            "Is a random change of the same size weaker (gradients are not masked)?",
            [noise, fgsm, asked],
            nothing_to_break or min(accuracies[fgsm], accuracies[asked]) < accuracies[noise],
        ),
    ]
