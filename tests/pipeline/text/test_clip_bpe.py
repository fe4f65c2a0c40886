"""CLIP's BPE against OpenAI's own program, and CLIP's vocabulary with our special tokens."""

import gzip
import importlib.util
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.decoding.attention_maps import attended
from pipeline.io.errors import InputError
from pipeline.text import clip_bpe, vocabularies
from pipeline.text.clip_bpe import FILE, MARKS, bpe
from pipeline.text.vocabularies import END, NULL, START, ClipVocabulary
from stages.vocab import make_vocabulary
from tests import project_params

PACKAGE = Path(find_spec("clip").origin).parent


@pytest.fixture(scope="module")
def published():
    """Return OpenAI's own tokeniser, without the rest of its package."""
    spec = importlib.util.spec_from_file_location("simple_tokenizer", PACKAGE / "simple_tokenizer.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with gzip.open(PACKAGE / FILE) as file:
        module.gzip = type("Read", (), {"open": staticmethod(lambda _: file)})
        return module.SimpleTokenizer()


def test_published_ids():
    assert bpe().encode("a photo of a cat") == [320, 1125, 539, 320, 2368]
    assert bpe().names[49_406:] == MARKS


def test_a_text_has_no_marks():
    start, end = bpe().names.index(MARKS[0]), bpe().names.index(MARKS[1])
    assert bpe().text([start, *bpe().encode("photo"), end]) == "photo"


@given(st.text().filter(lambda text: not any(mark in text.lower() for mark in clip_bpe.MARKS)))
def test_any_text_has_the_ids_of_the_published_program(published, text):
    assert bpe().encode(text) == published.encode(text)


@given(st.lists(st.sampled_from(["the", "cube's", "café", "1", "unbelievable"])))
def test_round_trip(words):
    vocabulary = ClipVocabulary(200)
    tokens = vocabulary.encode(" ".join(words))
    assert (tokens[0], tokens[-1]) == (START, END)
    wanted = " ".join(words).replace("cube's", "cube 's")
    assert vocabulary.decode([*tokens, NULL, 7]) == wanted


def test_ids_are_those_of_clip_except_for_the_marks(published):
    vocabulary = ClipVocabulary(20)
    assert published.encode("#$x") != published.encode("$#x")
    for text in ("#$x", "$#x", "a cube"):
        ids = [vocabularies.exchanged(token) for token in vocabulary.encode(text)]
        assert ids == [49_406, *published.encode(text), 49_407]
    assert [vocabularies.exchanged(vocabularies.exchanged(n)) for n in range(49_408)] == list(range(49_408))


def test_captions_are_cut_and_keep_their_end():
    vocabulary = vocabularies.of_clip(["one two three", "a " * 50])
    assert vocabulary.longest == 33
    assert vocabularies.of_clip(["a " * 50], max_tokens=12).longest == 12
    assert vocabularies.of_clip(["one two three"]).longest == 5
    tokens = vocabulary.encode("a " * 50)
    assert len(tokens) == 33
    assert tokens[-1] == END


def test_a_words_map_is_the_mean_of_its_tokens():
    vocabulary = ClipVocabulary(30)
    tokens = vocabulary.encode("a xylophonist moved")[1:]
    maps = np.random.default_rng(0).random((len(tokens), 1, 2, 3)).astype(np.float16)
    found = attended(vocabulary.pieces(tokens), maps)
    assert found.caption == "a xylophonist moved"
    assert len(tokens) > 4
    np.testing.assert_allclose(found.maps[1], maps[1 : len(tokens) - 2].astype(float).mean(0), atol=1e-3)
    assert np.array_equal(found.maps[[0, 2]], maps[[0, len(tokens) - 2]])
    assert attended(vocabulary.pieces([END]), maps).maps.shape == (0, 1, 2, 3)


def test_settings_choose_the_tokeniser(monkeypatch):
    everything = project_params.settings()
    text = everything.text.model_copy(update={"tokeniser": "clip_bpe"})
    assert make_vocabulary(
        everything.model_copy(update={"text": text}), "tabletop", ["a cube"]
    ) == ClipVocabulary(4)
    other = everything.model_copy(update={"text": text.model_copy(update={"tokeniser": "words"})})
    assert len(make_vocabulary(other, "tabletop", ["a cube"])) == 6
    own = everything.of("tabletop")
    named = own.model_copy(update={"text": own.text.model_copy(update={"vocabulary": "words.json"})})
    wrong = everything.model_copy(update={"text": text, "dataset": {"tabletop": named}})
    with pytest.raises(InputError, match=r"clip_bpe, which needs dataset\.tabletop\.text\.vocabulary"):
        make_vocabulary(wrong, "tabletop", ["a cube"])
    monkeypatch.setattr(clip_bpe, "find_spec", lambda _: None)
    with pytest.raises(InputError, match="install the package clip-anytorch"):
        clip_bpe.merges()
