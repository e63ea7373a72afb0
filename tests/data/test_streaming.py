"""Streamed images: the same as those kept in memory, however they are read."""

import multiprocessing
import os
import signal
import warnings

import pytest
import torch
from data.layouts import write_folder
from toys import train_member

from nesbs.data import batches, load_dataset
from nesbs.data.batches import Share
from nesbs.data.streaming import FileImages
from nesbs.ensemble.members import MemberSettings, train_ensemble
from nesbs.errors import NesbsError
from nesbs.evaluation import evaluate
from nesbs.spaces import toy_edges
from nesbs.supernet import Estimator, content_order, train_supernet


@pytest.fixture
def folder(tmp_path):
    write_folder(tmp_path / "data", count=20, size=(24, 20))
    return tmp_path / "data"


def epoch(split, seed=0, **settings):
    return list(batches(split, 8, generator=torch.Generator().manual_seed(seed), **settings))


def equal(one, two):
    return all(torch.equal(a, b) and torch.equal(c, d) for (a, c), (b, d) in zip(one, two, strict=True))


def test_a_streamed_split_is_the_one_in_memory(folder):
    kept, streamed = (load_dataset(folder, stream=way, workers=2) for way in ("never", "always"))
    assert streamed.train.streamed
    assert not kept.train.streamed
    for name in ("train", "test", "search_train", "search_valid"):
        a, b = getattr(kept, name), getattr(streamed, name)
        assert torch.equal(a.images, b.images)
        assert torch.equal(a.labels, b.labels)
        assert (a.size, a.channels, len(a), a.device) == (b.size, b.channels, len(b), b.device)
        assert torch.equal(a.pixels(slice(1, 3)), b.pixels(slice(1, 3)))
        assert torch.equal(content_order(a), content_order(b))
        assert equal(epoch(a, crop=2, flip=True, cutout=4), epoch(b, crop=2, flip=True, cutout=4))
    assert torch.equal(kept.train.mean, streamed.train.mean)  # fewer than 2,000 images: all of them
    assert streamed.search_train.stored is streamed.train.stored


def test_the_number_of_processes_changes_nothing(folder):
    sets = [load_dataset(folder, stream="always", random_crop=True, workers=workers) for workers in (0, 1, 2)]
    split = [data.search_train for data in sets]
    none, one, two = (epoch(part, crop=1, flip=True) for part in split)
    assert equal(none, one)
    assert equal(none, two)
    assert not equal(none, epoch(split[0], seed=1, crop=1, flip=True))
    assert not multiprocessing.active_children()


def test_each_of_several_processes_reads_its_share_alone(folder, monkeypatch):
    split = load_dataset(folder, stream="always", random_crop=True, workers=0).train
    whole, read = epoch(split, crop=1), []
    original = FileImages.read
    monkeypatch.setattr(FileImages, "read", lambda self, *given: read.append(len(given[0])) or original(self, *given))
    halves = [epoch(split, crop=1, share=Share(number, 2, batch_size=8)) for number in (0, 1)]
    assert set(read) == {4}
    joined = [tuple(map(torch.cat, zip(one, two, strict=True))) for one, two in zip(*halves, strict=True)]
    assert equal(whole, joined)


def test_random_parts_are_for_training_alone(folder):
    plain = load_dataset(folder, stream="always", workers=0)
    random = load_dataset(folder, stream="always", workers=0, random_crop=True)
    assert torch.equal(plain.train.images, random.train.images)
    assert not random.test.stored.random_crop
    [(images, _), *_], [(others, _), *_] = epoch(plain.train), epoch(random.train)
    assert not torch.equal(images, others)


def test_reading_does_not_touch_the_global_generator(folder):
    data = load_dataset(folder, stream="always", random_crop=True, workers=2)
    torch.manual_seed(0)
    epoch(data.train)
    drawn = torch.rand(3)
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.rand(3))


def test_processes_end_when_an_epoch_is_left(folder):
    data = load_dataset(folder, stream="always", workers=2)
    running = batches(data.train, 4, generator=torch.Generator().manual_seed(0))
    next(running)
    assert len(multiprocessing.active_children()) == 2
    running.close()
    assert not multiprocessing.active_children()


# torch raises where this process just is when the other dies; inside a destructor Python can only complain of it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_process_that_is_killed_is_explained(folder):
    data = load_dataset(folder, stream="always", workers=1)
    running = batches(data.train, 1, generator=torch.Generator().manual_seed(0))
    next(running)
    [reader] = multiprocessing.active_children()
    os.kill(reader.pid, signal.SIGKILL)
    with pytest.raises(NesbsError, match=r"ended from outside .*: give it more .* data\.workers=0"):
        list(running)


@pytest.mark.parametrize(
    ("late", "reason"), [(None, ".*reset by peer"), (RuntimeError("DataLoader worker (pid 7) is killed."), ".*pid 7.*")]
)
def test_a_process_that_ends_while_it_hands_images_over_is_explained(folder, monkeypatch, late, reason):
    class Broken:
        ended = 0

        def __init__(self, *_, **__):
            pass

        def __iter__(self):
            return self

        def __next__(self):
            raise ConnectionResetError(104, "Connection reset by peer")

        def _shutdown_workers(self):
            Broken.ended += 1
            if late and Broken.ended == 1:  # torch's own complaint, which comes when it likes
                raise late

    monkeypatch.setattr("nesbs.data.streaming.DataLoader", Broken)
    data = load_dataset(folder, stream="always", workers=1)
    with pytest.raises(NesbsError, match=rf"ended from outside \({reason}\): give it more"):
        next(batches(data.train, 1, generator=torch.Generator().manual_seed(0)))
    assert Broken.ended == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_an_image_that_breaks_later_is_grey_and_said_once(folder, workers):
    data = load_dataset(folder, stream="always", workers=workers, broken_limit=1)
    (folder / "ant" / "3.png").write_text("")
    where = [str(file, "utf-8").endswith("ant/3.png") for file in data.train.stored.files]
    split = data.train if any(where) else data.test
    with pytest.warns(UserWarning, match=r"ant/3\.png cannot be read as an image .* shown as an even grey"):
        grey = epoch(split)
    assert sum(bool((image == 128 / 255).all()) for images, _ in grey for image in images) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sum(bool((image == 128).all()) for image in split.images) == 1
    for file in folder.rglob("*.png"):
        file.write_text("")
    with pytest.raises(NesbsError, match=r"2 images cannot be read, more than data\.broken_limit=1"):
        epoch(split)


def test_what_exceeds_the_memory_limit_streams(folder):
    needed = 40 * 3 * 20 * 20 / 2**30
    assert load_dataset(folder, memory_limit=needed * 0.99).train.streamed
    assert not load_dataset(folder, memory_limit=needed * 1.01).train.streamed
    assert not load_dataset(folder, memory_limit=needed * 0.99, stream="never").train.streamed


def test_limits_and_sizes_hold_for_streamed_images(folder):
    data = load_dataset(folder, stream="always", train_limit=10, test_limit=4, size=12, workers=0)
    assert (len(data.train), len(data.test), data.train.size) == (10, 4, (12, 12))
    kept = load_dataset(folder, train_limit=10, test_limit=4, size=12)
    assert torch.equal(data.train.images, kept.train.images)


def test_the_statistics_of_many_images_are_those_of_a_sample(folder, monkeypatch):
    monkeypatch.setattr("nesbs.data.image_folder.SAMPLE", 10)
    one, two = (load_dataset(folder, stream="always", workers=0) for _ in range(2))
    kept = load_dataset(folder)
    assert torch.equal(one.train.mean, two.train.mean)
    assert not torch.equal(one.train.mean, kept.train.mean)
    assert one.train.mean.tolist() == pytest.approx(kept.train.mean.tolist(), abs=0.02)
    assert torch.equal(one.test.mean, one.train.mean)


def test_only_folders_stream(folder):
    with pytest.raises(NesbsError, match=r"data\.stream=always is for image files and imagenet; fashion-mini is"):
        load_dataset("fashion-mini", stream="always")
    with pytest.raises(NesbsError, match=r"data\.random_crop is for image files"):
        load_dataset("fashion-mini", random_crop=True)
    with pytest.raises(NesbsError, match=r"data\.random_crop works on streamed images: set data\.stream=always"):
        load_dataset(folder, random_crop=True)


def test_the_method_gives_the_same_on_streamed_images(folder):
    space = toy_edges()
    results = []
    for way in ("never", "always"):
        data = load_dataset(folder, stream=way, workers=2)
        supernet = train_supernet(space, data.search_train, epochs=1, channels=2, batch_size=8)
        estimates = Estimator(supernet, data.search_valid, batch_size=8).logits(next(iter(space)))
        ensemble = train_ensemble(space, [next(iter(space))], data.train, epochs=1, cells=1, channels=2, batch_size=8)
        results.append((estimates, evaluate(ensemble, data.test).nll))
    assert torch.equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


class Stop(Exception):  # noqa: N818
    pass


def test_a_resumed_epoch_is_the_one_that_was_not_interrupted(folder, tmp_path):
    data = load_dataset(folder, stream="always", random_crop=True, workers=2)
    settings = MemberSettings(epochs=3, cells=1, channels=2, batch_size=8)

    def losses(**options):
        return train_member(toy_edges(), next(iter(toy_edges())), data.train, settings, **options)[1]

    def stop(epoch):
        if epoch.number == 2:
            raise Stop

    whole = losses()
    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(Stop):
        losses(checkpoint=checkpoint, on_epoch=stop)
    assert losses(checkpoint=checkpoint) == whole


@pytest.mark.gpu
def test_streamed_images_arrive_on_the_gpu(folder):
    data = load_dataset(folder, stream="always", random_crop=True, workers=2).to("cuda")
    host = load_dataset(folder, stream="always", workers=0)
    assert data.search_train.device.type == "cuda"
    assert torch.equal(data.search_valid.images.cpu(), host.search_valid.images)
    runs = [list(batches(data.search_train, 8, generator=torch.Generator("cuda").manual_seed(0))) for _ in range(2)]
    assert equal(*runs)
    assert all(images.is_cuda and labels.is_cuda for images, labels in runs[0])
