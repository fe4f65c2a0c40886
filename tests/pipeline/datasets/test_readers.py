"""All readers: pairs and images by name, and errors that name the wrong file and entry.

Further tests of a reader are in the file of its name. Damage of any kind is in test_damaged.py.
"""

import re
from pathlib import Path

import pytest

from pipeline.datasets import annotations, cards, readers
from pipeline.datasets.schema import CHANGE, CHANGE_TYPES, NO_CHANGE, Pair, images_of, of_split
from pipeline.decoding.attention_maps import choose
from pipeline.io.errors import InputError
from pipeline.scoring.subsets import subsets
from pipeline.text import vocabularies
from tests.synthetic_real import MAKERS, edit_json, write_json

ROOT = Path(__file__).parents[3]
SHARED = ROOT.parent / "shared/data/image-editing-request"


@pytest.fixture(params=MAKERS)
def made(request, tmp_path) -> tuple[str, Path]:
    return request.param, MAKERS[request.param](tmp_path / "raw")


def test_all_pairs_are_read_and_their_images_exist(made):
    reader, root = made
    pairs = readers.read(reader, root)
    assert len({pair.pair_id for pair in pairs}) == len(pairs)
    sizes = [len(of_split(pairs, split)) for split in ("train", "val", "test")]
    # CLEVR-Change has two pairs per scene; in Spot-the-Diff, the only sentence of a pair is empty
    expected = {"clevr_change": [32, 4, 4], "spot_the_diff": [15, 2, 2]}
    assert sizes == expected.get(reader, [16, 2, 2])
    assert all((root / name).is_file() for name in images_of(pairs))
    (root / pairs[0].before).unlink()
    assert readers.read(reader, root) == pairs  # a missing image shifts no other


def test_every_annotation_file_is_listed_and_needed(made):
    reader, root = made
    files = readers.annotation_files(reader, root)
    assert set(files) == {path for path in root.rglob("*") if path.suffix in (".json", ".tsv")}
    for path in files:
        if path.name == "type_mapping.json" and reader == "clevr_dc":
            continue
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(InputError, match=re.escape(path.name)):
            readers.read(reader, root)
        path.write_bytes(content)


def test_unknown_protocols_readers_and_folders_are_refused(tmp_path):
    for reader in MAKERS:
        with pytest.raises(InputError, match=f"prepare.protocol 'single' of {reader}: there is "):
            readers.read(reader, tmp_path, "single")
    with pytest.raises(InputError, match="unknown reader 'coco'; there are clevr_change, clevr_dc"):
        readers.read("coco", tmp_path)
    with pytest.raises(InputError, match="nowhere is missing"):
        readers.read("clevr_change", tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["/etc/a.png", "../a.png", "a/../../b.png", "..\\a.png", "", ".", "a\0"])
def test_images_stay_inside_the_folder(name):
    with pytest.raises(ValueError, match="must be a file in the dataset's folder"):
        annotations.normalised(name)


CLEVR, DC, SPOT = "clevr_change", "clevr_dc", "spot_the_diff"
EDITING, LEVIR = "image_editing_request", "levir_cc"
VAL, IMAGES = "annotations/val.json", "LevirCCcaptions.json"


def first(**changes):
    """Change keys of the first entry of a list, or of LEVIR-CC's images."""
    return lambda table: (table["images"] if isinstance(table, dict) else table)[0].update(changes)


def without_val(table):
    return {"images": [image for image in table["images"] if image["split"] != "val"]}


# reader, file, what is changed in it, and what the error names
WRONG = [
    (CLEVR, "splits.json", lambda s: s["test"].append(0), "scene 0 is in 'train'"),
    (CLEVR, "splits.json", lambda s: s["test"].append(99), "scene 99, unknown to change_captions.json"),
    (CLEVR, "splits.json", lambda s: s["test"].remove(18), "change_captions.json has scene 18"),
    (CLEVR, "splits.json", lambda s: s.update(val=["x"]), "val.0: "),
    (CLEVR, "splits.json", lambda s: s.update(val=[]), "val: "),
    (CLEVR, "change_captions.json", lambda c: c.update({"CLEVR_default_000003.png": [" "]}), "_000003.png: "),
    (CLEVR, "no_change_captions.json", lambda c: c.update({"x.png": ["a"]}), "'x.png'"),
    (CLEVR, "type_mapping.json", lambda t: t["add"].append(t["drop"][0]), "listed twice"),
    (CLEVR, "type_mapping.json", lambda t: {"add": t["add"]}, "the keys color, material, add"),
    (CLEVR, "type_mapping.json", lambda t: t["add"].append("x"), "'x'"),
    (DC, "captions.json", lambda c: c.update({"01": ["a"]}), "01 and 1"),
    (DC, "captions.json", lambda c: c.pop("3") and None, "scene 3, unknown to captions.json"),
    (DC, "type_mapping.json", lambda t: t["add"].append("000099.png"), "scene 99"),
    (SPOT, VAL, first(img_id="0"), "img_id 0 is in train.json"),
    (SPOT, VAL, first(img_id="../3"), "entry 0: img_id: "),
    (SPOT, VAL, first(sentences="a"), "entry 0: sentences: "),
    (SPOT, VAL, lambda _: [{"img_id": "x", "sentences": [""]}], "no pair in 'val'"),
    (EDITING, "valid.json", first(uid="Reddit_1"), "uid Reddit_1 is in train.json"),
    (EDITING, "valid.json", first(uid=" "), "entry 0: uid: "),
    (EDITING, "valid.json", first(img0="../a.jpg"), "entry 0: img0: "),
    (EDITING, "valid.json", first(sents=["", " "]), "entry 0: sents: "),
    (EDITING, "valid.json", lambda _: [], "no pair in 'val'"),
    (LEVIR, IMAGES, first(filename="train_000001.png"), "train_000001.png is there twice"),
    (LEVIR, IMAGES, first(filename="../a.png"), "images.0.filename: "),
    (LEVIR, IMAGES, first(split="dev"), "images.0.split: "),
    (LEVIR, IMAGES, first(changeflag=2), "images.0.changeflag: "),
    (LEVIR, IMAGES, first(sentences=[{"raw": ""}]), "train_000000.png has no sentence"),
    (LEVIR, IMAGES, without_val, "no pair in 'val'"),
]


@pytest.mark.parametrize(("reader", "file", "change", "named"), WRONG, ids=range(len(WRONG)))
def test_a_contradiction_is_named_by_file_and_entry(tmp_path, reader, file, change, named):
    root = MAKERS[reader](tmp_path / "raw")
    edit_json(root / file, change)
    with pytest.raises(InputError) as caught:
        readers.read(reader, root)
    assert named in str(caught.value)
    assert file in str(caught.value) or ".json" in named


def test_pairs_that_share_images_are_one_scene():
    images = [("a", "b"), ("c", "d"), ("d", "b"), ("e", "f"), ("a", "g")]
    splits = ["train"] * 4 + ["val"]
    pairs = [
        Pair(f"p{n}", "", split, *both, ("c",))
        for n, (both, split) in enumerate(zip(images, splits, strict=True))
    ]
    assert [each.scene_id for each in annotations.scenes_by_images(pairs)] == ["p0", "p0", "p0", "p3", "p4"]


def test_a_change_of_unnamed_kind_is_a_change():
    assert CHANGE not in CHANGE_TYPES
    kinds = (CHANGE, NO_CHANGE, CHANGE, "add")
    pairs = [Pair(f"p{n}", "", "test", "a", "b", ("c",), kind) for n, kind in enumerate(kinds)]
    assert [each.changed for each in pairs] == [True, False, True, True]
    assert subsets(pairs) == {"change": ["p0", "p2", "p3"], "no_change": ["p1"], "add": ["p3"]}
    assert list(choose(pairs, 4)) == ["add", CHANGE, NO_CHANGE]


def test_levir_cc(tmp_path):
    root = MAKERS["levir_cc"](tmp_path / "raw")
    sentences = [{"raw": text} for text in ("  A \u2028b", "", " \t", "c")]
    edit_json(root / IMAGES, first(sentences=sentences))
    pairs = readers.read("levir_cc", root)
    name = "train_000001.png"
    captions = tuple(f" nothing has changed {k} ." for k in range(5))
    assert pairs[0].captions == ("  A \u2028b", "c")  # as they are written
    assert pairs[1] == Pair(
        name, name, "train", f"images/train/A/{name}", f"images/train/B/{name}", captions, "none"
    )
    assert [pair.change_type for pair in pairs[:3]] == ["change", "none", "change"]


def test_image_editing_request(tmp_path):
    def entry(number, **changes):
        own = {"img0": f"a{number}.jpg", "img1": f"b{number}.gif", "sents": ["Make it red "]}
        return own | {"uid": f"Reddit_{number}"} | changes

    write_json(tmp_path / "train.json", [entry(0), entry(1, img0="a0.jpg", sents=["", "x"]), entry(2)])
    write_json(tmp_path / "valid.json", [entry(3, img0="a0.jpg")])
    write_json(tmp_path / "test.json", [entry(4)])
    pairs = readers.read("image_editing_request", tmp_path)
    assert pairs[0] == Pair(
        "Reddit_0", "Reddit_0", "train", "images/a0.jpg", "images/b0.gif", ("Make it red ",)
    )
    assert pairs[1].captions == ("x",)
    # requests for one image are one scene, but a scene does not reach into another split
    assert [pair.scene_id for pair in pairs] == ["Reddit_0", "Reddit_0", "Reddit_2", "Reddit_3", "Reddit_4"]


@pytest.mark.skipif(not SHARED.exists(), reason="Image Editing Request's own annotation files are not here")
def test_the_real_image_editing_request_has_the_published_counts():
    pairs = readers.read("image_editing_request", SHARED)
    counted = cards.count(pairs)
    assert [counted[split]["pairs"] for split in ("train", "val", "test")] == [3_061, 383, 495]
    assert (counted["captions"], counted["images"], counted["shared_images"]) == (5_695, 5_883, 161)
    card = cards.load(ROOT / "data/cards/image_editing_request.yaml")
    assert cards.differences(counted, card.counts(None)) == []
    captions = [caption for pair in of_split(pairs, "train") for caption in pair.captions]
    vocabulary = vocabularies.build(captions, min_count=3, lower_case=True)
    assert (len(vocabulary), vocabulary.longest) == (681, 60)
