"""The protocol, on networks whose answers under attack are known."""

import pytest
import torch
from torch import nn

import nesbs
from nesbs.attacks import AttackSettings, Fgsm, Noise, Pgd, attack_round, clean_accuracy, sanity_attacks, sanity_checks
from nesbs.data.split import make_split
from nesbs.errors import NesbsError


class Pixel(nn.Module):
    """Class 1 where one pixel is above a half, class 0 below; looks at nothing else."""

    def __init__(self, place, slope=10.0):
        super().__init__()
        self.place, self.slope = place, nn.Parameter(torch.tensor(slope))
        self.norm = nn.BatchNorm1d(1, affine=False)  # must not learn from attacked images

    def forward(self, images):
        value = self.slope * self.norm(images.flatten(1)[:, self.place, None] - 0.5)
        return torch.cat([-value, value], 1)


def ensemble_of(*members, combine="probabilities"):
    return nesbs.Ensemble(list(members), combine)


@pytest.fixture
def pixels():
    """Four 2×2 images: all pixels 0.6 or all 0.4, once labelled by what they show, once one of them wrongly."""
    shades = torch.tensor([153, 102, 153, 102], dtype=torch.uint8)
    images = shades[:, None, None, None].expand(4, 1, 2, 2).contiguous()
    return make_split(images, torch.tensor([1, 0, 1, 1]), ("dark", "light"), source="pixels")


def test_an_attack_on_one_member_leaves_the_others(pixels):
    # Three members that look at three different pixels: moving one fools one member, the others outvote it.
    ensemble = ensemble_of(Pixel(0), Pixel(1), Pixel(2))
    result = nesbs.attack_then_defend(ensemble, Fgsm(epsilon=0.11), pixels)
    assert result.clean.ensemble == 0.75
    assert result.clean.members == (0.75, 0.75, 0.75)
    assert result.attack == 0
    assert result.defence == 0.75
    assert (result.attack_std, result.defence_std) == (0, 0)
    assert result.transfer == ((0, 0.75, 0.75), (0.75, 0, 0.75), (0.75, 0.75, 0))
    assert [entry.success for entry in result.rounds] == [1, 1, 1]
    assert result.rounds[0].linf == pytest.approx(0.11, abs=1e-6)
    assert result.rounds[0].l2 == pytest.approx(0.11, abs=1e-6)  # one pixel has moved
    # The attacker who knows all three moves all three pixels.
    assert result.adaptive.attack == result.adaptive.defence == 0
    assert result.adaptive.source is None
    assert result.adaptive.l2 == pytest.approx(3**0.5 * 0.11, abs=1e-6)
    assert "whose attacker knows one member only" in result.meaning


def test_too_small_an_attack_breaks_nothing(pixels):
    result = nesbs.attack_then_defend(ensemble_of(Pixel(0), Pixel(1)), Pgd(epsilon=0.09, step_size=0.05), pixels)
    assert result.attack == result.defence == result.adaptive.attack == 0.75
    assert result.rounds[0].success == 0
    assert result.rounds[0].l2 is None


def test_an_image_that_was_wrong_counts_as_broken(pixels):
    class Backwards(Fgsm):
        """Moves every image to where the label would have it."""

        def perturb(self, model, images, labels, *, generator=None):
            return labels[:, None, None, None].float().expand_as(images).contiguous()

    result = nesbs.attack_then_defend(ensemble_of(Pixel(0), Pixel(1)), Backwards(), pixels)
    assert result.attack == 0.75  # though all four are right now
    assert result.defence == 1
    assert result.transfer == ((0.75, 1), (1, 0.75))
    assert result.adaptive.attack == result.adaptive.defence == 0.75


def test_an_ensemble_of_one_says_what_it_means(pixels):
    result = nesbs.attack_then_defend(ensemble_of(Pixel(0)), "fgsm", pixels)
    assert result.attack == result.defence == result.adaptive.attack
    assert result.attack_std is result.defence_std is None
    assert result.transfer == ((result.attack,),)
    assert "An ensemble of one" in result.meaning
    assert result.to_json()["meaning"] == result.meaning


def test_the_adaptive_attack_follows_how_members_are_combined(pixels):
    quiet, loud = (Pixel(0, 1.0), Pixel(1, 1.0)), Pixel(2, 1000.0)
    moved = {}
    for combine in ("probabilities", "logits"):
        ensemble = ensemble_of(*quiet, loud, combine=combine)
        seen = []
        attack_round(ensemble, Fgsm(epsilon=0.01), pixels, None, on_batch=seen.append)
        moved[combine] = (seen[0].perturbed != seen[0].images).flatten(1).sum(1).tolist()
    # Image 0 is right, and its loud member's probability is 1 without a slope; the mean of logits has slopes for all.
    assert (moved["probabilities"][0], moved["logits"][0]) == (2, 3)


def test_networks_are_as_they_were(pixels):
    ensemble = ensemble_of(Pixel(0), Pixel(1)).train()
    before = {name: value.clone() for name, value in ensemble.state_dict().items()}
    nesbs.attack_then_defend(ensemble, "pgd", pixels, batch_size=3)
    assert all(torch.equal(value, before[name]) for name, value in ensemble.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in ensemble.parameters())
    assert ensemble.training


def test_a_seed_repeats_a_round(noise):
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    ensemble = ensemble_of(network)

    def seen(seed):
        batches = []
        attack_round(ensemble, Noise(), noise.test, 0, seed=seed, batch_size=10, on_batch=batches.append)
        return torch.cat([batch.perturbed for batch in batches])

    assert torch.equal(seen(0), seen(0))
    assert not torch.equal(seen(0), seen(1))
    change = seen(0) - noise.test.pixels()
    assert not torch.equal(change[:10], change[10:20])  # batches draw on their own


def test_a_data_set_stands_for_its_test_images(noise):
    ensemble = ensemble_of(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)))
    heard = []
    result = nesbs.attack_then_defend(ensemble, "fgsm", noise, on_round=heard.append)
    assert result.images == len(noise.test)
    assert result == nesbs.attack_then_defend(ensemble, "fgsm", noise.test)
    assert heard == [*result.rounds, result.adaptive]
    assert result.clean == clean_accuracy(ensemble, noise.test)


def test_unknown_attacks_are_refused(noise):
    with pytest.raises(NesbsError, match="unknown attack pdg: did you mean pgd?"):
        nesbs.attack_then_defend(None, "pdg", noise)
    for wrong, message in (
        ({"attacks": "fgsm,pdg"}, "unknown attack pdg: did you mean pgd?"),
        ({"attacks": ""}, "unknown attack : choose one of: fgsm, pgd, cw, autoattack, autoattack8"),
        ({"epsilons": [0.0, 0.1]}, "epsilons: input should be greater than 0, found 0.0"),
        ({"pgd": {"steps": 0}}, "pgd.steps: input should be greater than or equal to 1, found 0"),
        ({"images": 0}, "images: input should be greater than or equal to 1"),
    ):
        with pytest.raises(NesbsError, match=message):
            AttackSettings.of(wrong)


def test_sanity_checks_find_attacks_that_do_not_work():
    names = list(sanity_attacks(Pgd()))
    good = dict(zip(names, (0.88, 0.5, 0.4, 0.3, 0.29, 0.0), strict=True))
    assert all(check.passed for check in sanity_checks(0.9, good))
    assert list(sanity_checks(0.9, good)[1].accuracies) == ["clean", "FGSM", "PGD-40"]  # the steps that were asked for
    for name, value, place in (
        (names[-1], 0.2, 0),  # an attack without bounds leaves some standing
        ("FGSM", 0.1, 1),  # one step does more than forty
        ("PGD-80", 0.5, 2),  # more steps do less
        ("noise", 0.3, 3),  # tossing coins does as much
    ):
        passed = [check.passed for check in sanity_checks(0.9, {**good, name: value})]
        assert passed[place] is False
        assert sum(passed) >= 3 - (name == "FGSM")
    assert sanity_checks(0.0, dict.fromkeys(names, 0.0))[3].passed


def test_wrong_types_are_told_what_was_expected(noise):
    ensemble = ensemble_of(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)))
    with pytest.raises(NesbsError, match=r"^ensemble must be an Ensemble, .*, found 'demo'$"):
        nesbs.attack_then_defend("demo", "fgsm", noise.test)
    with pytest.raises(NesbsError, match=r"^data must be a Split such as data.test, or a Dataset, found a Tensor$"):
        nesbs.attack_then_defend(ensemble, "fgsm", noise.test.pixels())
    with pytest.raises(NesbsError, match=r"^attack must be a name or an attack such as .*, found 0.01$"):
        nesbs.attack_then_defend(ensemble, 0.01, noise.test)
