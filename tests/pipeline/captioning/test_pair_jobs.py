"""Pairs of before/ and after/: every picture is in a pair, at any depth, and all else is counted."""

import json
import os
import unicodedata
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image

from pipeline.captioning import many_pairs, pair_jobs
from pipeline.captioning.answers import Answer
from pipeline.captioning.features import opened
from pipeline.captioning.picture_captioner import Search
from tests.hostile import pipe

SIDES = ("before", "after")
READ = {  # a file's name -> Pillow's name of what it is
    "0.png": "PNG",
    "1.jfif": "JPEG",
    "2.ppm": "PPM",
    "3.jpe": "JPEG",
    "4.dib": "BMP",
    "5.pgm": "PPM",
    "without an ending": "PNG",
    "6.dat": "WEBP",
    "7.JPG": "JPEG",
    "site/a/8.png": "PNG",
    "/".join(["d"] * 100) + "/9.png": "PNG",
}
NO_PAIRS = (
    "notes.txt",
    "empty",
    "._0.png",
    ".DS_Store",
    "Thumbs.db",
    "__MACOSX/._0.png",
    "site/.hidden/a.png",
)
HEIC = b"\0\0\0\x18ftypheic" + bytes(100)
AVIF = b"\0\0\0\x1cftypavif" + bytes(100)


@dataclass
class Squashing:
    """A captioner whose caption of each pair is the same; it opens pictures."""

    @property
    def features(self):
        return self

    def squashed(self, picture):
        return np.asarray(opened(picture).resize((2, 2)))

    def answers(self, pairs, search, limits):
        return [Answer("said") for _ in pairs]


@pytest.fixture
def captioned(tmp_path, monkeypatch):
    """Captions a folder: how many pairs have errors, and the lines; a second run must leave the same."""
    monkeypatch.setattr(many_pairs, "_described", lambda *_: "nobody")
    out = tmp_path / "out.jsonl"

    def run(place, say=print):
        for _ in range(2):
            jobs = pair_jobs.jobs(place, say)
            failed = many_pairs.caption(Squashing(), jobs, out, Search())
        return failed, [json.loads(line) for line in out.read_bytes().splitlines()]

    return run


def picture(path, kind="PNG"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8)).convert("L" if path.suffix == ".pgm" else "RGB").save(path, kind)


def test_every_picture_is_in_a_pair_and_the_rest_is_counted(tmp_path, captioned):
    for side in SIDES:
        for name, kind in READ.items():
            picture(tmp_path / side / name, kind)
        for name in NO_PAIRS:
            (tmp_path / side / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / side / name).write_bytes(b"" if name == "empty" else b"no picture")
    said = []
    failed, lines = captioned(tmp_path, said.append)
    assert failed == 0
    assert {line["pair_id"] for line in lines} == set(READ)
    assert [line.partition(" such as ")[2] for line in said[:4]] == [
        "before/.DS_Store",
        "before/empty",
        "after/.DS_Store",
        "after/empty",
    ]
    assert [int(line.split()[2]) for line in said[:4]] == [5, 2, 5, 2]


FAULTY = {
    "a HEIC picture": ("1.heic", HEIC, "HEIC"),
    "an AVIF picture without an ending": ("1", AVIF, "AVIF"),
    "a damaged picture": ("1.png", b"no picture", "1.png"),
    "a picture on one side": ("1.png", None, "after/1.png is missing"),
    "no UTF-8": (os.fsdecode(b"stra\xdfe.png"), AVIF, "\\xdfe.png is not UTF-8"),
    "a line's end": ("a\nb.png", b"", "is empty"),
    "a pipe": ("1.png", pipe, "is a pipe"),
}


@pytest.mark.parametrize(("name", "content", "said"), FAULTY.values(), ids=FAULTY)
def test_a_pair_that_is_lost_has_an_error_and_the_others_go_on(tmp_path, captioned, name, content, said):
    for side in SIDES:
        for sound in ("0.png", "z.png"):
            picture(tmp_path / side / sound)
    path = tmp_path / "after" / name
    path.parent.mkdir(exist_ok=True)
    if callable(content):
        content(path)
    elif content is not None:
        path.write_bytes(content)
    picture(tmp_path / "before" / name)
    failed, lines = captioned(tmp_path)
    assert (failed, len(lines)) == (1, 3)
    (error,) = [line["error"] for line in lines if "error" in line]
    assert said in error


UNLIKE = {  # names of before/ and of after/ -> how many pairs, and how many of them have an error
    "another ending": (["0.png"], ["0.jpg"], 1, 1),
    "capitals": (["a/IMG_0.png"], ["a/img_0.png"], 1, 1),
    "two endings on both sides": (["0.png", "0.jpg"], ["0.jpg", "0.png"], 2, 0),
    "two that may be meant": (["0.png", "0.jpg"], ["0.webp"], 1, 1),
    "several, and one that has its partner": (["0.png", "0.jpg", "0.bmp"], ["0.png", "0.webp"], 2, 1),
    "equal names in two folders": (["a/0.png", "b/0.png"], ["0.png", "b/0.png"], 3, 2),
    "both forms of an accent": (["\u00e9.png", "e\u0301.png"], ["\u00e9.png", "e\u0301.png"], 2, 0),
    "signs": (
        NAMES := ["-a.png", "a\tb.png", "a'b.png", 'a"b.png', " s .png", "%20.png", "a\\b.png"],
        NAMES,
        7,
        0,
    ),
}


@pytest.mark.parametrize(("before", "after", "pairs", "errors"), UNLIKE.values(), ids=UNLIKE)
def test_names_that_differ_are_one_pairs_error(tmp_path, captioned, before, after, pairs, errors):
    for side, names in zip(SIDES, (before, after), strict=True):
        for name in names:
            picture(tmp_path / side / name)
    failed, lines = captioned(tmp_path)
    assert (len(lines), failed) == (pairs, errors)
    named = {line[side].removeprefix(f"{side}/") for line in lines for side in SIDES}
    said = " ".join(line.get("error", "") for line in lines)
    assert all(name in named or name in said for name in (*before, *after))


def test_an_error_names_a_few_of_many_files_that_may_be_meant(tmp_path, captioned):
    picture(tmp_path / "before/0.png")
    for number in range(20):
        picture(tmp_path / f"after/0.p{number}")
    failed, (line,) = captioned(tmp_path)
    assert failed == 1
    assert "after/0.p12 and 15 more may be its pictures" in line["error"]


def test_accents_may_be_written_in_two_ways(tmp_path, captioned):
    """One side was packed on macOS; a table of yet another system names both."""
    for side, form in zip(SIDES, ("NFC", "NFD"), strict=True):
        picture(tmp_path / side / unicodedata.normalize(form, "é.png"))
    assert captioned(tmp_path)[0] == 0
    (tmp_path / "out.jsonl").unlink()
    for form in ("NFC", "NFD"):
        name = unicodedata.normalize(form, "é.png")
        (tmp_path / "pairs.csv").write_text(f"before,after\nbefore/{name},after/{name}\n")
        assert captioned(tmp_path)[0] == 0
        (tmp_path / "out.jsonl").unlink()
