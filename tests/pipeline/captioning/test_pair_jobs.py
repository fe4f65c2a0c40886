"""Pairs to caption. In the folders before/ and after/, every image is in a pair, and others are counted.

A pair of a table has the id and the names that it has in a dataset of this table.
"""

import json
import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pipeline.captioning import pair_jobs
from pipeline.captioning.feature_backbone import opened
from pipeline.datasets import readers
from pipeline.datasets.checking import on_disk
from pipeline.datasets.schema import SPLITS
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


FORMS = st.sampled_from(("NFC", "NFD"))
TITLES = st.text("aé ß+,", min_size=1, max_size=4).filter(lambda text: text == text.strip())


@given(st.data(), st.booleans(), st.booleans())
def test_a_table_has_the_same_pairs_here_and_as_a_dataset(tmp_path_factory, data, has_ids, as_json):
    root = tmp_path_factory.mktemp("table")
    rows = []
    for number in range(data.draw(st.integers(3, 6))):
        folder = data.draw(st.sampled_from(("", "p/")))
        names = [f"{folder}{data.draw(TITLES)}{number}{side}.png" for side in "ab"]
        for shade, name in enumerate(names):
            path = root / unicodedata.normalize(data.draw(FORMS), name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(f"{number} {shade}".encode())
        for caption in range(data.draw(st.integers(1, 3))):  # further captions of the same pair
            spelled = [spelling(data, name, folder) for name in names]
            identity = {"pair_id": f"pair {number}"} if has_ids else {}
            sides = dict(zip(SIDES, spelled, strict=True))
            rows.append(sides | identity | {"captions": [f"caption {caption}"], "split": SPLITS[number % 3]})
    write_table(root, data.draw(st.permutations(rows)), as_json)
    pairs = readers.read("table", root)
    jobs = pair_jobs.jobs(root)
    assert [(job.pair_id, job.before, job.after, job.fault) for job in jobs] == [
        (pair.pair_id, pair.before, pair.after, None) for pair in pairs
    ]


def spelling(data, name, folder):
    """Another way to write a file's name that the readers of a table accept."""
    normalised = unicodedata.normalize(data.draw(FORMS), name)
    plain = normalised.removeprefix(folder)
    forms = (normalised, f"./{normalised}", f"{folder}/{plain}" if folder else f".//{plain}")
    return data.draw(st.sampled_from(forms))


def write_table(root, rows, as_json):
    if as_json:
        (root / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    head = list(rows[0])
    lines = [
        ",".join(f'"{row[name][0] if name == "captions" else row[name]}"' for name in head) for row in rows
    ]
    names = ",".join("caption" if name == "captions" else name for name in head)
    (root / "pairs.csv").write_text("\n".join([names, *lines, ""]))


def test_one_pair_id_for_several_pairs_is_refused_by_line(tmp_path):
    table = tmp_path / "mine.csv"
    table.write_text("before,after,pair_id\na,b,x\nc,d,y\nc,d,x\ne,f,x\na,b,x\n")
    with pytest.raises(InputError, match=r"mine\.csv, lines 2, 4, 5: the pair_id 'x'"):
        pair_jobs.jobs(table)


def test_a_row_that_is_no_pair_is_named_by_its_line(tmp_path):
    (tmp_path / "pairs.jsonl").write_text('{"before": "a"}\n{"before": "a", "after": "b"}\n[]\n')
    jobs = pair_jobs.jobs(tmp_path)
    assert [job.pair_id for job in jobs] == ["line 1", "a+b", "line 3"]
    assert [bool(job.fault) for job in jobs] == [True, False, True]
