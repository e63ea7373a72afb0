"""Corruptions: graded, closed forms where there are, and images that stay images."""

import itertools

import pytest
import torch

from nesbs.data import load_dataset
from nesbs.errors import NesbsError
from nesbs.evaluation.corruptions import CORRUPTIONS, SEVERITIES, corrupt, usable


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def colour(size=(20, 20), count=3, seed=0):
    """Smooth random colour images."""
    coarse = torch.rand(count, 3, 5, 5, generator=seeded(seed))
    return torch.nn.functional.interpolate(coarse, size, mode="bilinear")


@pytest.fixture(scope="module")
def mini():
    """At full size, on which a slight blur shows."""
    return load_dataset("fashion-mini", train_limit=300, test_limit=100)


def images_for(name, mini):
    return colour((32, 32), 40) if CORRUPTIONS[name].needs_colour else mini.test.pixels()


# Accuracies under corruptions can be compared with earlier ones only while these stay: who changes one means to.
STRENGTHS = {
    "gaussian-noise": (0.04, 0.08, 0.12, 0.18, 0.26),
    "shot-noise": (0.08, 0.14, 0.2, 0.3, 0.42),
    "impulse-noise": (0.02, 0.05, 0.09, 0.15, 0.24),
    "gaussian-blur": (0.5, 0.8, 1.1, 1.5, 2.1),
    "defocus-blur": (0.9, 1.4, 1.9, 2.5, 3.3),
    "motion-blur": (2.0, 3.5, 5.0, 7.0, 10.0),
    "fog": (0.2, 0.35, 0.5, 0.62, 0.74),
    "brightness": (0.1, 0.2, 0.3, 0.4, 0.5),
    "contrast": (0.3, 0.5, 0.65, 0.78, 0.88),
    "saturation": (0.3, 0.5, 0.7, 0.85, 1.0),
    "pixelate": (0.2, 0.35, 0.5, 0.62, 0.72),
    "jpeg": (40, 60, 75, 86, 94),
    "rotation": (6, 12, 18, 25, 35),
    "elastic": (1.0, 1.8, 2.6, 3.6, 5.0),
}


def test_the_strengths_are_those_of_earlier_figures():
    assert {name: corruption.strengths for name, corruption in CORRUPTIONS.items()} == STRENGTHS


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_severity_is_further_from_the_clean_image_than_the_one_before(name, mini):
    images = images_for(name, mini)
    distances = [0.0]
    for severity in SEVERITIES:
        changed = corrupt(images, name, severity, generator=seeded())
        distances.append(float((changed - images).square().mean().sqrt()))
    assert distances[1] > 0.01
    assert all(near < 0.97 * far for near, far in itertools.pairwise(distances)), distances


@pytest.mark.parametrize("name", CORRUPTIONS)
@pytest.mark.parametrize("severity", [1, 5])
@pytest.mark.parametrize("size", [(8, 8), (9, 13), (21, 20), (64, 64)])
def test_images_stay_images(name, severity, size):
    for images in (colour(size), colour(size)[:, :1]):
        if CORRUPTIONS[name].needs_colour and images.shape[1] == 1:
            continue
        before = images.clone()
        changed = corrupt(images, name, severity, generator=seeded())
        assert changed.shape == images.shape
        assert changed.dtype == images.dtype
        assert bool(changed.isfinite().all())
        assert 0 <= float(changed.min()) <= float(changed.max()) <= 1
        assert torch.equal(images, before)
        assert torch.equal(changed, corrupt(images, name, severity, generator=seeded()))


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_another_precision_gives_the_same_kind(name):
    images = colour().double()
    assert corrupt(images, name, 3, generator=seeded()).dtype == torch.float64


@pytest.mark.parametrize("name", ["gaussian-noise", "shot-noise", "impulse-noise", "motion-blur", "fog", "elastic"])
def test_noise_is_the_generators(name):
    images = colour()
    one, other = (corrupt(images, name, 3, generator=seeded(seed)) for seed in (0, 1))
    assert not torch.equal(one, other)


@pytest.mark.parametrize("name", ["gaussian-blur", "defocus-blur", "motion-blur", "contrast", "pixelate", "rotation"])
def test_a_plain_image_stays_as_it_is(name):
    plain = torch.full((2, 3, 12, 10), 0.3)
    torch.testing.assert_close(corrupt(plain, name, 5, generator=seeded()), plain, atol=1e-5, rtol=0)


def test_brightness_contrast_and_saturation_are_their_formulas():
    images = colour()
    for severity in SEVERITIES:
        added, lost, faded = (
            CORRUPTIONS[name].strengths[severity - 1] for name in ("brightness", "contrast", "saturation")
        )
        bright = corrupt(images, "brightness", severity, generator=seeded())
        torch.testing.assert_close(bright, (images + added).clamp(0, 1))
        flat = corrupt(images, "contrast", severity, generator=seeded())
        means = torch.stack([image.mean() for image in images])[:, None, None, None]
        torch.testing.assert_close(flat, means + (1 - lost) * (images - means))
        grey = 0.299 * images[:, :1] + 0.587 * images[:, 1:2] + 0.114 * images[:, 2:]
        torch.testing.assert_close(
            corrupt(images, "saturation", severity, generator=seeded()), (1 - faded) * images + faded * grey
        )


def test_noises_have_their_size():
    grey = torch.full((40, 1, 32, 32), 0.5)
    noisy = corrupt(grey, "gaussian-noise", 2, generator=seeded())
    assert float((noisy - 0.5).std()) == pytest.approx(CORRUPTIONS["gaussian-noise"].strengths[1], rel=0.02)
    shot = corrupt(grey, "shot-noise", 1, generator=seeded())
    assert float(shot.mean()) == pytest.approx(0.5, abs=0.002)
    # A Poisson count's variance is its mean.
    assert float(shot.var()) == pytest.approx(0.5 * CORRUPTIONS["shot-noise"].strengths[0] ** 2, rel=0.03)
    impulse = corrupt(grey, "impulse-noise", 5, generator=seeded())
    for value in (0, 1):
        share = float((impulse == value).float().mean())
        assert share == pytest.approx(CORRUPTIONS["impulse-noise"].strengths[4] / 2, rel=0.03)


def test_a_blur_of_a_point_has_its_width():
    point = torch.zeros(1, 1, 33, 33)
    point[0, 0, 16, 16] = 1
    spread = corrupt(point, "gaussian-blur", 4, generator=seeded())[0, 0].double()
    away = torch.arange(33).double() - 16
    assert float(spread.sum()) == pytest.approx(1, abs=1e-5)
    deviation = CORRUPTIONS["gaussian-blur"].strengths[3] * 33 / 32
    assert float((spread.sum(0) * away**2).sum().sqrt()) == pytest.approx(deviation, rel=0.02)
    disc = corrupt(point, "defocus-blur", 5, generator=seeded())[0, 0]
    radius = CORRUPTIONS["defocus-blur"].strengths[4] * 33 / 32
    far = (away[:, None] ** 2 + away**2).sqrt()
    assert float(disc[far > radius + 0.5].max()) == 0
    assert float(disc[far < radius - 0.5].min()) == pytest.approx(float(disc.max()))


def test_pixelate_at_a_whole_factor_is_a_mean_of_blocks():
    images = colour((16, 32))
    half = corrupt(images, "pixelate", 3, generator=seeded())
    blocks = torch.nn.functional.avg_pool2d(images, 2).repeat_interleave(2, 2).repeat_interleave(2, 3)
    torch.testing.assert_close(half, blocks, atol=1e-5, rtol=0)


def test_rotation_turns_by_its_angle():
    # Narrow bars through the centre of an oblong image: their direction afterwards is the angle, both ways the same.
    y, x = torch.meshgrid(torch.arange(41).double() - 20, torch.arange(61).double() - 30, indexing="ij")
    turns = []
    for across, along, bar in ((x, y, (20, slice(18, 43))), (y, -x, (slice(8, 33), 30))):
        images = torch.zeros(16, 1, 41, 61)
        images[:, :, *bar] = 1
        turned = corrupt(images, "rotation", 3, generator=seeded())[:, 0].double()
        slopes = (turned * across * along).sum((1, 2)) / (turned * across * across).sum((1, 2))
        turns.append(torch.rad2deg(slopes.atan()))
        assert turns[-1].abs().tolist() == pytest.approx([CORRUPTIONS["rotation"].strengths[2]] * 16, abs=0.5)
    assert turns[0].sign().tolist() == turns[1].sign().tolist()
    assert {float(value) for value in turns[0].sign()} == {-1.0, 1.0}


def test_what_cannot_be_done_is_said():
    with pytest.raises(NesbsError, match="unknown corruption foggy: did you mean fog"):
        corrupt(colour(), "foggy", 1, generator=seeded())
    with pytest.raises(NesbsError, match="a severity is 1, 2, 3, 4 or 5, found 6"):
        corrupt(colour(), "fog", 6, generator=seeded())
    with pytest.raises(NesbsError, match="saturation needs colour images, found 1 channel"):
        corrupt(colour()[:, :1], "saturation", 1, generator=seeded())
    assert usable(tuple(CORRUPTIONS), 3) == (tuple(CORRUPTIONS), ())


@pytest.mark.gpu
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_on_a_gpu_images_stay_there_and_the_generator_decides(name):
    images = colour().cuda()
    one, again = (corrupt(images, name, 3, generator=torch.Generator(device="cuda").manual_seed(0)) for _ in range(2))
    assert one.device == images.device
    assert torch.equal(one, again)
    assert 0 <= float(one.min()) <= float(one.max()) <= 1
