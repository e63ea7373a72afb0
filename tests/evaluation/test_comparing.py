"""Intervals over test images: against the known spread of a share, paired, and the same for the same input."""

import math

import pytest
import torch

from nesbs.evaluation.comparing import Difference, intervals


def test_the_gain_is_paired_over_images():
    """Member and ensemble err on the same images but for ten of 1,000: pairing makes the gain's interval narrow."""
    images = 1000
    labels = torch.zeros(images, dtype=torch.long)

    def network(wrong):
        probs = torch.tensor([[0.8, 0.2]]).repeat(images, 1)
        probs[:wrong] = torch.tensor([0.3, 0.7])
        return probs.double().log()

    found = intervals(torch.stack([network(400), network(430), network(410)]), labels)
    assert found["best"]["error"]["member"] == 2
    assert found["best"]["error"]["gain"] == pytest.approx(0.01)
    gain = found["best"]["error"]
    spread = 1.96 * math.sqrt(0.01 * 0.99 / images)  # ten images of 1,000 differ
    assert (gain["low"], gain["high"]) == pytest.approx((0.01 - spread, 0.01 + spread), abs=0.0015)
    low, high = found["ensemble"]["error"]
    assert (low, high) == pytest.approx((0.4 - 0.0304, 0.4 + 0.0304), abs=0.004)  # much wider
    assert found["best"]["nll"]["gain"] == pytest.approx(0.01 * (math.log(0.8) - math.log(0.3)))
    assert len(found["members"]) == 2
    assert found == intervals(torch.stack([network(400), network(430), network(410)]), labels)


def test_a_difference_is_on_a_side_where_its_interval_excludes_zero():
    sides = {(0.1, 0.3): "higher", (-0.3, -0.1): "lower", (-0.1, 0.3): None, (0.0, 0.3): None, (-0.3, 0.0): None}
    assert {(low, high): Difference(0.1, low, high).verdict for low, high in sides} == sides
    assert Difference(0.1, None, None).verdict is None
