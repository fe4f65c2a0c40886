"""A user's own table of pairs: its pairs, its faults by line, and its division into splits."""

import json
import unicodedata

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pipeline.datasets import readers
from pipeline.datasets.schema import SPLITS
from pipeline.io.errors import InputError

HEAD = "before,after,caption,caption_2,split,type,before_box"


def write(root, *rows, head=HEAD):
    """Write a table, and a file for each image without one. Files of different names differ."""
    root.mkdir(exist_ok=True)
    (root / "pairs.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    pictures(root, *(name for row in rows for name in row.split(",")[:2]))
    return root


def pictures(root, *names):
    for name in names:
        if name.isascii() and name and "/" not in name and not (root / name).exists():
            (root / name).write_bytes(name.encode())


def said(root, *rows, head=HEAD):
    with pytest.raises(InputError) as error:
        readers.read("table", write(root, *rows, head=head))
    return str(error.value)


def test_a_row_is_a_pair_with_all_that_is_known_of_it(tmp_path):
    rows = ("a.png,b.png,it moved,gone,train,move,1 2 3 4", "c.png,d.png,nothing,,val,none,", "e,f,x,,test,,")
    first, second, third = readers.read("table", write(tmp_path, *rows))
    assert (first.pair_id, first.before, first.after) == ("a.png+b.png", "a.png", "b.png")
    assert (first.captions, first.change_type) == (("it moved", "gone"), "move")
    assert (first.before_box, first.after_box) == ((1, 2, 3, 4), None)
    assert (second.split, second.changed, third.split, third.changed) == ("val", False, "test", None)


def test_rows_of_the_same_images_are_captions_of_one_pair(tmp_path):
    rows = [f"{n},{n}x,one,,{split},," for n, split in enumerate(SPLITS)] + ["0,0x,two,,train,,"]
    pairs = readers.read("table", write(tmp_path, *rows))
    assert [pair.captions for pair in pairs] == [("one", "two"), ("one",), ("one",)]
    assert "line 5: not as line 2 says" in said(tmp_path, *rows[:3], "0,0x,two,,val,,")


def test_csv_and_jsonl_give_the_same_pairs(tmp_path):
    rows = (f"{n}.png,{n}x.png,said,again,{split},add,0 0 5 5" for n, split in enumerate(SPLITS))
    write(tmp_path / "csv", *rows)
    records = [
        {"before": f"{n}.png", "after": f"{n}x.png", "captions": ["said", "again"], "split": split}
        | {"type": "add", "before_box": [0, 0, 5, 5], "scene": None}
        for n, split in enumerate(SPLITS)
    ]
    (tmp_path / "jsonl").mkdir()
    pictures(tmp_path / "jsonl", *(f"{n}{end}.png" for n in range(3) for end in ("", "x")))
    (tmp_path / "jsonl/pairs.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert readers.read("table", tmp_path / "csv") == readers.read("table", tmp_path / "jsonl")


def test_without_splits_scenes_are_drawn_and_stay_whole(tmp_path):
    # each image is in two pairs: 20 scenes of two pairs
    rows = [f"{n // 2}.png,{n}x.png,a" for n in range(40)]
    pairs = readers.read("table", write(tmp_path, *rows, head="before,after,caption"))
    assert [sum(pair.split == split for pair in pairs) for split in SPLITS] == [32, 4, 4]
    for one, other in zip(pairs[::2], pairs[1::2], strict=True):
        assert (one.scene_id, one.split) == (other.scene_id, other.split)
    assert readers.read("table", tmp_path) == pairs
    other = [f"{n // 2}.png,{n}x.png,a,{n // 4}" for n in range(40)]
    named = readers.read("table", write(tmp_path, *other, head="before,after,caption,scene"))
    assert all(len({pair.split for pair in named[start : start + 4]}) == 1 for start in range(0, 40, 4))
    assert [pair.split for pair in named] != [pair.split for pair in pairs]


def test_every_fault_is_named_by_its_line(tmp_path):
    faults = {
        "c,d, ,,train,,": "no caption",
        "../e,f,x,,train,,": "in the dataset's folder, not '../e'",
        "g,h,x,,trian,,": "not 'trian'",
        "i,j,x,,val,changed,": "not 'changed'",
        "k,l,x,,val,,1 2 3": "and height",
        "m,n,x,val,,": "no split, but line 2",
        ",o,x,,val,,": "before is missing",
        "p,q,x,,,,": "no split, but line 2",
    }
    first, *lines = said(tmp_path, "a,b,fine,,train,,", *faults).split("\n")
    assert first.startswith(f"{tmp_path / 'pairs.csv'}: 8 problem(s); ")
    for number, (line, fault) in enumerate(zip(lines, faults.values(), strict=True), 3):
        assert line.strip().startswith(f"line {number}: ")
        assert fault in line


def test_a_leak_is_refused_and_named(tmp_path):
    rows = ["a,b,x,,train,,", "c,d,x,,val,,", "e,b,x,,test,,"]
    assert "line 4: b in test is the same image as b in train, line 2" in said(tmp_path, *rows)
    assert len(readers.read("table", write(tmp_path, *rows[:2], "e,f,x,,test,,"))) == 3


def test_missing_images_and_copies_under_other_names_are_faults(tmp_path):
    write(tmp_path, "a,b,x,,train,,", "c,d,x,,val,,", "e,f,x,,test,,")
    assert len(readers.read("table", tmp_path)) == 3
    (tmp_path / "f").write_bytes(b"a")
    (tmp_path / "d").unlink()
    with pytest.raises(InputError) as error:
        readers.read("table", tmp_path)
    assert str(error.value).split("\n  ")[1:] == [
        "line 3: d: missing",
        "line 4: f in test is the same image as a in train, line 2",
    ]


@pytest.mark.parametrize(
    ("rows", "head", "part"),
    [
        ((), HEAD, "has no row"),
        (("a,b",), "bevor,after", "must name the columns"),
        (("a,b,x,1 2 0 4",), "before,after,caption,before_box", "must be x, y, width and height in pixels"),
        (("a,b,x",), "before,after,after", "names 'after' more than once"),
        (("a,b,x,7",), "before,after,caption,colour", "unknown key colour; there are before, after"),
        (("a,b,x", "c,d,x"), "before,after,captoin", "1 problem(s)"),
        (("a,b,x", "c,d,x"), "before,after,caption", "2 scene(s) cannot be divided"),
        (("a,b,x,1", "c,d,x,1"), "before,after,caption,pair_id", "pair_id '1' is in line 2 already"),
        (("a,b,x,train",), "before,after,caption,split", "has no pair in 'val'"),
        (("a,b,...",), "before,after,caption", "has no word"),
        (("a,b,x", "c,d,nan"), "before,after,caption", "line 3: the caption 'nan'"),
        (("a,b,x,None",), "before,after,caption,caption_2", "line 2: the caption 'None'"),
        (("a,b,\"['x left', 'y']\"",), "before,after,captions", "line 2: the caption \"['x left', 'y']\""),
    ],
)
def test_a_faulty_table_is_refused(tmp_path, rows, head, part):
    assert part in said(tmp_path, *rows, head=head)


def test_there_must_be_one_table(tmp_path):
    with pytest.raises(InputError, match="and has neither"):
        readers.read("table", tmp_path)
    write(tmp_path, "a,b,x,,train,,")
    (tmp_path / "pairs.jsonl").write_text("")
    with pytest.raises(InputError, match=r"has pairs\.csv and pairs\.jsonl"):
        readers.read("table", tmp_path)


SPELLINGS = st.sampled_from(("{}", "./{}", ".//{}", "././{}", "x/{}", "x//{}", "x/./{}"))


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 25), SPELLINGS), min_size=30, max_size=30), st.booleans())
@example([(n // 2, "./{}" if n % 2 else "{}") for n in range(30)], False)
@example([(n // 2, "x/{}" if n % 2 else "{}") for n in range(30)], True)
def test_no_image_is_drawn_into_two_splits_under_any_name(tmp_path_factory, befores, scenes):
    """Neither another spelling nor another file with the same content leads into a second split."""
    root = tmp_path_factory.mktemp("own")
    (root / "x").mkdir()
    for number in range(26):
        for name in (f"{number}", f"x/{number}"):
            (root / name).write_text(f"{number:02}")
    lines = [
        f"{spelt.format(number)},a{n},a" + f",s{n}" * scenes for n, (number, spelt) in enumerate(befores)
    ]
    write(root, *lines, head="before,after,caption" + ",scene" * scenes)
    try:
        pairs = readers.read("table", root)
    except InputError as error:
        assume("cannot be divided" not in str(error))
        raise
    splits = {(int(pair.before.removeprefix("x/")), pair.split) for pair in pairs}
    assert len(splits) == len({content for content, _ in splits})


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_an_image_is_found_in_both_unicode_forms_of_its_name(tmp_path, form):
    (tmp_path / unicodedata.normalize(form, "é.png")).write_text("x")
    rows = [f"{unicodedata.normalize(other, 'é.png')},{other},a,train" for other in ("NFC", "NFD")]
    write(tmp_path, *rows, "c,d,a,val", "e,f,a,test", head="before,after,caption,split")
    pairs = readers.read("table", tmp_path)
    assert {pair.before for pair in pairs[:2]} == {unicodedata.normalize(form, "é.png")}
    assert pairs[0].scene_id == pairs[1].scene_id


@pytest.mark.parametrize("box", ["1 2 3 4", "[1, 2, 3, 4]", "(1.0, 2.0, 3.0, 4.0)"])
def test_a_box_is_four_numbers_as_people_and_pandas_write_them(tmp_path, box):
    rows = [f'{n},{n}x,one,{split},"{box}"' for n, split in enumerate(SPLITS)]
    pairs = readers.read("table", write(tmp_path, *rows, head="before,after,caption,split,before_box"))
    assert pairs[0].before_box == (1, 2, 3, 4)
