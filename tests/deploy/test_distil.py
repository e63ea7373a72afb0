"""One network learns an ensemble's answers: the loss, the images, the folder it leaves, what it keeps."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from toys import StopError, Stopping, call, tiny, train_member

import nesbs
from nesbs.data.conversion import ArrayView
from nesbs.data.images import View
from nesbs.data.settings import DataSettings
from nesbs.data.streaming import FileImages
from nesbs.data.unlabelled import with_unlabelled
from nesbs.deploy.distil import DistilSettings, choose_student, distillation
from nesbs.ensemble import Ensemble, MemberSettings
from nesbs.errors import NesbsError
from nesbs.evaluation.kept_gain import kept_gain
from nesbs.files import read_about
from nesbs.runs import Run
from nesbs.spaces import toy_edges
from nesbs.training import Batch

FIRST, SECOND = list(toy_edges())[-2:]
QUICK = [
    "evaluation.uniform=false",
    "evaluation.map=0",
    "evaluation.shown=1",
    "data.test_limit=20",
    "ensemble.size=2",
    f"ensemble.architectures=['{FIRST}', '{SECOND}']",
]


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A run with two members."""
    run = tiny(tmp_path_factory.mktemp("distil") / "run", changes=QUICK)
    run.ensemble()
    return run


@pytest.fixture(scope="module")
def distilled(taught, tmp_path_factory):
    """A student of it with another schedule, so that a label-trained twin is needed, and its record."""
    folder = tmp_path_factory.mktemp("distilled") / "student"
    return folder, nesbs.distil(taught.folder, into="smallest", out=folder, changes=["members.epochs=3"])


def weights(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.safetensors"))}


class Fixed(nn.Module):
    """Answers every batch with the same logits, and remembers its images."""

    def __init__(self, logits):
        super().__init__()
        self.logits, self.seen = torch.tensor(logits), []

    def forward(self, images):
        self.seen.append(images)
        return self.logits


def test_the_loss_is_the_formula_image_by_image():
    members = [Fixed([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]]), Fixed([[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]])]
    batch = Batch(torch.zeros(3, 1, 8, 8), torch.tensor([0, 1, -1]), 0, 0)
    student = torch.tensor([[0.3, -0.2], [1.0, 0.4], [0.0, 0.7]])
    weight, tau = 0.25, 3.0
    loss = distillation(Ensemble(members), DistilSettings(temperature=tau, label_weight=weight))(batch)(student)
    own, answers = student.double(), torch.stack([one.logits for one in members]).double().softmax(-1).mean(0)
    powers, softer = answers ** (1 / tau), (own / tau).exp()
    powers, softer = powers / powers.sum(-1, keepdim=True), softer / softer.sum(-1, keepdim=True)
    soft = [tau**2 * (powers[i] * (powers[i] / softer[i]).log()).sum() for i in range(3)]
    hard = [own[i].exp().sum().log() - own[i, label] for i, label in enumerate((0, 1))]
    expected = sum((weight * hard[i] + (1 - weight) * soft[i] for i in range(2)), soft[2]).item() / 3
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert all(one.seen[0] is batch.images for one in members)  # the very batch of the student, augmented as it is


def test_who_answers_as_the_ensemble_has_nothing_left_to_learn():
    teacher = Ensemble([Fixed([[2.0, 0.0]])])
    batch, logits = Batch(torch.zeros(1, 1, 8, 8), torch.tensor([1]), 0, 0), torch.tensor([[5.0, 3.0]])
    logits.requires_grad_()
    loss = distillation(teacher, DistilSettings(label_weight=0))(batch)(logits)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert logits.grad.abs().max() < 1e-6


def test_a_student_is_a_run_with_one_member_that_says_what_it_comes_from(taught, distilled, capsys):
    folder, record = distilled
    classifier = nesbs.load(folder)
    sizes = [sum(p.numel() for p in member.parameters()) for member in taught.ensemble().members]
    assert record.decided == f"member {sizes.index(min(sizes)) + 1}, the smallest: {min(sizes):,} parameters"
    assert [str(each) for each in classifier.ensemble.architectures] == [record.architecture]
    assert record.source == str(taught.folder)
    assert record.parameters == min(sizes)
    assert record.ensemble_parameters == sum(sizes)
    for name, ensemble in (("ensemble", taught.ensemble()), ("student", classifier.ensemble)):
        assert getattr(record, name).nll == pytest.approx(nesbs.evaluate(ensemble, taught.data.test).nll, rel=1e-6)
    assert call("evaluate", folder) == 0
    assert call("report", folder) == 0
    assert "trained on labels" in (folder / "report.html").read_text()
    assert capsys.readouterr().err.count("error:") == 0


def test_a_stopped_student_goes_on_to_the_same_bytes(taught, distilled, tmp_path):
    for stage, steps in (("members", 1), ("labels", 1), ("distilled", 0)):
        with pytest.raises(StopError):
            nesbs.distil(
                taught.folder,
                into="smallest",
                out=tmp_path / "student",
                changes=["members.epochs=3"],
                progress=Stopping(stage, steps),
            )
        if stage == "members":
            with pytest.raises(NesbsError, match="`nesbs distil` goes on with it"):
                Run.open(tmp_path / "student").ensemble()
    record = nesbs.distil(taught.folder, into="smallest", out=tmp_path / "student", changes=["members.epochs=3"])
    assert record.to_json() == distilled[1].to_json()
    assert weights(tmp_path / "student") == weights(distilled[0])


def test_with_labels_alone_it_is_the_training_of_a_member(noise):
    settings = MemberSettings(epochs=2, cells=1, channels=2, batch_size=16)
    criterion = distillation(Ensemble([Fixed([[0.0, 0.0, 0.0]] * 16)]), DistilSettings(label_weight=1))
    (own, losses), (plain, expected) = (
        train_member(toy_edges(), FIRST, noise.train, settings, criterion=each) for each in (criterion, None)
    )
    assert losses == pytest.approx(expected, rel=1e-4)
    for one, other in zip(own.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_the_label_trained_network_has_the_students_random_streams(distilled):
    about = [read_about(distilled[0] / folder / "0.safetensors") for folder in ("members", "labels/members")]
    assert [each["of"] for each in about] == ["member 0 of seed 0"] * 2
    assert about[0]["losses"] != about[1]["losses"]


def test_best_is_decided_on_held_out_images(taught, monkeypatch):
    classifier = nesbs.load(taught.folder)
    searched = replace(taught.selection(), candidates=((SECOND, 0.5), (FIRST, 0.75)))
    monkeypatch.setattr(taught, "selection", lambda: searched)
    architecture, decided = choose_student("best", taught, classifier)
    assert architecture == SECOND
    assert decided == "member 2, the best by the supernet's estimate on held-out training images: loss 0.5000"
    held_out = taught.recipe.members.model_copy(update={"images": "search_train"})
    unseen = Run(taught.folder, taught.recipe.model_copy(update={"members": held_out}))
    unseen.data = taught.data
    architecture, decided = choose_student("best", unseen, classifier)
    losses = [
        nesbs.evaluate(Ensemble([member]), taught.data.search_valid).nll for member in classifier.ensemble.members
    ]
    assert architecture == classifier.ensemble.architectures[losses.index(min(losses))]
    assert f"loss {min(losses):.4f}" in decided


def test_what_is_refused_is_one_line(taught, distilled, tmp_path, capsys):
    folder = distilled[0]

    def refused(*arguments, run=taught.folder, into="smallest", out=tmp_path / "new"):
        assert call("distil", run, "--into", into, "--out", out, *arguments) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert not (tmp_path / "new").exists()
        return line

    assert "is the ensemble's own folder" in refused(out=taught.folder)
    assert "resnot is neither smallest nor best nor an architecture here: did you mean best?" in refused(into="resnot")
    assert "is not a run" in refused(run=tmp_path)
    assert "a student has the data and the space" in refused("--set", "data.size=16")
    assert "no folder of images" in refused("--unlabelled", tmp_path / "nowhere")
    assert "another temperature" in refused("--temperature", "3", "--set", "members.epochs=3", out=folder)
    assert "members.epochs is 3 there and 2 here" in refused(out=folder)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "notes.txt").touch()
    assert "something that is not a run" in refused(out=tmp_path / "theirs")
    searched = shutil.copytree(taught.folder, tmp_path / "searched", ignore=shutil.ignore_patterns("members"))
    assert "has no members/0.safetensors yet" in refused(run=searched)
    changed = shutil.copytree(taught.folder, tmp_path / "changed")
    record = json.loads((changed / "record.json").read_text())
    record["data"]["train_images"] += 1
    (changed / "record.json").write_text(json.dumps(record))
    assert "have changed since the run began" in refused(run=changed)


def test_best_of_fixed_members_cannot_be_told(taught):
    with pytest.raises(NesbsError, match="no search has judged them on others"):
        choose_student("best", taught, nesbs.load(taught.folder))


@pytest.fixture
def photos(tmp_path):
    random = np.random.default_rng(0)
    (tmp_path / "more").mkdir()
    for place in range(5):
        Image.fromarray(random.integers(0, 256, (30, 40), dtype=np.uint8)).save(tmp_path / "more" / f"{place}.png")
    (tmp_path / "more" / "broken.png").write_bytes(b"no image")
    return tmp_path / "more"


def test_unlabelled_images_come_behind_as_the_networks_see_them(mini, photos):
    view = ArrayView("L", mini.train.size)
    split, names = with_unlabelled(mini.train, photos, view, DataSettings())
    assert len(split) == len(mini.train) + 5 == len(mini.train) + len(names)
    assert torch.equal(split.bytes(slice(0, len(mini.train))), mini.train.images)
    assert split.labels[-6:].tolist() == [mini.train.labels[-1], -1, -1, -1, -1, -1]
    assert np.array_equal(split.images[-1].numpy(), view.read(str(photos / "4.png")))
    weighted = replace(mini.train, sample_weights=torch.arange(len(mini.train)).double())
    assert with_unlabelled(weighted, photos, view, DataSettings())[0].sample_weights[-6:].tolist() == [
        *(len(mini.train) - 1, *[(len(mini.train) - 1) / 2] * 5)
    ]
    with pytest.raises(NesbsError, match="more than data.broken_limit=0"):
        with_unlabelled(mini.train, photos, view, DataSettings(broken_limit=0))
    with pytest.raises(NesbsError, match="take more than data.memory_limit"):
        with_unlabelled(mini.train, photos, view, DataSettings(memory_limit=1e-6))


def test_unlabelled_images_stay_in_their_files_where_the_others_do(mini, photos):
    view = View("L", 28)
    first = FileImages(np.array([str(photos / f"{place}.png").encode() for place in (0, 1, 2)]), view, None)
    streamed = nesbs.Split(
        first, torch.tensor([0, 1]), ("a", "b"), mini.train.mean, mini.train.std, torch.tensor([2, 0])
    )
    split, names = with_unlabelled(streamed, photos, view, DataSettings())  # without the broken one
    assert len(names) == 5
    assert split.labels.tolist() == [0, 1, -1, -1, -1, -1, -1]
    expected = [view.read(str(photos / f"{place}.png")) for place in (2, 0, 0, 1, 2, 3, 4)]
    assert np.array_equal(split.images.numpy(), np.stack(expected))


def test_a_student_of_unlabelled_images_resumes_with_the_same_ones_alone(taught, photos, tmp_path):
    options = {"into": "smallest", "out": tmp_path / "student", "unlabelled": str(photos)}
    record = nesbs.distil(taught.folder, **options)
    assert record.unlabelled.images == 5
    # The member that had the same training is the label-trained network.
    assert not (tmp_path / "student" / "labels").exists()
    place = int(record.decided.split()[1].rstrip(",")) - 1
    alone = nesbs.evaluate(Ensemble([taught.ensemble().members[place]]), taught.data.test)
    assert record.labels.nll == pytest.approx(alone.nll, rel=1e-6)
    (photos / "4.png").unlink()
    with pytest.raises(NesbsError, match="other unlabelled images"):
        nesbs.distil(taught.folder, **options)


def test_kept_gain_is_0_as_the_label_trained_1_as_the_teacher_and_none_without_a_gain(random):
    labels = torch.arange(200) % 4
    weak, strong = (
        (torch.randn(200, 4, generator=random) + by * nn.functional.one_hot(labels)).log_softmax(-1)
        for by in (1.0, 3.0)
    )
    for student, share in ((weak, 0.0), (strong, 1.0)):
        kept = kept_gain(torch.stack([weak, strong, student]), labels)
        for measure in ("error", "nll"):
            part = kept[measure].share
            assert (part.mean, part.low, part.high) == pytest.approx((share,) * 3)
    for measure in ("error", "nll", "ece"):
        of = getattr(nesbs.metrics, measure)
        assert kept[measure].gain.mean == pytest.approx(float(of(weak, labels) - of(strong, labels)))
    assert all(each.share is None for each in kept_gain(torch.stack([weak, weak, strong]), labels).values())
