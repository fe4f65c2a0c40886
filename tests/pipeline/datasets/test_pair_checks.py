"""Boxes, shapes, scenes and names that a person overlooks: each is named, with the line or the pair."""

import json
import unicodedata
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from pipeline.datasets import checking, image_headers, images, pair_checks, readers
from pipeline.datasets.schema import SPLITS, Pair
from pipeline.io.errors import InputError
from tests.synthetic import make_clevr_change
from tests.synthetic_real import MAKERS, write_images

W, H = 48, 32
ROWS = [{"before": f"p/{n}a.png", "after": f"p/{n}b.png", "captions": ["it left"]} for n in range(3)]


def write(root, *changes, size=(W, H)):
    """Write a table of three pairs, one of each split. `changes` are further keys of its rows."""
    rows = [
        row | {"split": split} | (changes[number] if number < len(changes) else {})
        for number, (row, split) in enumerate(zip(ROWS, SPLITS, strict=True))
    ]
    root.mkdir(exist_ok=True)
    (root / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    write_images(root, [f"p/{n}{side}.png" for n in range(3) for side in "ab"], size=size)
    return root


def said(root):
    with pytest.raises(InputError) as error:
        readers.read("table", root)
    return str(error.value)


BEYOND = {
    "corners": [10, 10, 47, 31],
    "shares": [0.1, 0.1, 0.3, 0.3],
    "all of the image, as shares": [0, 0, 1, 1],
    "too wide": [40, 0, 9, 5],
    "too high": [0, 30, 5, 3.6],
    "outside": [60, 0, 5, 5],
    "negative": [-3, 0, 5, 5],
    "no width": [3, 3, 0, 5],
}


@pytest.mark.parametrize("box", BEYOND.values(), ids=list(BEYOND))
@pytest.mark.parametrize("side", ["before_box", "after_box"])
def test_a_box_that_does_not_fit_is_named_by_its_line(tmp_path, side, box):
    assert f"line 2: {side}" in said(write(tmp_path, {}, {side: box}))


def test_boxes_as_corners_are_recognised(tmp_path):
    boxes = [{"before_box": box} for box in ([1, 1, 9, 9], [10, 10, 47, 31], [2, 2, 48, 32])]
    assert "all 3 boxes fit as corners" in said(write(tmp_path, *boxes))
    boxes[0] = {"before_box": [30, 20, 9, 9]}
    assert "fit as corners" not in said(write(tmp_path, *boxes))


@pytest.mark.parametrize("box", [[0, 0, 48, 32], [47, 31, 1, 1], [0.2, 0.4, 47.9, 31.9], [0, 0, 1.5, 1]])
def test_a_box_inside_is_read(tmp_path, box):
    assert readers.read("table", write(tmp_path, {"after_box": box}))[0].after_box == tuple(box)


def test_a_box_of_a_published_layout_is_named_by_its_pair(tmp_path):
    root = make_clevr_change(tmp_path / "raw")
    pair = next(pair for pair in readers.read("clevr_change", root) if pair.changed)
    number = int(pair.scene_id)
    (root / "scenes.json").write_text(
        json.dumps({"scenes": [{"number": number, "after_box": [1, 1, 99, 9]}]})
    )
    with pytest.raises(InputError, match=rf"{pair.pair_id}: after_box ends at 100, and the image is"):
        readers.read("clevr_change", root)


SCENES = [("street", "street"), ("street 0", " street  0 "), ("é", "e\u0301")]


@pytest.mark.parametrize(("one", "other"), SCENES)
def test_a_scene_in_two_splits_is_named_with_both_lines(tmp_path, one, other):
    message = said(write(tmp_path, {"scene": "other"}, {"scene": one}, {"scene": other}))
    assert f"line 3: scene {one!r} is in test here, and in val in line 2" in message


def test_the_same_image_twice_is_no_change(tmp_path):
    write(tmp_path, {"after": "p/0a.png", "type": "color"})
    assert "line 1: before and after are the same image (p/0a.png)" in said(tmp_path)
    write(tmp_path, {"type": "move"})
    (tmp_path / "p/0b.png").write_bytes((tmp_path / "p/0a.png").read_bytes())
    assert "line 1: before and after are the same image (p/0a.png)" in said(tmp_path)
    write(tmp_path, {"after": "p/0a.png", "type": "none"}, {"after": "p/1a.png"})
    (note,) = pair_checks.notes(tmp_path, readers.read("table", tmp_path))
    assert "p/1a.png" in note


def note_of(root, size, **options):
    Image.new("RGB", size).save(root / "p/1b.png", **options)
    return "\n".join(pair_checks.notes(root, readers.read("table", root)))


def test_pairs_of_two_shapes_and_tiny_images_are_noted(tmp_path):
    write(tmp_path)
    assert note_of(tmp_path, (96, 64)) == ""
    assert "1 pairs have images of two shapes, such as p/1a.png (48 x 32) and" in note_of(tmp_path, (32, 48))
    assert "p/1b.png (48 x 30)" in note_of(tmp_path, (48, 30))
    exif = Image.Exif()
    exif[0x0112] = 6
    assert "orientations, such as p/1a.png (1) and p/1b.png (6)" in note_of(tmp_path, (48, 32), exif=exif)
    assert "1 images have a side below 8 pixels, such as p/1b.png (1 x 1)" in note_of(tmp_path, (1, 1))
    (tmp_path / "p/1b.png").write_text("no image")
    assert pair_checks.notes(tmp_path, readers.read("table", tmp_path)) == []


@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP", "PPM"])
def test_a_header_has_the_size_of_the_stored_pixels(tmp_path, form):
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = form in ("PNG", "JPEG", "TIFF", "WEBP")
    Image.new("RGB", (W, H)).save(tmp_path / "a", form, **({"exif": exif} if turned else {}))
    header = image_headers.read(tmp_path / "a")
    assert (header.width, header.height) == images.decode((tmp_path / "a").read_bytes(), "a").size == (W, H)
    assert header.orientation == (6 if turned else 1)


def chunk(kind, data):
    return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)


@pytest.mark.parametrize("pixels_first", [False, True])
@pytest.mark.parametrize(
    ("kind", "data", "orientation"),
    [
        ("eXIf", b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0", 6),
        ("tEXt", b'XML:com.adobe.xmp\0<x tiff:Orientation="8"/>', 8),
        ("iTXt", b'XML:com.adobe.xmp\0\0\0\0\0<x tiff:Orientation="8"/>', 8),
        ("tEXt", b"Comment\0XML:com.adobe.xmp tiff:Orientation 8", 1),
    ],
)
def test_metadata_before_and_behind_the_pixels_of_a_png(tmp_path, kind, data, orientation, pixels_first):
    Image.new("RGB", (W, H)).save(tmp_path / "a.png")
    plain = (tmp_path / "a.png").read_bytes()
    where = plain.index(b"IEND" if pixels_first else b"IDAT") - 4
    (tmp_path / "a.png").write_bytes(plain[:where] + chunk(kind.encode(), data) + plain[where:])
    decoded = images.decode((tmp_path / "a.png").read_bytes(), "a.png")
    assert decoded.info.get(images.ORIENTATION, 1) == orientation
    assert image_headers.read(tmp_path / "a.png") == image_headers.Header(W, H, orientation)


def test_no_pixel_is_decoded_to_read_a_header(tmp_path, monkeypatch):
    Image.new("RGB", (W, H)).save(tmp_path / "a.png")
    Image.new("RGB", (W, H)).save(tmp_path / "a.jpg")
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("decoded"))
    assert [image_headers.read(tmp_path / name).width for name in ("a.png", "a.jpg")] == [W, W]


NAMES = {
    "a backslash": "p\\0 é.png",
    "capitals": "P/0 é.PNG",
    "an escaped space": "p/0%20é.png",
    "all escaped": "p/0%20%C3%A9.png",
    "spaces at the ends": " p/0 é.png ",
    "the other Unicode form, in capitals": "p/0 E\u0301.png",
    "a folder too many": "data/p/0 é.png",
    "a path of Windows": "C:\\Users\\me\\p\\0 é.png",
    "another ending": "p/0 é.jpg",
    "no ending": "p/0 é",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=list(NAMES))
def test_a_name_that_is_almost_right(tmp_path, name):
    write(tmp_path)
    (tmp_path / "p/0a.png").rename(tmp_path / "p/0 é.png")
    wanted = unicodedata.normalize("NFC", "(p/0 é.png is there)")
    write_images(tmp_path, ["p/00 é.png", "p/0.png"])
    assert checking.missing(tmp_path, [name]) == [f"{name}: missing {wanted}"]
    with pytest.raises(InputError, match=r"0 é\.png is there"):
        images.read_bytes(tmp_path / name)
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    rows[0]["before"] = name
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert wanted in said(tmp_path)


def test_no_hint_without_a_similar_name(tmp_path):
    write(tmp_path)
    assert checking.missing(tmp_path, ["p/9a.png", "q/0a", "p"]) == [
        "p/9a.png: missing",
        "q/0a: missing",
        "p: not a file",
    ]
    for name in ("p/0c.png", "p/0C.png"):  # two similar names
        (tmp_path / name).write_bytes(b"x")
    assert checking.missing(tmp_path, ["p\\0C.PNG"]) == ["p\\0C.PNG: missing"]


def test_a_table_and_annotations_under_almost_the_right_name(tmp_path):
    write(tmp_path / "own")
    (tmp_path / "own/pairs.jsonl").rename(tmp_path / "own/Pairs.JSONL")
    assert "(Pairs.JSONL is there)" in said(tmp_path / "own")
    root = MAKERS["levir_cc"](tmp_path / "levir")
    (root / "LevirCCcaptions.json").rename(root / "levirCCcaptions.json")
    with pytest.raises(InputError, match=r"levirCCcaptions\.json is there"):
        readers.read("levir_cc", root)


@settings(max_examples=60)
@given(st.text(st.sampled_from("aA/\\%20.é \0x"), max_size=12))
def test_any_missing_name_is_a_message(tmp_path_factory, name):
    root = tmp_path_factory.getbasetemp() / "any"
    root.mkdir(exist_ok=True)
    (root / "a.x").write_text("x")
    assert len(checking.missing(root, [name])) <= 1
    pair_checks.notes(root, [Pair("1", "1", "train", name, "a.x", ("a",))])
