"""Bootstrap intervals over images: against the known spread of a mean, paired, and the same for the same input."""

import math

import pytest
import torch

from nesbs.evaluation import bootstrap, intervals


def test_the_interval_of_a_mean_is_the_normal_one():
    g = torch.Generator().manual_seed(0)
    values = torch.stack([torch.randn(400, generator=g), torch.rand(400, generator=g)]).double()
    found = bootstrap(values, resamples=4000)
    for row, (low, high) in zip(values, found.tolist(), strict=True):
        reach = 1.96 * float(row.std(unbiased=False)) / math.sqrt(400)
        # 4,000 resamples know an edge to about 4 % of the reach.
        assert low == pytest.approx(float(row.mean()) - reach, abs=0.1 * reach)
        assert high == pytest.approx(float(row.mean()) + reach, abs=0.1 * reach)


def test_parts_of_the_work_do_not_change_it(monkeypatch):
    values = torch.rand(2, 50, generator=torch.Generator().manual_seed(1))
    whole = bootstrap(values, resamples=100)
    monkeypatch.setattr("nesbs.evaluation.resampling.AT_ONCE", 500)
    assert torch.equal(bootstrap(values, resamples=100), whole)


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
