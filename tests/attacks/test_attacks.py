"""Each attack against closed forms and against foolbox; the ball, the borders, repeatability."""

import contextlib
import sys
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from nesbs.attacks import AttackSettings, AutoAttack, CarliniWagner, Fgsm, Noise, Pgd, frozen
from nesbs.data import load_dataset
from nesbs.errors import NesbsError

LONG = CarliniWagner(rule="bisect", search_steps=7, steps=150)


class Linear(nn.Module):
    """Two classes on either side of a hyperplane: logits ± (w·x + b) / 2."""

    def __init__(self, weight, bias):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, images):
        side = (images.flatten(1) @ self.weight + self.bias) / 2
        return torch.stack([side, -side], 1)


def small_network(classes=10, channels=1):
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(16 * 16, classes),
    )


@pytest.fixture(scope="module")
def foolbox():
    """An independent count."""
    with warnings.catch_warnings():  # it imports names that SciPy has moved
        warnings.simplefilter("ignore")
        import foolbox
    return foolbox


@pytest.fixture(scope="module")
def trained():
    """A small network in float64 that gets most of 100 test images right, the images and their labels."""
    data = load_dataset("fashion-mini", train_limit=1000, test_limit=100)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = small_network()
        optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
        for _ in range(12):
            for index in torch.randperm(1000).split(100):
                loss = nn.functional.cross_entropy(network(data.train.pixels(index)), data.train.labels[index])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
    network = network.double().eval().requires_grad_(False)
    images, labels = data.test.pixels().double(), data.test.labels
    assert accuracy(network, images, labels) > 0.7
    return network, images, labels


def accuracy(network, images, labels):
    with torch.no_grad():
        return float((network(images).argmax(1) == labels).double().mean())


def random_case(seed):
    """A random network and images of three kinds: inside, at the borders, of a single shade."""
    g = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = small_network(classes=5, channels=3).eval().requires_grad_(False)
    inside = torch.rand(4, 3, 8, 8, generator=g)
    borders = torch.randint(0, 2, (4, 3, 8, 8), generator=g).float()
    shades = torch.tensor([0.0, 1.0, 1e-7, 1 - 1e-7])[:, None, None, None].expand(4, 3, 8, 8)
    epsilon = float(10 ** (-3 * torch.rand((), generator=g)))
    return network, torch.cat([inside, borders, shades]), torch.randint(0, 5, (12,), generator=g), epsilon


@pytest.mark.parametrize("seed", range(12))
def test_images_stay_in_the_ball_and_in_range(seed):
    network, images, labels, epsilon = random_case(seed)
    attacks = [Fgsm(epsilon=epsilon), Pgd(steps=3).at(epsilon), Noise(epsilon=epsilon)]
    attacks.append(Pgd(epsilon=epsilon, step_size=0.5, steps=3, random_start=True))
    for attack in [*attacks, CarliniWagner(steps=5, learning_rate=0.5, c_high=1000, rule="bisect")]:
        g = torch.Generator().manual_seed(seed)
        before = images.clone()
        changed = attack.perturb(network, images, labels, generator=g)
        assert torch.equal(images, before)  # the images handed in are left alone
        assert changed.shape == images.shape
        assert not changed.isnan().any()
        assert changed.min() >= 0
        assert changed.max() <= 1
        if attack.name != "cw":
            size = (changed - images).abs().amax((1, 2, 3))
            assert size.max() <= epsilon + 1e-6
            # Where there is room the whole ball is used.
            assert size[:4].min() >= 0.5 * min(epsilon, 0.5)


def test_autoattack_stays_in_the_ball_and_in_range():
    pytest.importorskip("pyautoattack")
    for seed, epsilon in ((0, 0.1), (1, 0.3)):
        network, images, _, _ = random_case(seed)
        labels = network(images).argmax(1)
        changed = AutoAttack(epsilon=epsilon).perturb(network, images, labels)
        assert (changed - images).abs().max() <= epsilon + 1e-6
        assert changed.min() >= 0
        assert changed.max() <= 1
        assert (network(changed).argmax(1) != labels).any()


def test_fgsm_on_a_linear_model_is_the_closed_form(random):
    weight = torch.randn(12, generator=random, dtype=torch.float64)
    images = torch.rand(20, 3, 2, 2, generator=random, dtype=torch.float64)
    labels = torch.arange(20) % 2
    away = torch.where(labels == 0, -1.0, 1.0).double()[:, None]  # class 0 is where w·x + b is positive
    expected = (images.flatten(1) + 0.03 * away * weight.sign()).clamp(0, 1).reshape(images.shape)
    model = Linear(weight, torch.tensor(0.1, dtype=torch.float64))
    for attack in (Fgsm(epsilon=0.03), Pgd(epsilon=0.03, step_size=0.01, steps=4)):
        found = attack.perturb(model, images, labels)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-15)


def linear_case(random, count=40):
    """A hyperplane through grey and images on its far side, 0.1 to 0.5 away, whose projection is inside the box."""
    normal = torch.randn(3 * 8 * 8, generator=random, dtype=torch.float64)
    normal /= normal.norm()
    distance = torch.linspace(0.1, 0.5, count, dtype=torch.float64)
    on_it = 0.5 + 0.14 * (torch.rand(count, len(normal), generator=random, dtype=torch.float64) - 0.5)
    on_it -= ((on_it - 0.5) @ normal)[:, None] * normal
    images = (on_it + distance[:, None] * normal).reshape(count, 3, 8, 8)
    assert images.min() >= 0.3
    assert images.max() <= 0.7
    model = Linear(normal, -0.5 * normal.sum())
    return model, images, torch.zeros(count, dtype=torch.long), distance


def test_cw_finds_the_distance_to_a_hyperplane(random):
    model, images, labels, distance = linear_case(random)
    found = LONG.perturb(model, images, labels)
    ratio = (found - images).flatten(1).norm(dim=1) / distance
    assert (model(found).argmax(1) == 1).all()
    assert ratio.min() >= 1 - 1e-6  # nothing nearer is on the other side
    assert ratio.max() <= 1.02
    print(f"a long search is at most {ratio.max() - 1:.2%} beyond the true distance (median {ratio.median() - 1:.2%})")
    broken = {}
    for rule in ("bisect", "grow"):
        short = CarliniWagner(rule=rule).perturb(model, images, labels)
        lengths = (short - images).flatten(1).norm(dim=1)
        broken[rule] = model(short).argmax(1) == 1
        beyond = (lengths / distance - 1)[broken[rule]]
        said = f"{beyond.median():.2%} beyond in the median, {beyond.max():.2%} at most" if len(beyond) else "none"
        print(f"the paper's short settings, {rule}: {broken[rule].double().mean():.0%} succeed; {said}")
        assert (beyond >= -1e-6).all()
        assert (lengths[~broken[rule]] == 0).all()
    assert broken["bisect"].all()
    assert not broken["grow"].any()  # c stays at 0.1 or below, and twice the distance is needed here


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("bisect", [[5.0005, 2.50075, 1.250875, 0.6259375], [5.0005, 2.50075, 3.750625, 4.3755625]]),
        ("grow", [[0.001, 0.001, 0.001, 0.001], [0.001, 0.01, 0.1, 1, 10, 5.5]]),
    ],
)
def test_the_values_of_c_follow_their_rule(monkeypatch, rule, expected):
    enough, tried = torch.tensor([0.0, 4.0]), []  # the least c that succeeds, of two images

    def descend(self, model, images, labels, start, c):
        tried.append(c.tolist())
        return c >= enough, images, torch.ones_like(c)

    monkeypatch.setattr(CarliniWagner, "_descend", descend)
    images, labels = torch.full((2, 1, 1, 1), 0.5), torch.zeros(2, dtype=torch.long)
    CarliniWagner(rule=rule, search_steps=6).perturb(lambda x: torch.zeros(len(x), 2), images, labels)
    for found, wanted in zip(zip(*tried, strict=True), expected, strict=True):
        assert found[: len(wanted)] == pytest.approx(wanted)


@pytest.mark.parametrize("constant", [-100.0, 100.0])
def test_a_constant_in_all_logits_changes_no_attack(random, constant):
    model, images, labels, _ = linear_case(random, count=4)
    for attack in (CarliniWagner(rule="bisect"), Fgsm(), Pgd(steps=2)):
        plain, moved = (attack.perturb(one, images, labels) for one in (model, lambda x: model(x) + constant))
        torch.testing.assert_close(moved, plain, rtol=0, atol=1e-9)
        assert not torch.equal(plain, images)


def test_fgsm_and_pgd_agree_with_foolbox(trained, foolbox):
    network, images, labels = trained
    model = foolbox.PyTorchModel(network, bounds=(0, 1), device="cpu")
    pairs = [
        (Fgsm(), foolbox.attacks.LinfFastGradientAttack(random_start=False)),
        (
            Pgd(),
            foolbox.attacks.LinfProjectedGradientDescentAttack(abs_stepsize=0.008, steps=40, random_start=False),
        ),
    ]
    for attack, theirs in pairs:
        expected = theirs.run(model, images, labels, epsilon=attack.epsilon)
        found = attack.perturb(network, images, labels)
        assert (found - images).abs().max() > 0.009
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_cw_is_as_near_as_foolbox(trained, foolbox):
    network, (images, labels) = trained[0], (part[:30] for part in trained[1:])
    model = foolbox.PyTorchModel(network, bounds=(0, 1), device="cpu")
    settings = {
        "search_steps": 6,
        "steps": 30,
        "learning_rate": 0.05,
        "c_high": 1e10,
    }  # as foolbox, which knows no highest c
    theirs = foolbox.attacks.L2CarliniWagnerAttack(binary_search_steps=6, steps=30, stepsize=0.05)
    expected = theirs.run(model, images, labels)
    right = network(images).argmax(1) == labels
    found = CarliniWagner(**settings).perturb(network, images, labels)
    ours = (network(found).argmax(1) != labels) & right
    both = ours & (network(expected).argmax(1) != labels)
    assert both.sum() > 0.8 * right.sum()
    lengths, known = ((x - images).flatten(1).norm(dim=1)[both] for x in (found, expected))
    print(f"{int(both.sum())} images: median distance {lengths.median():.4f}, foolbox's {known.median():.4f}")
    assert lengths.median() <= 1.05 * known.median()
    assert torch.equal(found[~right], images[~right])


def test_cw_leaves_failures_clean_and_its_rule_matters(trained):
    network, images, labels = trained
    images, labels, rules = images[:40], labels[:40], {}
    for rule in ("grow", "bisect"):
        found = CarliniWagner(rule=rule).perturb(network, images, labels)
        standing = network(found).argmax(1) == labels
        assert torch.equal(found[standing], images[standing])
        assert (found[~standing] != images[~standing]).any()
        rules[rule] = float(standing.double().mean())
    assert rules["grow"] > rules["bisect"]  # three steps reach c = 0.1 only
    sure = CarliniWagner(rule="bisect", confidence=1.0).perturb(network, images[:20], labels[:20])
    logits = network(sure)
    moved = (sure != images[:20]).flatten(1).any(1)
    own = logits.gather(1, labels[:20, None])[:, 0]
    other = logits.scatter(1, labels[:20, None], -torch.inf).amax(1)
    assert moved.any()
    assert (other - own)[moved].min() >= 1.0


def test_stronger_attacks_are_stronger(trained):
    network, images, labels = trained

    def after(attack):
        g = torch.Generator().manual_seed(0)
        return accuracy(network, attack.perturb(network, images, labels, generator=g), labels)

    clean = accuracy(network, images, labels)
    for epsilon in (0.01, 0.1):
        noise, fgsm = after(Noise(epsilon=epsilon)), after(Fgsm(epsilon=epsilon))
        few, many = (after(Pgd(steps=steps).at(epsilon)) for steps in (3, 40))
        # One image of 100 may fall back over the border at the last step.
        assert many <= few + 0.01
        assert many <= fgsm + 0.01
        assert fgsm < noise <= clean + 0.01
    assert after(Pgd(epsilon=0.5, step_size=0.02)) == 0
    assert after(Fgsm(epsilon=0)) == clean


def test_a_seed_repeats_a_random_start(trained):
    network, images, labels = trained
    attack = Pgd(random_start=True, steps=2, epsilon=0.1)

    def perturbed(seed):
        return attack.perturb(network, images[:8], labels[:8], generator=torch.Generator().manual_seed(seed))

    assert torch.equal(perturbed(1), perturbed(1))
    assert not torch.equal(perturbed(1), perturbed(2))


def test_an_images_attack_does_not_depend_on_its_batch(trained):
    network, images, labels = trained
    for attack in (Fgsm(), Pgd(steps=5), CarliniWagner(steps=10)):
        whole = attack.perturb(network, images[:9], labels[:9])
        parts = [attack.perturb(network, images[i : i + 3], labels[i : i + 3]) for i in (0, 3, 6)]
        torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-6)


def test_autoattack_is_the_librarys(trained):
    library = pytest.importorskip("pyautoattack")
    network, images, labels = trained
    network, images, labels = network.float(), images[:30].float(), labels[:30]
    earlier, tracer = sys.gettrace(), lambda *_: None
    try:
        theirs = library.AutoAttack(network, norm="Linf", eps=0.2, version="standard", seed=7)
        expected, _ = theirs.run_standard_evaluation(images, labels, batch_size=30)
        state = torch.get_rng_state()
        sys.settrace(tracer)  # as a debugger or a measure of coverage does
        found = AutoAttack(epsilon=0.2).perturb(network, images, labels, generator=torch.Generator().manual_seed(7))
        left = sys.gettrace()
    finally:
        sys.settrace(earlier)
        network.double()
    assert torch.equal(found, expected)
    assert not torch.equal(found, images)
    assert left is tracer
    assert torch.equal(torch.get_rng_state(), state)


def test_autoattack_has_our_size_and_that_of_its_authors():
    """The paper gives no ε (app. B.6): ours is that of FGSM and PGD, beside the authors' for CIFAR-10."""
    settings = AttackSettings()
    assert (
        settings.attack("autoattack").epsilon
        == settings.attack("fgsm").epsilon
        == settings.attack("pgd").epsilon
        == 0.01
    )
    authors = settings.attack("autoattack8")
    assert (authors.epsilon, authors.version, authors.name) == (8 / 255, "standard", "autoattack8")
    assert settings.attacks == ("fgsm", "pgd", "cw", "autoattack", "autoattack8")
    assert "ours" in AutoAttack.model_fields["epsilon"].description
    assert "authors'" in type(authors).model_fields["epsilon"].description


def test_autoattack_works_with_two_classes(random):
    pytest.importorskip("pyautoattack")
    model, images, labels, _ = linear_case(random, 4)
    model, images = model.float(), images.float()
    found = AutoAttack(epsilon=0.2).perturb(model, images, labels)
    assert (model(found).argmax(1) == 1).all()


@pytest.mark.parametrize(("classes", "targets"), [(2, 1), (3, 2), (4, 3), (10, 9), (12, 9)])
def test_autoattack_is_asked_for_what_the_classes_allow(monkeypatch, classes, targets):
    asked = []

    class Library:
        def __init__(self, model, **options):
            self.apgd_targeted, self.fab = SimpleNamespace(), SimpleNamespace()
            asked.append((self, options))

        def run_standard_evaluation(self, images, labels, batch_size):
            assert batch_size == len(images)
            return images + 0.01, None

    monkeypatch.setattr("nesbs.attacks.autoattack.autoattack_library", lambda: SimpleNamespace(AutoAttack=Library))
    images, weight = torch.full((5, 1, 2, 2), 0.5), torch.ones(4, classes)
    labels, random = torch.zeros(5, dtype=torch.long), torch.Generator().manual_seed(2**31 + 7)
    found = AutoAttack(epsilon=0.2).perturb(lambda x: x.flatten(1) @ weight, images, labels, generator=random)
    [(library, options)] = asked
    assert torch.equal(found, images + 0.01)
    few = {"version": "custom", "attacks": ["apgd-ce", "fab-t", "square"]}
    about = {"norm": "Linf", "device": "cpu"}
    assert options == about | {"eps": 0.2, "seed": 7} | (few if classes <= 3 else {"version": "standard"})
    refused = pytest.raises(NesbsError, match="version rand needs four classes or more, found [23]: use standard")
    with refused if classes <= 3 else contextlib.nullcontext():
        AutoAttack(version="rand").perturb(lambda x: x.flatten(1) @ weight, images, labels)
        assert asked[1][1] == about | {"eps": 0.01, "seed": 0, "version": "rand"}
    assert library.apgd_targeted.n_target_classes == library.fab.n_target_classes == targets


def test_without_the_library_autoattack_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyautoattack", None)
    with pytest.raises(NesbsError, match=r"autoattack needs pyautoattack: pip install 'nesbs\[robust\]'"):
        AutoAttack().perturb(lambda images: images, torch.zeros(1, 1, 2, 2), torch.zeros(1, dtype=torch.long))


def test_a_network_that_does_not_look_cannot_be_attacked():
    def blind(images):  # as an architecture in which nothing reaches the output
        return torch.tensor([[1.0, 0.0]]).expand(len(images), 2)

    images, labels = torch.rand(3, 1, 4, 4), torch.tensor([0, 1, 0])
    for attack in (Fgsm(), Pgd(steps=2), CarliniWagner(steps=2), AutoAttack()):
        if attack.name == "autoattack":
            pytest.importorskip("pyautoattack")
        assert torch.equal(attack.perturb(blind, images, labels), images)


def test_a_network_is_frozen_and_let_go():
    network = small_network()
    network[1].eval()
    network[0].weight.requires_grad_(False)
    statistics = network[1].running_mean.clone()
    with frozen(network):
        assert not any(module.training for module in network.modules())
        Fgsm().perturb(network, torch.rand(4, 1, 8, 8), torch.zeros(4, dtype=torch.long))
        assert not any(parameter.requires_grad for parameter in network.parameters())
    assert [network.training, network[1].training, network[0].weight.requires_grad] == [True, False, False]
    assert network[3].weight.requires_grad
    assert all(parameter.grad is None for parameter in network.parameters())
    assert torch.equal(network[1].running_mean, statistics)


@pytest.mark.parametrize("attack", [Fgsm(), Pgd(steps=1), CarliniWagner(steps=1), AutoAttack()])
@pytest.mark.parametrize("images", [torch.full((1, 1, 8, 8), 200, dtype=torch.uint8), torch.full((1, 1, 8, 8), 1.5),
                                    torch.full((1, 1, 8, 8), torch.nan)])  # fmt: skip
def test_images_that_are_no_floats_from_0_to_1_are_refused(attack, images):
    with pytest.raises(NesbsError, match="images must be floats from 0 to 1: divide bytes by 255"):
        attack.perturb(small_network(), images, torch.zeros(1, dtype=torch.long))


def test_pgd_of_another_size_moves_though_it_had_none():
    assert Pgd(epsilon=0).at(0.5).step_size == Pgd().at(0.5).step_size == pytest.approx(0.4)


def test_cw_leaves_an_image_that_is_wrong_by_a_small_lead(random):
    model, images, *_ = linear_case(random)
    lead = (model(images)[:, 0] - model(images)[:, 1]).abs().detach()
    wrong = 1 - model(images).argmax(1)  # another class than the network's
    attack = CarliniWagner(confidence=float(lead.max()) + 0.1, rule="bisect", learning_rate=0.05)
    assert torch.equal(attack.perturb(model, images, wrong), images)


def test_settings_that_make_no_sense_are_refused():
    for attack, wrong, message in (
        (Fgsm, {"epsilon": -0.1}, "epsilon: input should be greater than or equal to 0"),
        (Pgd, {"step": 3}, "unknown setting step: did you mean steps?"),
        (Pgd, {"step_size": 0}, "step_size: input should be greater than 0"),
        (CarliniWagner, {"c_low": 20}, "c_low must not be above c_high"),
        (CarliniWagner, {"rule": "guess"}, "rule: input should be 'grow' or 'bisect'"),
    ):
        with pytest.raises(NesbsError, match=message):
            attack.of(wrong)
