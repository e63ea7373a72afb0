"""The variational posterior p_α(A): a categorical for every variable of the space (paper, app. B.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nesbs.errors import NesbsError, expect, expect_all, expect_whole
from nesbs.posterior.settings import PosteriorSettings
from nesbs.spaces import Architecture, Space, get_space

DEFAULT = PosteriorSettings()


class Posterior:
    """Independent categoricals over a space's variables, with log p, entropy and KL in closed form.

    `logits` is (variables, choices), rows of variables with fewer choices filled up (what is there plays no
    part). A variable that plays a part only given another counts only then. At zero logits p is uniform.
    `temperature` is the paper's τ: it divides the logits, so a larger one flattens the posterior.
    """

    def __init__(self, space: Space, logits: Tensor | None = None, *, temperature: float = DEFAULT.temperature) -> None:
        expect(space, Space, "space must be a Space such as nasbench201()")
        self.space = space
        widths = torch.tensor([len(variable.choices) for variable in space.variables])
        self._real = torch.arange(int(widths.max())) < widths[:, None]  # (variables, choices)
        self.logits = torch.zeros(self._real.shape) if logits is None else logits
        expect(self.logits, Tensor, "logits must be a tensor (variables, choices)")
        if self.logits.shape != self._real.shape:
            raise NesbsError(
                f"space {space.name} needs logits of shape {tuple(self._real.shape)}, found {tuple(self.logits.shape)}"
            )
        if not bool(self.logits.isfinite().all()):
            raise NesbsError("the logits of a posterior must be finite numbers")
        if not isinstance(temperature, int | float) or not 0 < temperature < math.inf:
            raise NesbsError(f"the temperature must be above 0 and finite, found {temperature!r}")
        self.temperature = temperature

    def log_probabilities(self) -> Tensor:
        """Return the log-probability of every choice, (variables, choices); −inf for places that are filled up."""
        return (self.logits / self.temperature).masked_fill(~self._real, -math.inf).log_softmax(-1)

    def log_prob(self, architecture: Architecture | Sequence[Architecture]) -> Tensor:
        """Return log p_α(A) of one architecture (a scalar) or of several (architectures,).

        >>> from nesbs.spaces import nasbench201
        >>> space = nasbench201()
        >>> Posterior(space).log_prob(next(iter(space))).exp() * len(space)
        tensor(1.0000)
        """
        if isinstance(architecture, Architecture):
            return self.log_prob([architecture])[0]
        what = "log_prob takes an Architecture or a list of them; space.parse reads one"
        expect_all(architecture, Architecture, what)
        index = self.space.encode_all(architecture)  # −1: plays no part
        # (architectures, variables): of every variable the choice that was made
        rows = self.log_probabilities().expand(len(index), -1, -1)
        chosen = rows.gather(-1, index.clamp_min(0)[..., None])[..., 0]
        return chosen.masked_fill(index < 0, 0.0).sum(-1)

    def sample(self, count: int, *, generator: torch.Generator) -> list[Architecture]:
        """Draw `count` architectures, independently.

        >>> from nesbs.spaces import nasbench201
        >>> len(Posterior(nasbench201()).sample(5, generator=torch.Generator().manual_seed(0)))
        5
        """
        expect_whole(count, "count")
        expect(generator, torch.Generator, "generator must be a torch.Generator")
        probabilities = self.log_probabilities().detach().exp()
        drawn = torch.multinomial(probabilities, count, replacement=True, generator=generator)
        return [self.space.architecture(row) for row in drawn.T.tolist()]

    def activity(self) -> Tensor:
        """Return the probability that each variable plays a part, (variables,)."""
        always = self.logits.new_ones(len(self.space.variables))
        places, parents, calls = self.space.conditions
        if not len(places):
            return always
        probabilities = self.log_probabilities().exp()
        return always.index_put((places,), (probabilities[parents] * calls).sum(-1))

    def entropies(self) -> Tensor:
        """Return the entropy of every variable on its own, (variables,), in nats."""
        log_p = self.log_probabilities()
        return -(log_p.exp() * log_p.masked_fill(~self._real, 0.0)).sum(-1)

    def entropy(self) -> Tensor:
        """Return H = Σ_v P(v plays a part) · H(v), in nats."""
        return (self.activity() * self.entropies()).sum()

    def kl(self) -> Tensor:
        """Return the KL to the uniform prior: log |space| − H."""
        return math.log(self.space.size) - self.entropy()

    def mode(self) -> Architecture:
        """Return the most probable architecture."""
        log_p = self.log_probabilities().detach()
        best_value, best = log_p.max(-1)
        picks = best.tolist()
        for root in self.space.roots():
            # The best pair is the one whose own probability times its operations' best is largest.
            totals = [
                log_p[root, choice] + best_value[self.space.children(root, choice)].sum()
                for choice in range(len(self.space.variables[root].choices))
            ]
            picks[root] = int(torch.stack(totals).argmax())
        return self.space.architecture(picks)

    def tempered(self, temperature: float) -> Posterior:
        """Return the posterior of the same logits at another τ."""
        return Posterior(self.space, self.logits, temperature=temperature)

    def to_json(self) -> dict[str, Any]:
        """Return plain data that `from_json` reads back."""
        return {
            "space": self.space.name,
            "temperature": self.temperature,
            "entropy": float(self.entropy()),
            "log_size": math.log(self.space.size),
            "variables": [
                {
                    "name": variable.name,
                    "choices": list(variable.choices),
                    "logits": self.logits[i, : len(variable.choices)].tolist(),
                    "probabilities": self.log_probabilities()[i, : len(variable.choices)].exp().tolist(),
                    "activity": float(self.activity()[i]),
                }
                for i, variable in enumerate(self.space.variables)
            ],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Posterior:
        """Read what `to_json` wrote."""
        try:
            space = get_space(value["space"])
            logits = torch.zeros(Posterior(space).logits.shape)
            names = [entry["name"] for entry in value["variables"]]
            if names != [variable.name for variable in space.variables]:
                raise NesbsError(f"the posterior's variables are not those of space {space.name}")
            for i, (entry, variable) in enumerate(zip(value["variables"], space.variables, strict=True)):
                row = torch.tensor([float(logit) for logit in entry["logits"]])
                if len(row) != len(variable.choices) or not bool(row.isfinite().all()):
                    raise NesbsError(f"{variable.name} needs {len(variable.choices)} finite logits")
                logits[i, : len(row)] = row
            return cls(space, logits, temperature=float(value["temperature"]))
        except NesbsError as error:
            raise NesbsError(f"this is not a posterior: {error}") from None
        except KeyError as error:
            raise NesbsError(f"this is not a posterior: {error} is missing") from None
        except (TypeError, ValueError, ArithmeticError, AttributeError):
            raise NesbsError("this is not a posterior: a part of it is of the wrong kind") from None
