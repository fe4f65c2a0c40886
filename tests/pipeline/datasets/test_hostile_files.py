"""Untrusted images and tables of pairs: files without an end, images above the limits, odd bytes.

The names of the rows say what is tried. Faults of single rows are in test_pairs_csv.py.
"""

import csv
import io
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin

from pipeline.captioning import pair_jobs
from pipeline.captioning.feature_backbone import opened
from pipeline.datasets import images, pairs_csv
from stages import run
from tests.hostile import LEVELS, device, large, pipe, refused, shallow

NO_FILES = {
    "a pipe": (pipe, "is a pipe or a device, which may never end"),
    "a device": (device, "is a pipe or a device, which may never end"),
    "a folder": (Path.mkdir, "cannot be read (Is a directory)"),
    "a link to itself": (lambda path: path.symlink_to(path), "cannot be read (Too many levels"),
    "a link to nothing": (lambda path: path.symlink_to("nowhere"), "cannot be read (No such file"),
    "a size of 2 GB": (lambda path: large(path, 2 << 30), "this kind of file is 1 GiB"),
}


@pytest.mark.parametrize(("make", "said"), NO_FILES.values(), ids=NO_FILES)
def test_an_image_that_is_no_regular_file(tmp_path, make, said):
    make(tmp_path / "a.png")
    assert said in refused(lambda: opened(tmp_path / "a.png"))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, *chunks):
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks)


END = chunk(b"IEND", b"")
PACKED = zlib.compress(bytes(range(200)))
PIXELS = chunk(b"IDAT", zlib.compress(bytes(8 * 9)))
IMAGES = {
    "a PNG without its end": (png(8, 8, PIXELS), "no end mark"),
    "text above Pillow's limit": (png(8, 8, chunk(b"zTXt", b"a\0\0" + PACKED), PIXELS, END), "does not open"),
    "a colour profile above Pillow's limit": (
        png(8, 8, chunk(b"iCCP", b"a\0\0" + PACKED), PIXELS, END),
        "does not open",
    ),
    "a PNG chunk longer than the file": (png(8, 8, struct.pack(">I", 99) + b"IDAT"), "does not open"),
    "a web page": (b"<html>404</html>", "replace the file"),
    "a TIFF that begins nowhere": (b"II*\0" + struct.pack("<I", 99), "is a TIFF that is not read"),
}


@pytest.mark.parametrize(("data", "said"), IMAGES.values(), ids=IMAGES)
def test_an_image_is_refused(tmp_path, monkeypatch, data, said):
    monkeypatch.setattr(PngImagePlugin, "MAX_TEXT_CHUNK", 100)
    (tmp_path / "a.png").write_bytes(data)
    found = refused(lambda: opened(tmp_path / "a.png"))
    assert said in found
    assert str(tmp_path / "a.png") in found


LARGE = {form: (form, "has more than 99 pixels") for form in images.FORMATS}


@pytest.mark.parametrize(("form", "said"), LARGE.values(), ids=LARGE)
@pytest.mark.parametrize("limit", [images, Image], ids=["ours", "Pillow's"])
def test_an_image_above_the_limit_of_pixels_is_refused_before_it_is_decoded(
    tmp_path, monkeypatch, form, said, limit
):
    """Pillow has a limit of its own, and raises an error of its own above twice the limit."""
    file = io.BytesIO()
    Image.new("RGB", (20, 10)).save(file, form)
    (tmp_path / "a.png").write_bytes(file.getvalue())
    monkeypatch.setattr(images, "MOST_PIXELS", 99)
    monkeypatch.setattr(images, "_loaded", lambda *_: pytest.fail("decoded"))
    if limit is Image:
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 99)
    assert said in refused(lambda: opened(tmp_path / "a.png"))
    assert said in refused(lambda: images.decode_array(file.getvalue(), "a.png"))


TABLES = {
    "a thousand columns of one name": ("pairs.csv", "before,after" + ",x" * 1_000, "names 'x' more than"),
    "a thousand columns without a name": ("pairs.csv", "before,after" + "," * 1_000, "has no row"),
    "hidden rows": ("pairs.csv", 'before,after,x\na,b,"\nc,d,e\nf,g,"\n', "ends in line 4"),
    "a field above the limit": (
        "pairs.csv",
        "before,after\n" + "x" * (csv.field_size_limit() + 1),
        "field larger than",
    ),
    "a quotation mark that never ends": ("pairs.csv", 'before,after\n"a,b', "unexpected end of data"),
    "a null byte in the first line": ("pairs.csv", "before,\0after\n", "must name the columns"),
    "no UTF-8": ("pairs.csv", b"before,after\n\xff,b\n", "(line 2: byte 0xff)"),
    "UTF-16": ("pairs.csv", "before,after\na,b\n".encode("utf-16"), "is UTF-16 text"),
    "no UTF-8 in a line of JSON": ("pairs.jsonl", b'{"before": "\xff"}\n', "(line 1: byte 0xff)"),
    "no line of JSON": ("pairs.jsonl", "\n\n", "has no row"),
    "one pair_id of two pairs": (
        "pairs.csv",
        "before,after,pair_id\na,b,1\nc,d,1\n",
        "lines 2, 3: the pair_id '1'",
    ),
}


@pytest.mark.parametrize(("name", "content", "said"), TABLES.values(), ids=TABLES)
def test_a_table_is_refused(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = refused(lambda: pair_jobs.jobs(path))
    assert said in found
    assert str(path) in found


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.jsonl"])
def test_a_table_that_is_a_pipe(tmp_path, name):
    pipe(tmp_path / name)
    assert "is a pipe or a device" in refused(lambda: pair_jobs.jobs(tmp_path / name))


LINES = {
    "a whole number of 5000 digits": ('{"before": ' + "9" * 5000 + "}", "an integer too long"),
    "deep nesting": ("[" * LEVELS + "]" * LEVELS, "not valid JSON (maximum recursion depth"),
    "half a character": ('{"before": "\\ud800"}', "half a character (\\ud800)"),
    "a number that is none": ("NaN", "float, not an object"),
    "nothing": ("null", "NoneType, not an object"),
    "no picture": ("{}", "no before"),
}


@pytest.mark.parametrize(("line", "said"), LINES.values(), ids=LINES)
def test_a_wrong_line_is_the_fault_of_its_pair_only(tmp_path, line, said):
    (tmp_path / "pairs.jsonl").write_text(line + "\n" + '{"before": "a.png", "after": "b.png"}\n')
    with shallow():
        wrong, sound = pair_jobs.jobs(tmp_path / "pairs.jsonl")
    assert said in wrong.fault
    assert sound.fault is None


ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp"


def test_terminal_escapes_are_never_printed_raw(tmp_path, capfd):
    """Escapes in the name of an image, in a cell of a table, and in the name of a column."""
    tables = [
        (["before", "after", "caption"], [f"../{ESCAPES}.png", "b.png", "a"]),
        (["before", "after", ESCAPES], ["a.png", "b.png", "a"]),
    ]
    for number, rows in enumerate(tables):
        (tmp_path / str(number)).mkdir()
        with (tmp_path / str(number) / "pairs.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    for main in (
        lambda: opened(tmp_path / f"{ESCAPES}.png"),
        lambda: pairs_csv.read(tmp_path / "0"),
        lambda: pairs_csv.read(tmp_path / "1"),
    ):
        with pytest.raises(SystemExit) as left:
            run(main)
        assert left.value.code == 2
        said = capfd.readouterr().err
        assert not set(said) & {"\x1b", "\x07", "\x9b", "\u202e"}
        assert "\\u" in said or "\\x" in said
