"""Pictures of an attack: of which images, and every pixel of them."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from nesbs.attacks import Album
from nesbs.attacks.defence import AttackedBatch
from nesbs.attacks.pictures import png


def pixels(text):
    """What a picture shows, as (height, width) of grey or (height, width, 3)."""
    with Image.open(io.BytesIO(base64.b64decode(text))) as image:
        return np.asarray(image).tolist()


def attacked(**changes):
    """Five grey images 1×3: the second and the last are broken, the third was wrong before."""
    labels = torch.tensor([0, 1, 2, 0, 1])
    values = {"images": torch.tensor([0.0, 0.4, 1.0]).repeat(5, 1, 1, 1), "labels": labels, "before": labels.clone()}
    values["before"][2] = 0
    values |= {"perturbed": values["images"] + torch.tensor([0.02, 0.0, -0.04]), "ensemble": labels}
    values["after"] = torch.tensor([0, 2, 0, 0, 0])
    return AttackedBatch(**values | changes)


def test_pictures_are_of_the_first_images_that_were_right_and_are_wrong():
    album = Album(2, ("a", "b", "c"))
    album.add(attacked())
    album.add(attacked())
    assert [(each["label"], each["attacked"], each["ensemble"]) for each in album.pictures] == [
        ("b", "c", "b"),
        ("b", "a", "b"),
    ]
    none = Album(0, ("a", "b", "c"))
    none.add(attacked())
    assert none.pictures == []


def test_a_picture_has_the_images_pixels_and_the_difference_at_its_largest():
    album = Album(1, ("a", "b", "c"))
    album.add(attacked())
    [picture] = album.pictures
    assert picture["largest"] == pytest.approx(0.04)
    assert pixels(picture["clean"]) == [[0, 102, 255]]
    assert pixels(picture["perturbed"]) == [[5, 102, 245]]
    assert pixels(picture["difference"]) == [[191, 128, 0]]  # half of the largest up, none, the largest down


def test_an_image_that_did_not_change_has_a_grey_difference():
    album = Album(1, ("a", "b", "c"))
    album.add(attacked(perturbed=attacked().images))
    assert pixels(album.pictures[0]["difference"]) == [[128, 128, 128]]


def test_colours_and_rows_stay_where_they_are():
    image = torch.arange(12).view(3, 2, 2) / 255
    assert pixels(png(image)) == [[[0, 4, 8], [1, 5, 9]], [[2, 6, 10], [3, 7, 11]]]
