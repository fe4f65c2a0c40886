"""Pairs of the folders before/ and after/: every image is in a pair, and other files are counted."""

import os
import unicodedata

import pytest
from PIL import Image

from pipeline.captioning import pair_jobs
from pipeline.captioning.feature_backbone import opened
from pipeline.datasets.checking import on_disk
from pipeline.io.errors import InputError, printable
from tests.hostile import pipe

SIDES = ("before", "after")
READ = {  # name of a file -> Pillow's name of its format
    "0.png": "PNG",
    "1.jfif": "JPEG",
    "2.ppm": "PPM",
    "without an ending": "PNG",
    "6.dat": "WEBP",
    "7.JPG": "JPEG",
    " s .png": "PNG",
    'a"b.png': "PNG",
    "%20.png": "PNG",
    "a\\b.png": "PNG",
    "site/a/8.png": "PNG",
    "/".join(["d"] * 100) + "/9.png": "PNG",
}
OTHERS = ("notes.txt", "empty", "._0.png", ".DS_Store", "Thumbs.db", "__MACOSX/._0.png", "site/.hidden/a.png")
AVIF = b"\0\0\0\x1cftypavif" + bytes(100)


def picture(path, kind="PNG"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8)).save(path, kind)


def errors(jobs):
    """The errors of pairs, as many_pairs finds them."""
    found = {}
    for job in jobs:
        try:
            for name in () if job.fault else (job.before, job.after):
                opened(job.root / on_disk(job.root, name))
        except InputError as error:
            found[job.pair_id] = printable(str(error))
        if job.fault:
            found[job.pair_id] = job.fault
    return found


def test_every_image_is_in_a_pair_and_other_files_are_counted(tmp_path, capsys):
    for side in SIDES:
        for name, kind in READ.items():
            picture(tmp_path / side / name, kind)
        for name in OTHERS:
            (tmp_path / side / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / side / name).write_bytes(b"" if name == "empty" else b"no image")
    jobs = pair_jobs.jobs(tmp_path)
    assert [job.pair_id for job in jobs] == sorted(READ)
    assert errors(jobs) == {}
    assert [int(line.split()[2]) for line in capsys.readouterr().out.splitlines()] == [len(OTHERS)] * 2


FAULTY = {
    "an unsupported format": ("1.heic", AVIF, "AVIF"),
    "a damaged image": ("1.png", b"no image", "1.png"),
    "an image on one side": ("1.png", None, "after/1.png is missing"),
    "a name that is not UTF-8": (os.fsdecode(b"stra\xdfe.png"), AVIF, "\\xdfe.png is not UTF-8"),
    "a line end in a name": ("a\nb.png", b"", "is empty"),
    "a pipe": ("1.png", pipe, "is a pipe"),
}


@pytest.mark.parametrize(("name", "content", "said"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_pair_has_an_error_and_the_others_have_none(tmp_path, name, content, said):
    for side in SIDES:
        picture(tmp_path / side / "0.png")
    picture(tmp_path / "before" / name)
    path = tmp_path / "after" / name
    if callable(content):
        content(path)
    elif content is not None:
        path.write_bytes(content)
    jobs = pair_jobs.jobs(tmp_path)
    (error,) = errors(jobs).values()
    assert said in error
    assert len(jobs) == 2


def test_different_endings_or_capitals_are_two_pairs_with_errors(tmp_path):
    for name in ("before/0.png", "after/0.jpg", "before/a/IMG.png", "after/a/img.png"):
        picture(tmp_path / name)
    found = errors(pair_jobs.jobs(tmp_path))
    assert {name: error.partition(" is ")[0] for name, error in found.items()} == {
        "0.png": "after/0.png",
        "0.jpg": "before/0.jpg",
        "a/IMG.png": "after/a/IMG.png",
        "a/img.png": "before/a/img.png",
    }


def test_accents_may_be_written_in_two_ways(tmp_path):
    for side, form in zip(SIDES, ("NFC", "NFD"), strict=True):
        picture(tmp_path / side / unicodedata.normalize(form, "é.png"))
    jobs = pair_jobs.jobs(tmp_path)
    assert (len(jobs), errors(jobs)) == (1, {})
    for form in ("NFC", "NFD"):
        name = unicodedata.normalize(form, "é.png")
        (tmp_path / "pairs.csv").write_text(f"before,after\nbefore/{name},after/{name}\n")
        assert errors(pair_jobs.jobs(tmp_path)) == {}
