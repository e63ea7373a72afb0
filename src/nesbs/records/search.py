"""The posterior and the choice as they were written (`posterior.json`, `selection.json`), for showing them.

`Posterior` and `Selection` read the same files where they are used; here nothing has to be whole. Their bytes
depend on the seed alone, so they hold no version.
"""

from nesbs.records.base import FileRecord, Record
from nesbs.records.kinds import Count, Many, Number, Numbers, Texts


class VariableRecord(Record):
    """One decision of the space with its probabilities."""

    name: str | None = None
    choices: Texts | None = None
    logits: Numbers | None = None
    probabilities: Numbers | None = None
    activity: Number | None = None  # how probable it is that the decision plays a part


class PosteriorRecord(FileRecord):
    """The posterior: `posterior.json`."""

    FILE = "posterior.json"

    space: str | None = None
    temperature: Number | None = None
    entropy: Number | None = None  # nats
    log_size: Number | None = None  # of the space
    variables: Many[VariableRecord] | None = None

    @property
    def kl_to_uniform(self) -> float | None:
        """The KL divergence to the uniform prior in nats; None where either entropy is missing."""
        return None if self.entropy is None or self.log_size is None else max(self.log_size - self.entropy, 0.0)


class ProposalRecord(Record):
    """An ensemble that was judged."""

    architectures: Texts | None = None
    loss: Number | None = None
    round: Count | None = None
    delta: Number | None = None
    duplicates: Count | None = None


class CandidateRecord(Record):
    """An architecture that was estimated."""

    architecture: str | None = None
    loss: Number | None = None


class SelectionRecord(FileRecord):
    """The chosen ensemble and every ensemble that was judged: `selection.json`."""

    FILE = "selection.json"

    architectures: Texts | None = None
    loss: Number | None = None
    round: Count | None = None
    delta: Number | None = None
    sampler: str | None = None  # `given`: the user fixed the architectures
    duplicates: Count | None = None
    passed_over: Numbers | None = None
    proposals: Many[ProposalRecord] | None = None
    candidates: Many[CandidateRecord] | None = None
    judge: str | None = None  # where it is not the supernet's loss
    score: Number | None = None  # of the choice, by that judge
    scores: Numbers | None = None  # of the proposals
    trained: Many[CandidateRecord] | None = None  # networks trained to be judged
    loss_images: Count | None = None  # of how many held-out images the losses are, where not of all
