"""Annotation files that contradict themselves or each other: one row for each reader and rule of its own.

Damage of any kind is in test_damaged.py.
"""

import pytest

from pipeline.datasets import readers
from pipeline.io.errors import InputError
from tests.synthetic_real import MAKERS, edit_json

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
    (CLEVR, "splits.json", lambda s: s.update(val=["3"]), "val.0: "),
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
    (LEVIR, IMAGES, first(sentences=[{"raw": ""}]), "images.0.sentences: "),
    (LEVIR, IMAGES, without_val, "no pair in 'val'"),
]


@pytest.mark.parametrize(("reader", "file", "change", "named"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_file_and_its_wrong_entry_are_named(tmp_path, reader, file, change, named):
    root = MAKERS[reader](tmp_path / "raw")
    edit_json(root / file, change)
    with pytest.raises(InputError) as caught:
        readers.read(reader, root)
    assert named in str(caught.value)
    assert file in str(caught.value) or ".json" in named
