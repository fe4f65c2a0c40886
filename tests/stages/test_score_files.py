"""The stage `score` with files of other programs: their ids, their references and what they left in texts."""

import json
import unicodedata

import pytest

from pipeline.datasets import manifest
from pipeline.datasets.manifest import Manifest
from pipeline.datasets.schema import Pair, write_pairs

pytestmark = pytest.mark.usefixtures("made_up_meteor")
TEXTS = {"7": "the café is gone", "12": "the red car left the street"}


@pytest.fixture
def score(tmp_path, leaves):
    """Score captions (id -> text) against references; return the exit code, both outputs and the metrics."""

    def run(captions, *arguments, references=None):
        (tmp_path / "captions.json").write_text(
            json.dumps([{"image_id": key, "caption": text} for key, text in captions.items()])
        )
        if references is not None:
            (tmp_path / "references.json").write_text(json.dumps(references))
            arguments = ("--references", str(tmp_path / "references.json"), "--tokeniser", "none", *arguments)
        out = tmp_path / "out.json"
        out.unlink(missing_ok=True)
        code, said, err = leaves(
            "score", "--captions", str(tmp_path / "captions.json"), *arguments, "--out", str(out)
        )
        return code, said, err, json.loads(out.read_text()) if out.exists() else None

    return run


def test_two_forms_of_a_letter_have_one_score(score):
    references = {key: [text] for key, text in TEXTS.items()}
    of_form = []
    for form in ("NFC", "NFD"):
        captions = {key: unicodedata.normalize(form, text) for key, text in TEXTS.items()}
        code, _, err, metrics = score(captions, references=references)
        assert code == 0, err
        of_form.append(metrics["total"])
    assert of_form[0] == of_form[1]
    assert of_form[0]["BLEU-1"] == pytest.approx(1)


def test_captions_without_words_and_with_special_tokens_are_counted(score):
    captions = {"7": "\x01\x02", "12": "the red car left </s>"}
    code, _, err, metrics = score(captions, references={"7": ["左边的红色汽车不见了"], "12": ["a car"]})
    assert (code, metrics is None) == (0, False)
    for part in ("1 of 2 captions hold no word", "'</s>', 12", "1 of 2 references hold words without spaces"):
        assert part in err


def test_ids_of_references_that_differ_in_zeros_and_endings(score):
    code, said, err, metrics = score({"0007.png": "x y", "12.0": "z"}, references={"7": ["x y"], "12": ["z"]})
    assert code == 0, err
    assert "'0007.png' is '7'" in said
    assert metrics["exact_match"] == 1.0
    code, _, err, _ = score({"000007": "x"}, "--predicted-only", references={"8": ["x"]})
    assert code == 2
    assert all(name in err for name in ("captions.json", "references.json", "'000007'", "'8'"))


def test_one_option_leaves_out_what_has_no_reference(score):
    references = {"7": ["x y"], "12": [""], "13": ["a b"]}
    captions = {"7": "x y", "12": "z", "13": "a b", "99": "surplus"}
    code, _, err, _ = score(captions, references=references)
    assert code == 2
    assert "99" in err
    assert "--referenced-only" in err
    del captions["99"]
    code, _, err, _ = score(captions, references=references)
    assert code == 2
    assert "--referenced-only" in err
    assert "\n  12\n" in err
    code, said, err, metrics = score(captions | {"99": "x"}, "--referenced-only", references=references)
    assert code == 0, err
    assert "1 ids" in said
    assert "1 captions" in said
    assert metrics["exact_match"] == 1.0


def test_captions_of_pairs_that_prepare_left_out_are_ignored(score, tmp_path):
    def pair(key):
        return Pair(key, key, "test", f"i/{key}.png", f"i/{key}_2.png", (TEXTS[key],))

    path = tmp_path / "pairs.jsonl"
    write_pairs(path, [pair(key) for key in TEXTS])
    left_out = {"test": {"8": ("i/8.png", "i/8_2.png")}}
    record = Manifest(
        "spot_the_diff", "merged", {}, {}, {manifest.PAIRS: manifest.content_hashes.file_hash(path)}, left_out
    )
    manifest.write(tmp_path / "pairs.manifest.json", record)
    captions = {f"{key.zfill(6)}.png": text for key, text in TEXTS.items()} | {"000008.png": "x"}
    arguments = ("--pairs", str(path), "--tokeniser", "none")
    code, said, err, metrics = score(captions, *arguments)
    assert code == 0, err
    assert "1 captions of" in said
    assert "000008.png" in said
    assert metrics["exact_match"] == 1.0
    code, said, err, metrics = score(captions | {"x1": "a", "x2": "b"}, *arguments)
    assert (code, metrics) == (2, None)
    assert "'x1'" in err
    assert "'x2'" in err
    code, said, err, metrics = score(captions | {"x1": "a", "x2": "b"}, *arguments, "--referenced-only")
    assert code == 0, err
    assert "2 captions of" in said
