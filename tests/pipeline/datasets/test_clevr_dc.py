"""The CLEVR-DC reader: two layouts of one dataset."""

import pytest

from pipeline.datasets import readers
from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from tests.synthetic_real import edit_json, make_clevr_dc, make_clevr_dc_dirl


@pytest.fixture
def authors(tmp_path):
    return make_clevr_dc(tmp_path / "authors")


@pytest.fixture
def dirl(tmp_path):
    return make_clevr_dc_dirl(tmp_path / "dirl")


def test_the_authors_layout(authors):
    pairs = readers.read("clevr_dc", authors)
    captions = ("the person was moved", "someone moved the person .")
    assert pairs[1] == Pair("000001.png", "000001", "train", "bef/1.png", "aft/1.png", captions, "texture")
    kinds = [pair.change_type for pair in pairs[:6]]
    assert kinds == ["color", "texture", "add", "drop", "move", "none"]


def test_dirls_layout(authors, dirl):
    pairs = readers.read("clevr_dc", dirl)
    assert (pairs[1].before, pairs[1].after) == ("images/000001.png", "sc_images/000001.png")
    assert {pair.change_type for pair in pairs} == {None}
    ours = readers.read("clevr_dc", authors)
    assert [(p.pair_id, p.split, p.captions) for p in pairs] == [
        (p.pair_id, p.split, p.captions) for p in ours
    ]


def test_the_authors_captions_in_dirls_layout_are_ignored(dirl):
    """DIRL's script writes change_captions.json and leaves captions.json."""
    (dirl / "captions.json").write_text("{}")
    assert readers.read("clevr_dc", dirl)[0].before == "images/000000.png"


def test_both_layouts_or_neither_are_refused(authors, tmp_path):
    make_clevr_dc_dirl(authors)
    (tmp_path / "empty").mkdir()
    for root in (authors, tmp_path / "empty"):
        with pytest.raises(InputError, match=rf"{root} must have captions\.json .* or change_captions\.json"):
            readers.read("clevr_dc", root)


def test_the_types_may_have_the_name_and_key_of_medics_program(authors):
    before = readers.read("clevr_dc", authors)
    old, new = authors / "type_mapping.json", authors / "type_mapping_dc.json"
    new.write_text(old.read_text().replace('"none"', '"no change"'))
    with pytest.raises(InputError, match=r"type_mapping\.json and type_mapping_dc\.json"):
        readers.read("clevr_dc", authors)
    old.unlink()
    assert readers.read("clevr_dc", authors) == before
    assert "none" in {pair.change_type for pair in before}


def test_scenes_without_a_type_are_unknown(authors):
    edit_json(authors / "type_mapping.json", lambda types: types.pop("none") and None)
    assert [pair.change_type for pair in readers.read("clevr_dc", authors)][4:7] == ["move", None, "color"]
