"""Judges other than the supernet's loss: what each prefers where that is known, and what is left to chance."""

import itertools
import math
from types import SimpleNamespace

import pytest
import torch

from nesbs.data import Dataset
from nesbs.data.split import make_split
from nesbs.ensemble import (
    MemberSettings,
    RankJudge,
    SearchSettings,
    Selection,
    ShortTraining,
    TrainedJudge,
    choose,
    decide,
    ensemble_losses,
    forward_select,
    make_judge,
    noise_under,
    promising,
    resamples,
    scorer,
    search,
)
from nesbs.ensemble.judges import by_evidence
from nesbs.errors import NesbsError
from nesbs.posterior import Posterior, PosteriorSettings, ReferenceRanks, reference_ranks, share_below
from nesbs.samplers import MonteCarlo, Proposal
from nesbs.spaces import toy_edges
from nesbs.supernet import train_supernet

POOL = list(toy_edges())
FAVOURED = torch.tensor([[0.0, 1.0, 2.0]] * 3)  # the last operation of every edge is the likeliest


class Known:
    """Predictions of two classes that are made up: the label's probability of each architecture on each image."""

    def __init__(self, right):
        images = len(next(iter(right.values())))
        self.right, self.split = right, SimpleNamespace(labels=torch.zeros(images, dtype=torch.int64))

    def log_probs(self, architectures):
        right = torch.tensor([self.right[one] for one in architectures], dtype=torch.float64)
        return torch.stack([right, 1 - right], -1).log()


def made_up(images=40, seed=0):
    random = torch.Generator().manual_seed(seed)
    return Known({one: (0.05 + 0.9 * torch.rand(images, generator=random)).tolist() for one in POOL})


def judge_of(known, name, posterior, ranks=None, **settings):
    settings = SearchSettings(judge=name, **settings)
    return make_judge(settings, scorer(known), known, posterior, ranks, size=2)


@pytest.mark.parametrize("combine", ["probabilities", "logits"])
def test_weights_of_images_are_resamples_of_them(combine, random):
    log_probs = torch.randn(5, 30, 4, generator=random).log_softmax(-1)
    labels = torch.randint(4, (30,), generator=random)
    members = torch.tensor([[0, 1], [2, 3], [4, 4]])
    drawn = torch.randint(30, (7, 30), generator=random)
    weights = torch.stack([torch.bincount(row, minlength=30) / 30 for row in drawn])
    expected = [ensemble_losses(log_probs[:, row], labels[row], members, combine).tolist() for row in drawn]
    found = ensemble_losses(log_probs, labels, members, combine, weights)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-5, atol=1e-6)


def test_label_noise_is_that_of_the_evidence():
    a = POOL[0]
    score = scorer(Known({a: [0.5, 1e-9]}), noise=0.2)
    assert float(score([[a]])) == pytest.approx(-(math.log(0.8 * 0.5 + 0.1) + math.log(0.1)) / 2, rel=1e-6)


def test_what_an_ensemble_adds_is_its_members_mean_loss_less_its_own():
    a, b, c, d = POOL[:4]
    known = Known({a: [0.9, 0.1], b: [0.1, 0.9], c: [0.5, 0.5], d: [0.3, 0.7]})
    judge = RankJudge(scorer(known), lambda some, _: torch.zeros(len(some)), [a, b, c], gain=1.0)
    alone = -(math.log(0.9) + math.log(0.1)) / 2
    assert judge.gains([[a, b], [a, a], [c, c]]).tolist() == pytest.approx([alone - math.log(2), 0, 0], abs=1e-9)
    with_c = (alone + math.log(2)) / 2 + (math.log(0.7) + math.log(0.3)) / 2
    assert judge.gains([[a, c], [c, b]]).tolist() == pytest.approx([with_c, with_c])
    # Of the uniform pairs {a, c} and {b, c} add less than {a, d} does, {a, b} adds more; {c, c} adds nothing.
    shares = judge.added([[c, c], [a, d]])
    assert shares.tolist() == pytest.approx([0, 2 / 3], abs=0.08)
    weighted = judge.added([[c, c], [a, d]], torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    torch.testing.assert_close(weighted[0], shares)
    assert judge([[a, d]]).tolist() == pytest.approx((-shares[1:]).tolist())


def test_an_ensemble_of_one_adds_nothing_and_a_weight_of_zero_ignores_what_is_added():
    known, posterior = made_up(), Posterior(toy_edges(), FAVOURED)
    pairs = [list(pair) for pair in itertools.combinations(POOL, 2)]
    assert judge_of(known, "posterior", posterior).added([[one] for one in POOL]).unique().numel() == 1
    ignoring = judge_of(known, "posterior", posterior, gain=0.0)(pairs)
    likeliest = sorted(POOL, key=lambda one: -float(posterior.log_prob(one)))
    assert pairs[int(ignoring.argmin())][0] == posterior.mode() or posterior.mode() in pairs[int(ignoring.argmin())]
    assert set(pairs[int(ignoring.argmin())]) <= set(likeliest[:4])  # three architectures share the second place


@pytest.mark.parametrize("gain", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("name", ["posterior", "evidence"])
def test_the_best_pair_is_the_one_that_enumeration_finds(name, gain):
    known, posterior = made_up(), Posterior(toy_edges(), FAVOURED)
    ranks = ReferenceRanks(POOL[::2], None, 0.0)
    judge = judge_of(known, name, posterior, ranks, gain=gain)
    score = scorer(known)
    pairs = list(itertools.combinations(POOL, 2))
    if name == "posterior":
        random = torch.Generator()
        drawn = posterior.log_prob(posterior.sample(5000, generator=random.manual_seed(1)))
        quality = share_below(posterior.log_prob(POOL), drawn).double()
    else:
        quality = share_below(-score([[one] for one in POOL]), -score([[one] for one in POOL[::2]]))
    place = {one: i for i, one in enumerate(POOL)}
    by_hand = torch.stack([(quality[place[a]] + quality[place[b]]) / 2 for a, b in pairs])
    assert bool(judge.pool) == (gain > 0)  # without gain there is nothing to estimate
    by_hand += gain * judge.added(pairs) if gain else 0
    found = judge(pairs)
    tolerance = 0.08 if name == "posterior" else 1e-6  # 256 draws of the posterior beside 5,000
    torch.testing.assert_close(-found, by_hand, rtol=0, atol=tolerance)
    best, _ = choose([Proposal(pair, i) for i, pair in enumerate(pairs)], judge)
    assert float(by_hand.max() - by_hand[best]) <= 2 * tolerance
    losses = score([list(pair) for pair in pairs])
    assert pairs[best] != pairs[int(losses.argmin())] or gain == 4.0  # the loss alone would have taken another


def test_the_evidence_counts_untrained_networks_and_needs_a_reference(mini):
    known = made_up()
    settings = PosteriorSettings(reference=8, untrained=2.0)
    ranks = reference_ranks(toy_edges(), mini.search_valid, settings, members=(1, 4), seed=0)
    plain = ReferenceRanks(ranks.reference, None, 0.0)
    score = scorer(known)
    more = by_evidence(ranks, score)(POOL, None) - by_evidence(plain, score)(POOL, None)
    torch.testing.assert_close(more.float(), ranks.untrained(POOL))
    assert more.abs().max() > 0.5
    with pytest.raises(NesbsError, match="compares with a reference: give ranks=reference_ranks"):
        judge_of(known, "evidence", Posterior(toy_edges()))


def test_among_uniform_ensembles_those_of_good_members_add_little_and_among_their_like_they_differ():
    # Half of the space guesses; the posterior draws the others, which are good and err in places of their own.
    bad, good = POOL[:18], POOL[18:]
    random = torch.Generator().manual_seed(0)
    right = {one: [0.5] * 60 for one in bad[:9]} | {one: [0.02] * 60 for one in bad[9:]}
    right |= {one: (0.7 + 0.25 * torch.rand(60, generator=random)).tolist() for one in good}
    logits = torch.zeros(3, 3)
    logits[0, 2] = 20.0  # the first decision's last choice: POOL[18:]
    posterior, pairs = Posterior(toy_edges(), logits), list(itertools.combinations(good, 2))
    assert set(posterior.sample(100, generator=random)) == set(good)
    spread = {}
    for pool in ("uniform", "posterior"):
        shares = judge_of(Known(right), "posterior", posterior, gain_pool=pool).added(pairs)
        spread[pool] = float(shares.max() - shares.min())
    assert spread["uniform"] < 0.5 < 0.8 < spread["posterior"]


def test_resamples_weigh_images_as_often_as_they_are_drawn():
    weights = resamples(50, 400, seed=0)
    assert weights.sum(1).tolist() == pytest.approx([1.0] * 400, rel=1e-5)
    assert (weights * 50).mean(0).tolist() == pytest.approx([1.0] * 50, abs=0.3)
    assert float((weights == 0).double().mean()) == pytest.approx((1 - 1 / 50) ** 50, abs=0.02)
    assert not torch.equal(weights, resamples(50, 400, seed=1))


@pytest.mark.parametrize(("edge", "expected"), [(0.001, "probable"), (0.01, "probable"), (0.2, "better")])
def test_of_ensembles_that_images_do_not_tell_apart_the_more_probable_is_taken(edge, expected, random):
    # Two single networks of random predictions; the improbable one is better by `edge` in its log-probabilities.
    posterior = Posterior(toy_edges(), FAVOURED)
    probable, improbable, bad = POOL[-1], POOL[0], POOL[1]
    right = 0.2 + 0.5 * torch.rand(2, 300, generator=random)
    right[1] *= (right[0].log().mean() - right[1].log().mean()).exp()  # as good in the mean
    known = Known(
        {
            probable: right[0].tolist(),
            improbable: (right[1] * math.exp(edge)).tolist(),
            bad: (0.5 * right[0]).tolist(),
        }
    )
    proposals = [Proposal((one,), i) for i, one in enumerate((bad, improbable, probable))]
    judge = scorer(known)
    best, losses = choose(proposals, judge)
    assert best == 1  # the argmin, which noise=0 keeps
    assert losses[1] == pytest.approx(losses[2] - edge, abs=1e-5)
    noise = noise_under(resamples(300, 200, seed=0), judge, posterior)
    best, _ = choose(proposals, judge, noise)
    assert proposals[best].architectures == {"probable": (probable,), "better": (improbable,)}[expected]


def test_a_greedy_choice_must_be_better_beyond_the_noise():
    a, b, c = POOL[:3]
    alone = {a: 1.0, b: 2.0, c: 3.0}
    pairs = {frozenset((a, b)): 0.9, frozenset((a, c)): 0.95, frozenset((b, c)): 0.95}

    def score(ensembles, weights=None):
        losses = torch.tensor([alone[one[0]] if len(one) == 1 else pairs[frozenset(one)] for one in ensembles])
        # Of ten resamples the greedy pair is better in so many.
        return losses if weights is None else torch.stack([losses if w else -losses for w in weights])

    drawn = [Proposal((a, c), 1), Proposal((b, c), 2)]
    for times, expected in ((10, (a, b)), (9, (a, b)), (8, (a, c))):
        weights = torch.arange(10) < times
        noise = noise_under(weights, score, Posterior(toy_edges()))
        assert decide(drawn, score, "forward", noise)[0] == expected


def trained_settings(**changes):
    return SearchSettings(judge="trained", judge_epochs=3, judge_candidates=3, **changes)


@pytest.fixture(scope="module")
def stripes():
    """Images 8×8 whose class is which of three rows is bright: a convolution sees it, an average hardly does."""
    random = torch.Generator().manual_seed(0)

    def split(count, like=None):
        labels = torch.arange(count) % 3
        images = torch.randint(0, 90, (count, 1, 8, 8), generator=random, dtype=torch.uint8)
        for image, label in zip(images, labels.tolist(), strict=True):
            image[0, 2 * label + 1] += 160
        return make_split(images, labels, ("a", "b", "c"), source="stripes", like=like)

    train = split(150)
    return Dataset("stripes", train, split(60, train))


class Scripted(ShortTraining):
    """Trains nothing: a network's predictions are made up, by architecture and copy; counts what it is asked for."""

    def __init__(self, split, right, seconds=0.0, **settings):
        super().__init__(split, MemberSettings(**settings))
        self.right, self.asked, self.each, self.spent = right, [], seconds, 0.0
        self.begun = set()

    def seconds(self):
        return self.spent

    def has_begun(self, stem):
        return stem in self.begun

    def networks(self, space, architectures, stems, epochs, *, seed):
        self.asked += list(zip(architectures, stems, strict=True))
        self.spent += self.each
        made = []
        for one, stem in zip(architectures, stems, strict=True):
            copy = int(stem.partition("-")[2] or 0)
            made.append(Fixed(one, torch.tensor(self.right[one][copy])))
        return made


class Fixed(torch.nn.Module):
    """A network whose answers are known: the probability of the first class on each image in turn."""

    def __init__(self, architecture, right):
        super().__init__()
        self.architecture, self.right, self.at = architecture, right, 0

    def forward(self, images):
        right = self.right[self.at : self.at + len(images)]
        self.at += len(images)
        return torch.stack([right, 1 - right], -1).log()


def four():
    """Four held-out images of the first of two classes."""
    images = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
    return make_split(images, torch.zeros(4, dtype=torch.int64), ("a", "b"), source="four")


A, B, C = POOL[-1], POOL[-2], POOL[-4]
RIGHT = {
    A: [[0.9, 0.9, 0.3, 0.3], [0.3, 0.3, 0.9, 0.9]],  # a second copy errs elsewhere
    B: [[0.8, 0.8, 0.3, 0.3], [0.8, 0.8, 0.3, 0.3]],
    C: [[0.4, 0.4, 0.5, 0.5], [0.4, 0.4, 0.5, 0.5]],
}


def networks_of(training, size=2, **settings):
    return TrainedJudge(
        toy_edges(), training, four(), trained_settings(**settings), size=size, combine="probabilities", seed=0
    )


def test_forward_selection_on_real_predictions():
    training = Scripted(four(), RIGHT, together=2)
    networks = networks_of(training)
    places = networks.train([A, B, C])
    chosen, loss = forward_select(places, 2, networks)
    assert [networks.architectures[place] for place in chosen] == [A, C]
    assert loss == pytest.approx(-(math.log(0.65) + math.log(0.4)) / 2)
    assert [one for one, _ in training.asked] == [A, B, C]


def test_a_second_copy_is_a_second_training_and_is_chosen_where_it_is_best():
    training = Scripted(four(), RIGHT)
    networks = networks_of(training)
    chosen, loss = forward_select(networks.train([A, B, C]), 2, networks, more=networks.another)
    assert [networks.architectures[place] for place in chosen] == [A, A]
    assert loss == pytest.approx(-math.log(0.6))
    assert [stem[-2:] for _, stem in training.asked].count("-1") == 1  # one copy of what was chosen first
    few = networks_of(Scripted(four(), RIGHT))
    assert [few.architectures[i] for i in forward_select(few.train([A]), 2, few, more=few.another)[0]] == [A, A]


@pytest.mark.parametrize(("seconds", "expected"), [(None, 3), (1.0, 3), (0.5, 2), (0.1, 2)])
def test_no_training_begins_when_the_seconds_are_spent_but_of_one_ensemble(seconds, expected):
    training = Scripted(four(), RIGHT, seconds=0.4)
    networks = networks_of(training, judge_seconds=seconds)
    assert len(networks.train([A, B, C])) == expected
    again = Scripted(four(), RIGHT, seconds=0.4)
    again.begun = {stem for _, stem in training.asked}
    again.spent = 5.0  # a resumed run, which has counted all its seconds: what was begun is finished, no more
    assert networks_of(again, judge_seconds=seconds).train([A, B, C]) == list(range(expected))


def test_the_most_promising_come_first_and_are_filled_up_from_the_posterior():
    posterior = Posterior(toy_edges(), FAVOURED)
    by_probability = sorted(POOL, key=lambda one: -float(posterior.log_prob(one)))
    assert promising(posterior, [POOL[0], POOL[13], POOL[0], POOL[-1]], 2) == [POOL[-1], POOL[13]]
    filled = promising(posterior, [POOL[0]], 5)
    assert filled[0] == POOL[0]
    assert filled[1] == posterior.mode()
    likeliest = promising(posterior, [], 27)
    log_p = posterior.log_prob(likeliest)
    assert len(set(likeliest)) == len(likeliest) >= 20
    assert bool((log_p[:-1] >= log_p[1:]).all())
    assert set(likeliest[:1]) == set(by_probability[:1])


@pytest.fixture(scope="module")
def supernet(stripes):
    return train_supernet(toy_edges(), stripes.search_train, epochs=1, channels=2, cells=1, seed=0)


def test_an_architecture_that_learns_is_chosen_among_those_that_cannot(supernet, stripes):
    # Under the posterior all are as probable; some of the candidates are dead or average everything.
    told = []
    settings = MemberSettings(channels=4, cells=1, batch_size=16, crop=0, flip=False, learning_rate=0.1)
    training = ShortTraining(stripes.search_train, settings, on_epoch=lambda name, epoch: told.append(epoch.number))
    arguments = {"size": 1, "rounds": 3, "sampler": MonteCarlo(), "judge": "trained", "judge_epochs": 3, "seed": 1}
    arguments |= {"judge_candidates": 6, "training": training}
    one, two = (search(supernet, Posterior(toy_edges()), stripes.search_valid, **arguments) for _ in range(2))
    assert one == two
    losses = dict(one.trained)
    assert len(losses) == 6
    assert one.loss == min(losses.values()) < 0.6
    assert max(losses.values()) > 1.0
    assert (one.architectures, one.round, one.judge) == ((min(losses, key=losses.get),), None, "trained")
    assert one.judge_seconds > 0
    assert told == [1, 2, 3] * 12
    assert Selection.from_json(one.to_json(), toy_edges()) == one
    assert "seconds" not in str(one.to_json())


@pytest.mark.parametrize("method", ["rounds", "forward"])
def test_search_by_the_posterior_takes_probable_members(method, supernet, stripes):
    posterior = Posterior(toy_edges(), FAVOURED)
    arguments = {"size": 2, "rounds": 6, "sampler": MonteCarlo(), "seed": 0, "gain": 0.0, "method": method}
    choice = search(supernet, posterior, stripes.search_valid, judge="posterior", **arguments)
    usual = search(supernet, posterior, stripes.search_valid, **arguments)
    assert [proposal for proposal, _ in choice.proposals] == [proposal for proposal, _ in usual.proposals]
    log_p = [float(posterior.log_prob(list(proposal.architectures)).mean()) for proposal, _ in choice.proposals]
    if method == "rounds":
        best = min(range(6), key=choice.scores.__getitem__)
        assert choice.architectures == choice.proposals[best][0].architectures
        assert choice.loss == choice.proposals[best][1]
        assert log_p[best] > sorted(log_p)[2]
    assert float(posterior.log_prob(list(choice.architectures)).mean()) >= max(log_p) - 0.7
    assert choice.score <= min(choice.scores)
    assert len(set(choice.architectures)) == 2
    assert Selection.from_json(choice.to_json(), toy_edges()) == choice
    assert usual.to_json().keys() == choice.to_json().keys() - {"judge", "score", "scores"}


def test_search_says_what_a_judge_lacks(supernet, stripes):
    posterior, valid = Posterior(toy_edges()), stripes.search_valid
    training = ShortTraining(stripes.search_train)
    for arguments, message in (
        ({"judge": "trained"}, "trains candidates: give training=ShortTraining"),
        ({"judge": "evidence"}, "compares with a reference: give ranks="),
        ({"judge": "oracle"}, "judge: input should be 'likelihood', 'posterior', 'evidence' or 'trained', found"),
        ({"judge": "trained", "training": 3}, "training must be a ShortTraining of nesbs.ensemble, found 3"),
        ({"judge": "trained", "training": training, "judge_candidates": 2}, "judge_candidates=2 is less than one ens"),
    ):
        with pytest.raises(NesbsError, match=message):
            search(supernet, posterior, valid, **arguments)
    with pytest.raises(NesbsError, match="data.search_valid is held out"):
        ShortTraining(stripes.search_valid)
    broken = search(supernet, posterior, valid, size=2, rounds=1, sampler=MonteCarlo()).to_json()
    for part in ({"judge": "oracle"}, {"scores": 3}, {"trained": [3]}, {"score": "low"}):
        with pytest.raises(NesbsError, match="not a selection"):
            Selection.from_json(broken | part, toy_edges())
