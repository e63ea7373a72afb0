"""AutoAttack, four attacks in a row without settings to tune (Croce & Hein, 2020), through the package pyautoattack."""

import sys
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from nesbs.attacks.gradient import Model, check_batch
from nesbs.errors import NesbsError
from nesbs.settings import Settings

TARGETS = 9  # classes that the library's targeted attacks aim at


class AutoAttack(Settings):
    """Its standard version under the L∞ norm; an image on which it fails stays clean.

    The paper takes over the configuration of AutoAttack's authors (app. B.6) and names no ε: 0.01 is ours, that of
    the paper's FGSM and PGD. `AutoAttack8` has the authors' own.
    """

    name: ClassVar[str] = "autoattack"

    epsilon: float = Field(
        0.01, gt=0, le=1, description="largest change of a pixel; ours, that of FGSM and PGD: the paper gives none"
    )
    version: Literal["standard", "plus", "rand"] = Field("standard", description="paper: standard")

    def perturb(
        self, model: Model, images: Tensor, labels: Tensor, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Images (batch, channels, height, width) in [0, 1], changed against labels (batch,).

        The library seeds itself; the seed is that of `generator`, 0 without one. It aims at nine other classes where
        there are as many. With three classes or fewer its targeted loss does not exist and APGD-T is left out.
        """
        check_batch(model, images, labels)
        library = autoattack_library()
        with torch.enable_grad():
            logits = model(images[:1].detach().requires_grad_())
        if not logits.requires_grad:  # nothing reaches the output: there is nothing to change, and no gradient
            return images.clone()
        classes = logits.shape[1]
        seed = 0 if generator is None else generator.initial_seed() % 2**31
        choice: dict[str, Any] = {"version": self.version}
        if classes <= 3:
            if self.version != "standard":
                raise NesbsError(
                    f"autoattack's version {self.version} needs four classes or more, found {classes}: use standard"
                )
            choice = {"version": "custom", "attacks": ["apgd-ce", "fab-t", "square"]}
        attack = library.AutoAttack(
            model, norm="Linf", eps=self.epsilon, seed=seed, device=str(images.device), **choice
        )
        for aimed in (attack.apgd_targeted, attack.fab):
            aimed.n_target_classes = min(TARGETS, classes - 1)
        tracer = sys.gettrace()  # the library takes it away
        devices = [images.device] if images.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):  # the library seeds torch for everybody
            try:
                perturbed, _ = attack.run_standard_evaluation(images, labels, batch_size=len(images))
            finally:
                sys.settrace(tracer)
        return torch.as_tensor(perturbed).detach()


class AutoAttack8(AutoAttack):
    """AutoAttack at its authors' standard ε on CIFAR-10 under L∞, 8/255 (their evaluation script's default)."""

    name: ClassVar[str] = "autoattack8"

    epsilon: float = Field(
        8 / 255, gt=0, le=1, description="largest change of a pixel; AutoAttack's authors' on CIFAR-10: 8/255"
    )


def autoattack_library() -> Any:
    """The package behind AutoAttack; without it a `NesbsError` that says how to get it."""
    try:
        import pyautoattack
    except ImportError:
        raise NesbsError("autoattack needs pyautoattack: pip install 'nesbs[robust]'") from None
    return pyautoattack


def can_be_made(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The attacks of these names that can be made here, and why the others cannot.

    >>> can_be_made(["fgsm", "pgd"])
    (['fgsm', 'pgd'], {})
    """
    by_library = [name for name in names if name in (AutoAttack.name, AutoAttack8.name)]
    try:
        if by_library:
            autoattack_library()
    except NesbsError as error:
        if len(names) == len(by_library):
            raise
        return [name for name in names if name not in by_library], dict.fromkeys(by_library, str(error))
    return list(names), {}
