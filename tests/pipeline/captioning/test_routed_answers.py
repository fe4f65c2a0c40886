"""An answer of a model with routers has the kind of change that they found."""

import numpy as np

from pipeline.captioning.pair_captioner import Answer
from pipeline.decoding.attention_maps import Attended

NO_MAPS = np.zeros((1, 0, 2, 2), np.float16)


def test_the_kind_and_its_probability_are_in_the_record_and_in_the_text():
    answer = Answer("a", 0.5, attended=Attended(("a",), NO_MAPS, kind="add", kind_probability=0.83126))
    assert answer.record == {
        "caption": "a",
        "probability": 0.5,
        "kind": "add",
        "kind_probability": 0.8313,
    }
    assert answer.text == "a  (probability 0.50)  (kind of change: add, 0.83)"


def test_other_models_and_withheld_captions_have_none():
    assert Answer("a", attended=Attended(("a",), NO_MAPS)).record == {"caption": "a"}
    assert Answer(None, reason="unlike").record == {"caption": None, "reason": "unlike"}
