"""Pictures and tables of pairs from strangers: what was tried (the tests' names), and what happened.

Damaged pictures of every format are in test_image_files.py, wrong rows of tables in test_pairs_csv.py; here
it is what takes memory or time, is no file, or steers a terminal.
"""

import csv
import io
import json
import struct
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from pipeline.captioning import pair_jobs
from pipeline.captioning.features import opened
from pipeline.datasets import images, pairs_csv
from stages import run
from tests.hostile import endless, hole, pipe, refused


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(*chunks):
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def head(width, height, kind=2):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))


def scanned(times):
    """A JPEG whose pixels are gone through so many times by scans of a few bytes; its comment has an end."""
    file = io.BytesIO()
    Image.new("L", (64, 64), 128).save(file, "JPEG", progressive=True, comment=b"\xff\xda\xff\xd9")
    data = file.getvalue()
    scan = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + times * scan + data[-2:]


MARK = b"\xff\xda\0\2"  # the head of a scan
END = chunk(b"IEND", b"")
ZEROS = chunk(b"IDAT", zlib.compress(bytes(100_000_000), 9))
PICTURES = {
    "a PNG of 2 ** 31 - 1 pixels a side": (
        png(head(2**31 - 1, 2**31 - 1), END),
        "has more than 89,478,485 pixels",
    ),
    "a PNG of 100 million pixels in 100 kB": (
        png(head(10_000, 10_000, 0), ZEROS, END),
        "has more than 89,478,485",
    ),
    "a PNG of 64 pixels that unpacks to 100 MB": (png(head(8, 8, 0), ZEROS), "no end mark"),
    "a PNG of 100 MB of packed text": (
        png(head(8, 8), chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(100_000_000), 9)), END),
        "does not open",
    ),
    "a PNG of 100 MB of a packed colour profile": (
        png(head(8, 8), chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(100_000_000), 9)), END),
        "does not open",
    ),
    "a PNG chunk of 4 GB": (png(head(8, 8), struct.pack(">I", 2**32 - 1) + b"IDAT"), "does not open"),
    "a BMP of 2 ** 31 - 1 pixels a side": (
        b"BM"
        + struct.pack("<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, 2**31 - 1, 2**31 - 1, 1, 24, 0, 0, 0, 0, 0, 0),
        "has more than 89,478,485 pixels",
    ),
    "a GIF of 65535 pixels a side": (b"GIF89a" + struct.pack("<HHBBB", 65_535, 65_535, 0, 0, 0), "pixels"),
    "a PPM of a billion pixels a side": (
        b"P6 1000000000 1000000000 255\n",
        "has more than 89,478,485 pixels",
    ),
    "a PPM whose width has 5000 digits": (b"P6 " + b"9" * 5000 + b" 1 255\n", "replace the file"),
    "a JPEG of 10000 scans in 300 kB": (scanned(10_000), "has more than 100 scans"),
    "a TIFF that begins nowhere": (b"II*\0" + struct.pack("<I", 2**32 - 1), "replace the file"),
    "a TIFF that leads back to itself": (
        b"II*\0" + struct.pack("<IHHHIII", 8, 1, 256, 4, 1, 8, 8),
        "replace the file",
    ),
}


@pytest.mark.parametrize(("data", "said"), PICTURES.values(), ids=PICTURES)
def test_a_picture_is_refused_for(tmp_path, data, said):
    (tmp_path / "a.png").write_bytes(data)
    found = refused(lambda: opened(tmp_path / "a.png"))
    assert said in found
    assert str(tmp_path / "a.png") in found
    assert said in refused(lambda: opened(data, "the upload"))


@pytest.mark.parametrize("progressive", [False, True])
def test_a_sound_jpeg_with_marks_of_scans_in_what_is_no_pixel_opens(progressive):
    """In a thumbnail, say: only what is decoded counts. Noise has FF in its pixels."""
    noise = Image.effect_noise((300, 300), 90).convert("RGB")
    file = io.BytesIO()
    noise.save(file, "JPEG", progressive=progressive, quality=99, exif=b"Exif\0\0" + 200 * MARK)
    data = file.getvalue()
    assert data.count(MARK) >= 200
    assert opened(data + bytes(4) + 200 * MARK, "x").size == (300, 300)


def test_large_pictures_are_decoded_one_at_a_time(monkeypatch):
    """Each takes up to 16 bytes a pixel, and there are as many threads as cores."""
    monkeypatch.setattr(images, "LARGE", 63)
    at_once, most, patience = 0, [], 0.0
    together = threading.Barrier(2)

    def rgb(image, data, name):
        nonlocal at_once
        at_once += 1
        most.append(at_once)
        with suppress(threading.BrokenBarrierError):
            together.wait(patience)
        at_once -= 1
        return image

    monkeypatch.setattr(images, "_rgb", rgb)

    def decoded(side, seconds):
        nonlocal patience
        patience = seconds
        most.clear()
        together.reset()
        data = png(head(side, side), END)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: images.decode(data, "x"), range(2)))
        return max(most)

    assert decoded(7, 30.0) == 2
    assert decoded(8, 0.2) == 1


NO_FILES = {
    "a pipe": (pipe, "is a pipe or a device, which may never end"),
    "a device": (endless, "is a pipe or a device, which may never end"),
    "a folder": (Path.mkdir, "cannot be read (Is a directory)"),
    "a link to itself": (lambda path: path.symlink_to(path), "cannot be read (Too many levels"),
    "a link to nothing": (lambda path: path.symlink_to("nowhere"), "cannot be read (No such file"),
    "2 GB without content": (
        lambda path: hole(path, 2 << 30),
        "bytes, and such a file 1,073,741,824 at most",
    ),
}


@pytest.mark.parametrize(("make", "said"), NO_FILES.values(), ids=NO_FILES)
def test_as_a_picture_is_refused(tmp_path, make, said):
    make(tmp_path / "a.png")
    assert said in refused(lambda: opened(tmp_path / "a.png"))


TABLES = {
    "a million columns of one name": ("pairs.csv", "before,after" + ",x" * 1_000_000, "names 'x' more than"),
    "a million columns without a name": ("pairs.csv", "before,after" + "," * 1_000_000, "has no row"),
    "rows that a quotation mark hides": (
        "pairs.csv",
        'before,after,x\na,b,"\nc,d,e\nf,g,"\n',
        "ends in line 4",
    ),
    "a field of a million letters": ("pairs.csv", "before,after\n" + "x" * 1_000_000, "field larger than"),
    "a quotation mark that never ends": ("pairs.csv", 'before,after\n"a,b', "unexpected end of data"),
    "a null byte in the first line": ("pairs.csv", "before,\0after\n", "must name the columns"),
    "no UTF-8": ("pairs.csv", b"before,after\n\xff,b\n", "(line 2: byte 0xff)"),
    "UTF-16": ("pairs.csv", "before,after\na,b\n".encode("utf-16"), "is UTF-16 text"),
    "no UTF-8 in a line of JSON": (
        "pairs.jsonl",
        b'{"before": "\xff"}\n',
        "(line 1: byte 0xff)",
    ),
    "no line of JSON": ("pairs.jsonl", "\n\n", "has no row"),
}


@pytest.mark.parametrize(("name", "content", "said"), TABLES.values(), ids=TABLES)
def test_a_table_is_refused_for(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = refused(lambda: pair_jobs.jobs(path))
    assert said in found
    assert str(path) in found


@pytest.mark.parametrize("make", [pipe, endless], ids=["a pipe", "a device"])
@pytest.mark.parametrize("name", ["pairs.csv", "pairs.jsonl"])
def test_as_a_table_is_refused(tmp_path, make, name):
    make(tmp_path / name)
    assert "is a pipe or a device" in refused(lambda: pair_jobs.jobs(tmp_path / name))


LINES = {
    "a whole number of 5000 digits": ('{"before": ' + "9" * 5000 + "}", "an integer too long"),
    "100000 lists within each other": ("[" * 100_000, "not valid JSON"),
    "half a character": ('{"before": "\\ud800"}', "half a character (\\ud800)"),
    "a number that is none": ("NaN", "float, not an object"),
    "nothing": ("null", "NoneType, not an object"),
    "no picture": ("{}", "no before"),
}


@pytest.mark.parametrize(("line", "said"), LINES.values(), ids=LINES)
def test_a_line_is_its_pairs_own_fault_for(tmp_path, line, said):
    (tmp_path / "pairs.jsonl").write_text(line + "\n" + '{"before": "a.png", "after": "b.png"}\n')
    wrong, sound = pair_jobs.jobs(tmp_path / "pairs.jsonl")
    assert said in wrong.fault
    assert sound.fault is None


def test_a_lines_end_in_a_name_makes_no_other_line(tmp_path, capfd):
    """It could say what the program never said."""
    forged = "a\nerror: rm -rf is needed\n  b"
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"before": "a.png", "after": "b.png", forged: "a"}))
    with pytest.raises(SystemExit):
        run(lambda: pairs_csv.read(tmp_path))
    said = capfd.readouterr().err
    assert said.count("\n") == 2  # what is wrong with the table, and its one problem
    assert "\\nerror: rm" in said
    with pytest.raises(SystemExit):
        run(lambda: opened(tmp_path / f"{forged}.png"))
    assert capfd.readouterr().err.count("\n") == 1


ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp"


def shown(capfd, main):
    with pytest.raises(SystemExit) as left:
        run(main)
    assert left.value.code == 2
    said = capfd.readouterr().err
    assert not set(said) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "\\u" in said or "\\x" in said


def test_terminal_escapes_in_a_files_name_are_never_printed_raw(tmp_path, capfd):
    shown(capfd, lambda: opened(tmp_path / f"{ESCAPES}.png"))
    with (tmp_path / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["before", "after", "caption"], [f"../{ESCAPES}.png", "b.png", "a"]])
    shown(capfd, lambda: pairs_csv.read(tmp_path))
    with (tmp_path / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["before", "after", ESCAPES], ["a.png", "b.png", "a"]])
    shown(capfd, lambda: pairs_csv.read(tmp_path))


def test_terminal_escapes_in_an_answer_are_data(tmp_path):
    """In a file of JSON they stand as JSON writes them."""
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    row = {"before": f"{ESCAPES}.png", "after": "a.png"}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(row) + "\n")
    assert pair_jobs.jobs(tmp_path)[0].before == f"{ESCAPES}.png"
