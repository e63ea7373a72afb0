"""The chosen ensemble as plain data, with everything it was chosen from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_args

from nesbs.ensemble.settings import JudgeName
from nesbs.errors import NesbsError, expect_all
from nesbs.samplers import Proposal
from nesbs.spaces import Architecture, Space, duplicates


@dataclass(frozen=True)
class Selection:
    """The chosen ensemble, and every ensemble that was judged with its estimated validation loss.

    `round` and `delta` say where the choice came from; both are None for a forward selection. Architectures
    that the user fixed have no loss. Losses are the supernet's estimates; that of a choice by candidates that were
    trained is their own.
    """

    architectures: tuple[Architecture, ...]
    loss: float | None
    round: int | None
    delta: float | None
    sampler: str
    proposals: tuple[tuple[Proposal, float], ...]
    candidates: tuple[tuple[Architecture, float], ...]  # every architecture estimated, with its own loss
    passed_over: tuple[float, ...] = ()  # values of δ at which no ensemble without duplicates was found
    judge: JudgeName = "likelihood"
    score: float | None = None  # the choice's by a judge other than the loss; lower is better
    scores: tuple[float, ...] = ()  # and those of the proposals
    trained: tuple[tuple[Architecture, float], ...] = ()  # networks trained to be judged, with their loss
    loss_images: int | None = None  # of how many held-out images the losses are, where not of all: they decide nothing
    judge_seconds: float = field(default=0.0, compare=False)  # in no file: its bytes depend on the seed alone

    @classmethod
    def fixed(cls, architectures: tuple[Architecture, ...]) -> Selection:
        """Return the selection of architectures that the user fixed: nothing was searched."""
        return cls(architectures, None, None, None, "given", (), ())

    @property
    def duplicates(self) -> int:
        """How many members are copies of an earlier one."""
        return duplicates(self.architectures)

    @property
    def trace(self) -> list[tuple[float, float | None]]:
        """Every δ with the lowest loss among its ensembles; None for those that were passed over, at the end."""
        lowest: dict[float, float] = {}
        for proposal, loss in self.proposals:
            if proposal.delta is not None:
                lowest[proposal.delta] = min(loss, lowest.get(proposal.delta, loss))
        return [*lowest.items(), *((delta, None) for delta in self.passed_over)]

    def to_json(self) -> dict[str, Any]:
        """Return plain data that `from_json` reads back; no time, path, version or device."""
        return {
            "architectures": [str(architecture) for architecture in self.architectures],
            "loss": self.loss,
            "round": self.round,
            "delta": self.delta,
            "sampler": self.sampler,
            "duplicates": self.duplicates,
            "passed_over": list(self.passed_over),
            "proposals": [
                {
                    "architectures": [str(architecture) for architecture in proposal.architectures],
                    "loss": loss,
                    "round": proposal.round,
                    "delta": proposal.delta,
                    "duplicates": duplicates(proposal.architectures),
                }
                for proposal, loss in self.proposals
            ],
            "candidates": [{"architecture": str(architecture), "loss": loss} for architecture, loss in self.candidates],
            **({} if self.judge == "likelihood" else self._judging()),
            **({} if self.loss_images is None else {"loss_images": self.loss_images}),
        }

    def _judging(self) -> dict[str, Any]:
        """What files hold beside, where ensembles were not judged by the supernet's loss."""
        if self.judge == "trained":
            networks = [{"architecture": str(architecture), "loss": loss} for architecture, loss in self.trained]
            return {"judge": self.judge, "trained": networks}
        return {"judge": self.judge, "score": self.score, "scores": list(self.scores)}

    @classmethod
    def from_json(cls, value: dict[str, Any], space: Space) -> Selection:
        """Read what `to_json` wrote."""

        def read(texts: list[str]) -> tuple[Architecture, ...]:
            expect_all(texts, str, "this is not a selection: architectures must be a list of texts")
            return tuple(space.parse(text) for text in texts)

        try:
            members = read(value["architectures"])
            loss, round_, delta, sampler = (value[key] for key in ("loss", "round", "delta", "sampler"))
            proposals = tuple(
                (Proposal(read(entry["architectures"]), entry["round"], entry["delta"]), entry["loss"])
                for entry in value["proposals"]
            )
            candidates = tuple((space.parse(entry["architecture"]), entry["loss"]) for entry in value["candidates"])
            passed_over = tuple(value["passed_over"])
            judge, score, scores = value.get("judge", "likelihood"), value.get("score"), tuple(value.get("scores", ()))
            trained = tuple((space.parse(one["architecture"]), one["loss"]) for one in value.get("trained", ()))
            images = value.get("loss_images")
            numbers = [loss, round_, delta, *passed_over, score, *scores, images]
            numbers += [loss for _, loss in (*proposals, *candidates, *trained)]
            numbers += [number for proposal, _ in proposals for number in (proposal.round, proposal.delta)]
            if judge not in get_args(JudgeName) or not all(one is None or -1e300 < one < 1e300 for one in numbers):
                raise TypeError
            found = (members, loss, round_, delta, sampler, proposals, candidates, passed_over)
            return cls(*found, judge, score, scores, trained, images)
        except KeyError as error:
            raise NesbsError(f"this is not a selection: {error} is missing") from None
        except (TypeError, AttributeError):
            raise NesbsError("this is not a selection: a part of it is of the wrong kind") from None
