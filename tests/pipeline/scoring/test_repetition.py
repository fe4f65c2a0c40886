"""Repeated captions are counted, warned of, and compared with the best constant caption."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair, write_pairs
from pipeline.scoring import repetition, table_notes
from pipeline.scoring.constant_baseline import best_of_references, lead
from pipeline.scoring.metrics import CiderD, cider_d, counted
from tests import project_params
from tests.running import succeed

TEXT = st.lists(st.sampled_from(["a", "red", "ball", "moved", "is", "gone"]), min_size=1, max_size=6).map(
    " ".join
)


def warned(*counts: int, changed: tuple[int, ...] = ()) -> bool:
    """Return True if captions that occur so many times give a warning; `changed`: those of changed pairs."""
    texts, changed_texts = (
        [f"caption {n}" for n, count in enumerate(own) for _ in range(count)] for own in (counts, changed)
    )
    ids = [str(n) for n in range(len(texts) + len(changed_texts))]
    captions = dict(zip(ids, texts + changed_texts, strict=True))
    members = {"change": ids[len(texts) :]} if changed else {}
    metrics = repetition.described(captions, members)
    return bool(repetition.warnings(json.loads(json.dumps(metrics))))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((20, *[1] * 80), False),  # the limit itself
        ((21, *[1] * 79), True),
        ((20,) * 5, False),
        ((19,) * 10, False),  # 10 of 190 are 5.3 %
        ((21,) * 10, True),  # 10 of 210 are 4.8 %
        ((2, 1, 1), False),  # a caption that occurs twice proves nothing
        ((3, 1), True),
        ((1,), False),
    ],
)
def test_the_limits(counts, expected):
    assert warned(*counts) == expected


def test_one_sentence_of_no_change_is_right_for_all_unchanged_pairs():
    assert not warned(100, changed=(1,) * 100)
    assert warned(*[1] * 100, changed=(30, *[1] * 70))


@given(st.lists(st.lists(TEXT, min_size=1, max_size=3), min_size=2, max_size=8))
def test_the_best_constant_has_the_highest_cider_d(lists):
    references = {str(n): texts for n, texts in enumerate(lists)}
    texts = [*dict.fromkeys(text for own in lists for text in own)]
    cider = CiderD(dict.fromkeys(references, texts[0]), references, counted({}, references))
    scores = [cider_d(dict.fromkeys(references, text), references) for text in texts]
    assert cider.of_constants(texts) == pytest.approx(scores, abs=1e-9)
    best = best_of_references(references)
    assert scores[texts.index(best)] == pytest.approx(max(scores), abs=1e-9)


def test_of_unlike_sentences_the_commonest_words_are_tried(monkeypatch):
    monkeypatch.setattr("pipeline.scoring.constant_baseline.CANDIDATES", 1)
    references = {str(n): [f"the car {n} is gone"] for n in range(20)} | {"x": ["alone here"]}
    assert best_of_references(references).startswith("the car")


@pytest.mark.usefixtures("without_java")
def test_a_collapsed_model_is_named_below_the_table_and_in_the_files(tmp_path, capsys):
    project_params.write(tmp_path, score__tokeniser="none")
    pairs = [
        # words in all references have no weight in CIDEr-D, so three pairs have others
        Pair(f"{n}", f"{n}", "test", "a", "b", ("a ball moved",) if n < 6 else (f"cube {n} left",), "move")
        for n in range(9)
    ]
    pairs += [Pair(f"{n}_n", f"{n}", "test", "a", "b", ("no change",), "none") for n in range(9)]
    write_pairs(tmp_path / "pairs", pairs)
    said = {pair.pair_id: "a ball moved" if pair.changed else "no change" for pair in pairs}
    (tmp_path / "captions").write_text(json.dumps(said))
    capsys.readouterr()
    succeed(tmp_path, "score --captions captions --pairs pairs --out m.json --summary s.json")
    printed = capsys.readouterr().out
    assert "18 pairs scored; references: pairs, sha256 " in printed
    assert "changed pairs: distinct captions: 1 of 9 pairs; commonest: “a ball moved”, 100.0 %" in printed
    assert "warning: among the changed pairs, one caption has 100.0 %" in printed
    metrics, summary = (json.loads((tmp_path / name).read_text()) for name in ("m.json", "s.json"))
    assert metrics["best_constant_changed"]["caption"] == "a ball moved"
    assert metrics["best_constant_changed"]["CIDEr-D"] == metrics["change"]["CIDEr-D"]
    assert metrics["best_constant_changed"]["BLEU-4"] == metrics["change"]["BLEU-4"]
    counts = {"pairs": 18, "distinct": 2, "commonest": "a ball moved", "share": 0.5, "without_words": 0}
    assert metrics["repetition"] == counts
    assert (summary["pairs"], summary["left_out"], summary["distinct_captions"]) == (18, 0, 2)
    assert summary["commonest_share"] == 1.0
    assert metrics["scored"]["references_sha256"].startswith(summary["references_sha256"])
    assert table_notes.WORDS_ONLY in printed.replace("\n", " ")
    varied = {key: f"{text} {key}" for key, text in said.items()}
    (tmp_path / "captions").write_text(json.dumps(varied))
    succeed(tmp_path, "score --captions captions --pairs pairs --out other.json")
    assert table_notes.WARNING not in capsys.readouterr().out


def of_model(texts: list[str], references: dict[str, list[str]]) -> dict[str, object]:
    """Return the entries of metrics.json for a model's captions."""
    captions = dict(zip(references, texts, strict=True))
    best = best_of_references(references)
    grams = counted({"": best} | captions, references)
    own, constant = (
        CiderD(each, references, grams).scores(range(len(references)))
        for each in (captions, dict.fromkeys(references, best))
    )
    return {"best_constant": {"caption": best, **lead(own, constant)}}


REFERENCES = {str(n): [f"the {'red' if n % 2 else 'blue'} ball {n % 5} is gone"] for n in range(40)}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([own[0] for own in REFERENCES.values()], None),
        (["the red ball 1 is gone"] * 40, "within noise of"),
        (["the ball is gone"] * 40, "below"),
        (["x"] * 39 + ["the red ball 1 is gone"], "below"),
    ],
)
def test_captions_that_are_no_better_than_a_constant_give_a_warning(texts, said):
    lines = table_notes.of_captions(of_model(texts, REFERENCES))
    assert [line.split("are ")[1].split(" the best")[0] for line in lines] == ([said] if said else [])


def test_few_pairs_say_nothing_about_a_constant():
    few = dict([*REFERENCES.items()][:9])
    assert table_notes.of_captions(of_model(["x"] * 9, few)) == []


def test_captions_without_a_word_are_counted():
    described = repetition.described({"a": "", "b": "", "c": "gone"}, {"change": ["a", "c"]})
    assert [entry["without_words"] for entry in described.values()] == [2, 1]
    first, second, *_ = table_notes.of_captions(json.loads(json.dumps(described)))
    assert first.endswith("; 2 without a word")
    assert second.endswith("; 1 without a word")


def test_pairs_that_alternate_are_all_searched():
    """Changed and unchanged pairs take turns; the sentence of no change is the best constant caption."""
    references = {}
    for number in range(300):
        references[f"{number}.png"] = [f"the thing {number} is {number * 7} steps away from {number * 3}"]
        references[f"{number}.png_n"] = ["there is no change", f"as before {number}"]
    assert best_of_references(references) == "there is no change"
