"""Decoding by processes, by OpenCV, and resizing on the device: the pixels that Pillow gives."""

import io
import multiprocessing
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pipeline.datasets import images
from pipeline.datasets.images import decode, decode_array
from pipeline.features import extraction, preprocessing
from pipeline.features.preprocessing import pixels
from pipeline.features.resizing import pil_bicubic
from pipeline.io.errors import InputError
from tests.synthetic import make_clevr_change


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_clevr_change(tmp_path_factory.mktemp("images") / "raw", scenes=10)


@pytest.fixture(scope="module")
def index(root):
    return list(images.index(root, [f"images/CLEVR_default_{number:06d}.png" for number in range(10)]))


def png(array, **how):
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG", **how)
    return file.getvalue()


def picture(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 90), st.integers(1, 90), st.sampled_from([1, 7, 64, 100]), st.booleans(), st.integers(0, 9)
)  # fmt: skip
def test_the_device_resizes_as_pillow_does(height, width, size, extreme, seed):
    image = picture(height, width, seed)
    image = np.where(image > 127, 255, 0).astype(np.uint8) if extreme else image
    expected = np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.BICUBIC))
    found = pil_bicubic(torch.from_numpy(image)[None], size)[0]
    assert found.dtype == torch.uint8
    np.testing.assert_array_equal(found.permute(1, 2, 0).numpy(), expected)


@pytest.mark.parametrize("how", [{}, {"compress_level": 0}, {"optimize": True}])
def test_a_plain_png_is_decoded_by_opencv(monkeypatch, how):
    image = picture(31, 17)
    monkeypatch.setattr(images, "decode", None)
    np.testing.assert_array_equal(decode_array(png(image, **how), "x.png"), image)


def test_another_image_is_decoded_by_pillow():
    image = picture(9, 8)
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG")
    grey, clear = image[..., 0], np.dstack([image, image[..., 0] // 128 * 255])
    transparent = png(image, transparency=tuple(int(x) for x in image[0, 0]))
    for data in (file.getvalue(), png(grey), png(clear), transparent):
        np.testing.assert_array_equal(decode_array(data, "x"), np.asarray(decode(data, "x")))


def test_a_turned_png_stays_as_it_is_stored():
    image = picture(5, 9)
    exif = Image.Exif()
    exif[0x0112] = 6
    np.testing.assert_array_equal(decode_array(png(image, exif=exif), "x.png"), image)


def outcome(function, data):
    try:
        return np.asarray(function(data, "x.png")).tobytes()
    except InputError:
        return "refused"


def test_damaged_files_end_alike():
    """Every third byte of a small file is changed, and every third length is cut."""
    whole = png(picture(6, 5))
    damaged = [whole[:cut] for cut in range(0, len(whole), 3)]
    damaged += [whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :] for at in range(0, len(whole), 3)]
    for data in damaged:
        assert outcome(decode_array, data) == outcome(decode, data)


def test_damaged_pixels_with_right_sums_end_alike():
    """The checksums of chunks are right, but the compressed data is not."""
    whole = png(picture(6, 5))
    at = whole.index(b"IDAT")
    size = int.from_bytes(whole[at - 4 : at])
    body = bytearray(whole[at + 4 : at + 4 + size])
    for place in range(0, size, 3):
        changed = bytes(body[:place]) + bytes([body[place] ^ 0x21]) + bytes(body[place + 1 :])
        chunk = b"IDAT" + changed
        data = whole[:at] + chunk + zlib.crc32(chunk).to_bytes(4) + whole[at + 8 + size :]
        assert outcome(decode_array, data) == outcome(decode, data)


def joined(groups, size):
    """Resized images, (3, S, S) each, of groups as the extraction resizes them."""
    for group in groups:
        there = torch.from_numpy(np.array(group))
        same = there.shape[1:3] == (size, size)
        yield from (there.permute(0, 3, 1, 2) if same else pil_bicubic(there, size)).numpy()


@pytest.mark.parametrize("resize", ["pil_bicubic", "opencv_bicubic"])
def test_processes_give_the_pixels_of_one_thread(root, index, resize, monkeypatch):
    monkeypatch.setattr(preprocessing, "GROUPS", (4, 2, 1))
    many = index * 4
    found = list(joined(preprocessing.decoded(root, many, resize, 64), 64))
    assert len(found) == len(many)
    for mine, image in zip(found, many, strict=True):
        np.testing.assert_array_equal(mine, pixels(root, image, 64, resize))
    assert not multiprocessing.active_children()


def test_images_of_several_sizes_are_resized_by_the_process(tmp_path):
    for number, side in enumerate((20, 40, 20, 90)):
        Image.fromarray(picture(side, side + 3, number)).save(tmp_path / f"{number}.png")
    several = list(images.index(tmp_path, [f"{number}.png" for number in range(4)]))
    found = joined(preprocessing.decoded(tmp_path, several, "pil_bicubic", 64), 64)
    for mine, image in zip(found, several, strict=True):
        np.testing.assert_array_equal(mine, pixels(tmp_path, image, 64, "pil_bicubic"))


def test_an_image_that_changed_is_named(root, index):
    broken = [*index, replace(index[3], sha256="0" * 64)]
    with pytest.raises(InputError, match=f"{Path(index[3].name).name} changed since it was prepared"):
        list(preprocessing.decoded(root, broken, "pil_bicubic", 64))


def test_a_killed_process_is_no_traceback(root, index):
    reading = preprocessing.decoded(root, index * 60, "pil_bicubic", 64)
    next(reading)
    for child in multiprocessing.active_children():
        child.kill()
    with pytest.raises(InputError, match="a process that decodes images was killed"):
        list(reading)
    assert not multiprocessing.active_children()


def test_too_little_shared_memory_is_named(root, index, monkeypatch):
    monkeypatch.setattr(preprocessing, "SHARE", 1e-12)
    with pytest.raises(InputError, match="/dev/shm"):
        next(preprocessing.decoded(root, index, "pil_bicubic", 64))


def test_little_shared_memory_means_fewer_processes(monkeypatch):
    room = type("Usage", (), {"free": 20_000})
    monkeypatch.setattr(preprocessing.shutil, "disk_usage", lambda path: room)
    assert preprocessing._slots(14, 1000) == (5, 10, 1)  # half of the memory holds ten images
    assert preprocessing._slots(2, 1000) == (2, 5, 2)


def test_groups_are_joined_to_whole_batches():
    groups = [torch.arange(start, start + size) for start, size in ((0, 3), (3, 9), (12, 1), (13, 4))]
    found = list(extraction._rebatched(groups, 4))
    assert [len(batch) for batch in found] == [4, 4, 4, 4, 1]
    assert torch.equal(torch.cat(found), torch.arange(17))
