"""Both readers make the same claims of a sentence of the grammar, so both are judged alike."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.schema import NO_CHANGE
from pipeline.free_english import reader
from pipeline.judging import strict
from pipeline.judging.claims import UNREADABLE
from pipeline.judging.scene import judged_by_scene
from pipeline.judging.verdicts import FAULTS, INVENTED, SILENT, UNPARSED, marks, verdict
from pipeline.tabletop import words
from tests.pipeline.free_english.scenes import SCENES
from tests.tabletop_pairs import draw_pairs


@pytest.fixture(scope="module")
def pairs():
    return draw_pairs(seed=41, count=60)


def content(claim):
    """Return the claim without its words, and with its attributes in a fixed order."""
    subject = claim.subject and replace(
        claim.subject,
        look=tuple(sorted(claim.subject.look)),
        places=tuple(
            replace(
                place, others=tuple(replace(other, look=tuple(sorted(other.look))) for other in place.others)
            )
            for place in claim.subject.places
        ),
    )
    return replace(claim, subject=subject, text="", parts=())


def test_both_readers_make_the_same_claim_of_a_sentence(pairs):
    captions = [caption for pair in pairs if pair.changed for caption in pair.captions]
    for caption in captions:
        (free,) = reader.read(caption)
        assert content(strict.read(caption)) == content(free), caption
    assert len(captions) > 300


def test_every_fault_is_found_and_its_words_are_marked(pairs):
    """Captions of other pairs have all faults that a readable caption can have."""
    changed = [pair for pair in pairs if pair.changed]
    found = set()
    for pair, other in product(changed[::2], changed):
        for caption in pair.captions:
            judged = verdict(caption, judged_by_scene([strict.read(caption)], other))
            found |= {*judged.faults}
            assert any(marks(caption.split(), judged.wrong)) == bool(judged.faults), caption
            assert all(phrase.strip() in caption for phrase in judged.wrong)
    assert found == {*FAULTS} - {SILENT, INVENTED, UNPARSED}


@pytest.mark.parametrize("noun", words.ANY_SHAPE)
@pytest.mark.parametrize("verb", words.VERB_PHRASES)
def test_a_sentence_about_a_change_never_reports_no_change(noun, verb):
    """So it does not matter whether a reader looks for the sentence or for "no change" first."""
    for place in ("", *(f" that is {relation} the {noun}" for relation in strict.SIDES)):
        caption = f"the {noun}{place} {verb}"
        assert not strict.says_no_change(caption)
        assert strict.read(caption).kind not in (UNREADABLE, NO_CHANGE)


WORDS = st.sampled_from([*strict.MEANING, "the", "that is", "behind", "became", "is gone", "THE", "."])


@given(st.text() | st.lists(WORDS).map(" ".join))
def test_any_other_text_is_one_claim_with_the_whole_text(text):
    claim = strict.read(text)
    assert claim.text == text or strict.GRAMMAR.fullmatch(" ".join(text.split()).rstrip(" ."))
    assert verdict(text, judged_by_scene([claim], SCENES["color"])).true is False
