"""What is said of captions whose words are not what their writer expects."""

import pytest

from pipeline.datasets.counts import notes
from pipeline.scoring import tokenizer

UNSPACED = ["一辆红色的汽车离开了停车场", "赤い車がなくなった", "รถสีแดงหายไปแล้ว"]


@pytest.mark.parametrize("caption", UNSPACED)
def test_words_without_spaces_between_them(caption):
    (said,) = notes(["a car left", caption], lower_case=True)
    assert said.startswith("1 captions")
    assert caption in said
    assert notes([" ".join(caption[n : n + 2] for n in range(0, len(caption), 2))], lower_case=True) == []


@pytest.mark.slow
def test_coco_s_tokeniser_leaves_them_whole():
    assert tokenizer.tokenize(UNSPACED[:1]) == UNSPACED[:1]


@pytest.mark.parametrize("word", ["left!", "“left", "left!”", "(left)", "left:", '"left"', "«left»", "Left—"])
def test_words_with_signs_at_their_edges(word):
    (said,) = notes([f"a car {word}", "a man left, gone"], lower_case=True)
    assert word.lower() in said


@pytest.mark.parametrize(
    "caption", ["a car left.", "it left, and left; gone?", "naïve café, 2 cars", "新 车"]
)
def test_nothing_is_said_of_what_is_cut_as_expected(caption):
    assert notes([caption, "it left"], lower_case=True) == []
