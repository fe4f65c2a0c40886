"""Ids of captions that differ in spelling from known ids; unknown ids, and ids that are left out."""

import json
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair
from pipeline.io.errors import MOST_LISTED, InputError
from pipeline.scoring import scored_files, scored_ids
from pipeline.scoring.scored_ids import KnownIds

SPELLINGS = [
    lambda key: key.zfill(6),
    lambda key: f"{key}.0",
    lambda key: f"{key}.png",
    lambda key: f"{key}.JPG",
    lambda key: f"{key.zfill(8)}.jpeg",
]


def pair(key: str, captions=("the car left",)) -> Pair:
    return Pair(key, key, "test", f"frames/{key}.png", f"frames/{key}_2.png", captions)


@given(st.sets(st.integers(0, 5000), min_size=1).map(sorted), st.sampled_from(SPELLINGS), st.booleans())
def test_ids_that_differ_in_zeros_and_endings_are_matched(numbers, spelling, exchange):
    known = [str(number) for number in numbers]
    other = [spelling(key) for key in known]
    written, ids = (known, other) if exchange else (other, known)
    matched = scored_ids.match(written, KnownIds("refs.json", ids), "captions.json")
    assert (matched.ids, matched.unknown) == (dict(zip(written, ids, strict=True)), [])
    (line,) = matched.spellings("captions.json")
    assert f"{len(known):,} of {len(known):,} ids of captions.json" in line
    assert f"'{written[0]}' is '{ids[0]}'" in line


@given(st.lists(st.text("0189.png_ab", min_size=1, max_size=8), unique=True, min_size=1), st.data())
def test_a_known_id_is_never_read_as_another_one(known, data):
    written = data.draw(st.lists(st.sampled_from(known) | st.text("019.png_", min_size=1), unique=True))
    try:
        matched = scored_ids.match(written, KnownIds("refs.json", known), "captions.json")
    except InputError:
        assume(False)
    assert {key: matched.ids[key] for key in written if key in known} == {k: k for k in written if k in known}
    assert len({*matched.ids.values()}) == len(matched.ids)
    assert sorted([*matched.ids, *matched.unknown]) == sorted(written)


@pytest.mark.parametrize(
    ("written", "known", "named"),
    [
        (["7", "0256"], ["7", "256", "00256"], ["'0256'", "'256'", "'00256'"]),
        (["7", "256", "0256"], ["7", "256"], ["'256'", "'0256'"]),
        (["7", "256.png", "256.jpg"], ["7", "256"], ["'256.png'", "'256.jpg'"]),
        (["000256", "000257"], ["x", "y"], ["captions.json", "refs.json", "'000256'", "'x'"]),
    ],
    ids=["two known ids", "two spellings, one exact", "two endings", "no id in common"],
)
def test_ids_that_are_not_clear_are_refused_by_name(written, known, named):
    with pytest.raises(InputError) as caught:
        scored_ids.match(written, KnownIds("refs.json", known), "captions.json")
    assert all(name in str(caught.value) for name in named)


def test_names_of_images_are_ids_of_their_pair():
    pairs = [pair("256"), pair("7")]
    for name in ("256.png", "frames/256.png", "256_2.png", "000256.png", "frames/256_2.jpg"):
        assert scored_ids.match([name, "7"], scored_ids.of_pairs(pairs, "p"), "c").ids[name] == "256"


def test_an_image_of_two_pairs_names_none_of_them():
    pairs = [Pair(key, "256", "test", "256.png", f"{key}.png", ("x",)) for key in ("256-1", "256-2")]
    with pytest.raises(InputError, match=r"'256\.png'.*'256-1' and '256-2'"):
        scored_ids.match(["256.png"], scored_ids.of_pairs(pairs, "p"), "c")


@pytest.fixture
def read(tmp_path):
    def of_pairs(captions, pairs, left_out=None, referenced_only=False, others=()):
        path = tmp_path / "captions.json"
        path.write_text(json.dumps([{"image_id": key, "caption": text} for key, text in captions.items()]))
        source = tmp_path / "pairs.jsonl"
        return scored_files.of_pairs(
            path, pairs, source, left_out or {}, others, None, False, referenced_only
        )

    return of_pairs


def test_captions_of_pairs_that_prepare_left_out_are_counted(read, capsys):
    captions = {"7": "a", "0008.png": "b", "frames/9_2.png": "c"}
    left_out = {key: (f"frames/{key}.png", f"frames/{key}_2.png") for key in ("8", "9")}
    scored = read(captions, [pair("7")], left_out)
    assert (scored.captions, scored.left_out) == ({"7": "a"}, {"without a reference": 2})
    assert re.search(r"^2 captions of .*captions\.json are left out.*0008\.png", capsys.readouterr().out)


def test_captions_of_other_splits_are_left_out_with_their_number(read, capsys):
    """`commands.caption --pairs pairs.csv` writes captions of all splits."""
    captions = {"p/0a.png+p/0b.png": "a", "p/1a.png+p/1b.png": "b", "p/2a.png+p/2b.png": "c"}
    scored, *others = captions
    assert read(captions, [pair(scored)], others=others).captions == {scored: "a"}
    assert "2 captions" in capsys.readouterr().out
    with pytest.raises(InputError, match="lacks pairs"):
        read({others[0]: "b"}, [pair(scored)], others=others)


def test_all_unknown_ids_are_named_or_left_out(read, capsys):
    captions = {"7": "a"} | {f"x{number}": "b" for number in range(50)}
    with pytest.raises(InputError) as caught:
        read(captions, [pair("7")])
    head, *lines = str(caught.value).split("\n")
    assert "50 problem(s)" in head
    assert "captions.json" in head
    assert len(lines) == MOST_LISTED
    assert read(captions, [pair("7"), pair("8", (".",))], referenced_only=True).captions == {"7": "a"}
    assert "50 captions" in capsys.readouterr().out


def test_references_that_lack_words_and_captions_that_lack_references_are_left_out(tmp_path, capsys):
    (tmp_path / "r.json").write_text(
        json.dumps({"1": ["a car left"], "2": [""], "3": [], "4": ["no change"]})
    )
    (tmp_path / "c.json").write_text(json.dumps({"001": "the car left", "002": "x", "9": "y", "4": "z"}))
    files = tmp_path / "c.json", tmp_path / "r.json"
    scored = scored_files.of_references(*files, None, predicted_only=False, referenced_only=True)
    assert scored.references == {"1": ["a car left"], "4": ["no change"]}
    assert scored.captions == {"1": "the car left", "4": "z"}
    assert scored.left_out == {"without a reference": 3}
    out = capsys.readouterr().out
    assert "2 ids" in out
    assert "1 captions" in out
    whole = scored_files.of_references(*files, None, predicted_only=True, referenced_only=False)
    assert whole.references.keys() == {"1", "2", "4"}
    assert whole.captions.keys() == {"1", "2", "4", "9"}  # pipeline.scoring.corpus refuses the last


def test_warnings_of_captions_and_references():
    scored = scored_files.ScoredTexts({"1": "..", "2": "a car </s>"}, {"1": ["nan"], "2": ["a", "a"]})
    found = scored.warnings()
    assert any("1 of 2 captions hold no word" in line for line in found)
    assert any("</s>" in line for line in found)
    assert any("1 of 3 references hold" in line and "'nan'" in line for line in found)
