"""Text that a program wrote where a person's was expected, and letters in two forms."""

import html
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.scoring import tokenizer
from pipeline.text import caption_text, vocabularies
from pipeline.text.caption_text import (
    ENCODING,
    ENTITY,
    ESCAPE,
    FORM,
    INVISIBLE,
    LIST,
    MISSING,
    NO_WORD,
    NUMBER,
    SPACES,
    TAG,
    findings,
)

WORDS = st.lists(st.sampled_from(["the", "red", "dog's", "car", "left", "café", "naïve", "3"]), min_size=1)
SENTENCES = WORDS.map(lambda words: "a " + " ".join(words) + " is gone")


@given(st.lists(SENTENCES, min_size=1), st.sampled_from([str, tuple, set]))
def test_a_list_as_text_is_named(sentences, form):
    text = str(sentences) if form is str else str(form(sentences))
    assert findings(text)[LIST] == text
    assert LIST in caption_text.refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "['a car' 'a bus']",
        "array(['a car'], dtype=object)",
        '{"caption": "a car"}',
        "b'a car'",
        "[a car left, a bus came]",
        "[['a car left', 5.0]]",
        " ['a car'] ",
    ],
)
def test_other_forms_of_lists(text):
    assert LIST in findings(text)


@pytest.mark.parametrize(
    "text", ["nan", "NaN", "None", "null", "N/A", "<NA>", " nan ", "None.", "NULL", "None" + "." * 30]
)
def test_a_missing_value_is_named(text):
    assert MISSING in findings(text)
    assert caption_text.refusal(text)


@given(SENTENCES, st.sampled_from(["&", "<", '"', "'"]))
def test_entities(sentence, mark):
    assert not findings(f"{sentence} {mark} on")
    assert ENTITY in findings(f"{sentence} {html.escape(mark)} on")


@given(
    SENTENCES,
    st.sampled_from("\u200b\u200d\u2060\ufeff\u00ad\u200e\u202e\u2066\x00\x08\x7f\u3164\u2800"),
    st.data(),
)
def test_invisible_characters(sentence, character, data):
    place = data.draw(st.integers(0, len(sentence)))
    text = sentence[:place] + character + sentence[place:]
    assert findings(text)[INVISIBLE] == f"U+{ord(character):04X}"


@given(
    SENTENCES,
    st.sampled_from(
        ["</s>", "<s>", "<|im_end|>", "<END>", "<NULL>", "<pad>", "[SEP]", "[PAD]", "<br/>", "<eot_id>"]
    ),
)
def test_special_tokens(sentence, token):
    assert findings(f"{sentence} {token}") == {TAG: token}
    assert findings(f"{token}{sentence}") == {TAG: token}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("▁the▁car▁left", TAG),
        ("theĠcarĠleft", TAG),
        ("the car ##s left", TAG),
        ("the car\\nis gone", ESCAPE),
        ("the caf\\u00e9 is gone", ESCAPE),
        ("1.0", NUMBER),
        ("True", NUMBER),
        ("the cafÃ© is gone", ENCODING),
        ("the caf\ufffd is gone", ENCODING),
        ("the \u0441ar is gone", FORM),  # a Cyrillic letter
        ("the \ufb01re is out", FORM),
        ("\x01\x02 ...", NO_WORD),
        ("", NO_WORD),
        ("." * 30, NO_WORD),
        ("左边的红色汽车不见了", SPACES),
        ("没有变化。", SPACES),
        ("赤い車がなくなった", SPACES),
        ("รถสีแดงหายไปแล้ว", SPACES),
    ],
)
def test_other_kinds(text, kind):
    assert kind in findings(text)
    assert caption_text.refusal(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "the car (the red one) is gone",
        "cars < 3 > 2, at #5 & R&D",
        "“the car” — it’s gone",
        "the café is naïve",
        "das Auto ist weg; größer",
        "машина уехала",
        "ماشین\u200cها رفته\u200cاند",  # Persian, with its joiners
        "👨\u200d👩\u200d👧 left",
        "左边 的 汽车 不见 了",
        "the sign 出口 is gone",
        "차가 사라졌습니다",
        "nobody is there, none of them",
        "3 people are gone",
    ],
)
def test_captions_of_persons_have_no_findings(text):
    assert findings(text) == {}


@given(st.text())
def test_any_text_has_one_form(text):
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD")]
    assert len({caption_text.normalised(form) for form in forms}) == 1
    for lower in (True, False):
        assert vocabularies.tokenise(forms[0], lower) == vocabularies.tokenise(forms[1], lower)
    assert tokenizer.one_line(forms[0]) == tokenizer.one_line(forms[1])
    assert findings(text).keys() <= caption_text.REMEDIES.keys()


def test_words_of_two_forms_are_one_word():
    captions = [unicodedata.normalize(form, "the café left") for form in ("NFC", "NFD")]
    vocabulary = vocabularies.build(captions, min_count=1, lower_case=True)
    assert vocabulary.words[4:] == ("café", "left", "the")
    assert vocabularies.of_clip([captions[1]]).encode(captions[0]) == vocabularies.of_clip(
        [captions[1]]
    ).encode(captions[1])


def test_warnings_count_each_kind():
    captions = {"a": "nan", "b": "the car </s>", "c": "a car left", "d": "nan", "e": "\x1b[2J"}
    found = caption_text.warnings(captions.items(), "references")
    assert [line.partition(" (")[0] for line in found] == [
        f"2 of 5 references hold {MISSING}",
        f"1 of 5 references hold {TAG}",
        f"1 of 5 references hold {INVISIBLE}",
    ]
    assert "\x1b" not in "".join(found)
    assert caption_text.warnings([]) == []
