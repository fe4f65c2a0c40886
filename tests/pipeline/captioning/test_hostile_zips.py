"""Zip files of shared weights from strangers: what was tried (the tests' names), and what happened."""

import shutil
import zipfile
from pathlib import Path

import pytest

from pipeline.captioning import PictureCaptioner
from tests.hostile import hole, pipe, refused
from tests.pipeline.captioning.spoiling import MODEL, SOUND, WEIGHTS, WORDS, instead, whole


@pytest.fixture
def package(tmp_path):
    return shutil.copytree(SOUND, tmp_path / "package")


def zipped(place, out, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(out, "w", method, compresslevel=1) as file:
        for path in sorted(place.iterdir()):
            file.writestr(path.name, path.read_bytes())
    return out


def packed(change, method=zipfile.ZIP_DEFLATED):
    """The package, changed and zipped."""

    def make(place, out):
        change(place)
        zipped(place, out, method)

    return make


ZIPS = {
    "47 MB of words in a small file": (
        packed(whole(WORDS, '{"ids": {' + " " * 47_000_000 + "}}")),
        "vocabulary.json has 47,000,011 bytes, and such a file 4,194,304 at most",
    ),
    "settings that unpack to 10 MB": (
        packed(whole(MODEL, "#" * 10_000_000)),
        "model.yaml has 10,000,000 bytes",
    ),
    "30 MB of zeros as weights in a small file": (
        packed(whole(WEIGHTS, bytes(30_000_000))),
        "model.safetensors would unpack to ",
    ),
    "a way of packing that takes memory as the file says": (
        packed(instead(WEIGHTS, Path.unlink), zipfile.ZIP_LZMA),
        "packed in a way that is not taken",
    ),
    "no settings": (packed(instead(MODEL, Path.unlink)), "is no package of weights"),
    "damaged contents": (lambda place, out: hit(zipped(place, out)), "does not open as a package"),
    "no files": (lambda place, out: zipfile.ZipFile(out, "w").close(), "is no package of weights"),
    "nothing": (lambda place, out: out.touch(), "does not open as a package"),
    "a pipe": (lambda place, out: pipe(out), "is a pipe or a device"),
    "8 GB without content": (lambda place, out: hole(out, 8 << 30), "at most"),
    "no file": (lambda place, out: None, "is missing; name a folder of weights or a package"),
}


def hit(path):
    """A byte of a file's contents changed."""
    data, name = bytearray(path.read_bytes()), b"features.yaml"
    data[data.index(name) + len(name) + 3] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(("make", "said"), ZIPS.values(), ids=ZIPS)
def test_a_zip_file_is_refused_for(package, tmp_path, make, said):
    out = tmp_path / "package.zip"
    make(package, out)
    found = refused(lambda: PictureCaptioner.load(out))
    assert said in found
    assert str(out) in found


def test_the_sound_one_is_read_from_either_and_zipped_by_hand(package, tmp_path):
    for place in (package, zipped(package, tmp_path / "it.zip")):
        assert PictureCaptioner.load(place).trained.vocabulary == 76
