"""An ensemble as one module, from bytes to answers: what an exported file holds."""

import torch
from torch import Tensor, nn

from nesbs import metrics
from nesbs.ensemble import Ensemble
from nesbs.evaluation.calibration import scale

INPUT = "images"
OUTPUTS = ("probabilities", "label", "uncertainty")


class WholeModel(nn.Module):
    """Scaling, members, averaging and temperature in one; mean and deviation are part of each member.

    >>> from nesbs.spaces import toy_edges
    >>> networks = [toy_edges().network(one, classes=4, in_channels=3, cells=1) for one in list(toy_edges())[:2]]
    >>> model = WholeModel(Ensemble(networks).eval(), temperature=2.0)
    >>> probabilities, label, uncertainty = model(torch.zeros(5, 8, 8, 3, dtype=torch.uint8))
    >>> probabilities.shape, label.shape, uncertainty.shape
    (torch.Size([5, 4]), torch.Size([5]), torch.Size([5]))
    """

    def __init__(self, ensemble: Ensemble, temperature: float = 1.0) -> None:
        super().__init__()
        self.ensemble = ensemble
        self.temperature = temperature

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Return what the ensemble says of images (images, height, width, channels), bytes from 0 to 255.

        Probabilities (images, classes), the number of the most probable class (images,), and the entropy of the
        probabilities in nats (images,).
        """
        return self.answers(self.ensemble(scaled(images)))

    def answers(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return probabilities, label and uncertainty from the members' logits (members, images, classes)."""
        log_probs = scale(self.ensemble.combined(logits.double()), self.temperature)
        return log_probs.exp().float(), log_probs.argmax(-1), metrics.entropy(log_probs).float()


class WithMembers(WholeModel):
    """The same; behind the three answers come the logits of each member, (images, classes) each."""

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Return the answers for images (images, height, width, channels), then each member's logits."""
        pixels = scaled(images)
        logits = [member(pixels) for member in self.ensemble.members]
        return (*self.answers(torch.stack(logits)), *logits)


def scaled(images: Tensor) -> Tensor:
    """Return bytes (images, height, width, channels) as floats (images, channels, height, width) from 0 to 1."""
    return images.permute(0, 3, 1, 2).float() / 255
