"""Hashes of references are equal for equal references in any order and form, and only for those."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.scoring import conditions
from pipeline.scoring.conditions import Conditions, Scope

WORD = st.text("ab", min_size=1, max_size=3)
SENTENCE = st.lists(WORD, min_size=1, max_size=4)
REFERENCES = st.dictionaries(WORD, st.lists(SENTENCE, min_size=1, max_size=4), min_size=1, max_size=5)


@given(REFERENCES, st.randoms(use_true_random=False))
def test_order_and_white_space_change_no_hash(references, random):
    plain = {key: [" ".join(words) for words in texts] for key, texts in references.items()}
    keys = random.sample([*plain], len(plain))
    other = {key: [f"  {'  '.join(words)} \n" for words in references[key]] for key in keys}
    for texts in other.values():
        random.shuffle(texts)
        texts.append(" ")
    hashes = conditions.of_pairs(plain)
    assert conditions.of_pairs(other) == hashes
    assert conditions.of_all(conditions.of_pairs(other)) == conditions.of_all(hashes)


@given(REFERENCES, WORD)
def test_any_other_word_id_or_count_changes_the_hash(references, word):
    plain = {key: [" ".join(words) for words in texts] for key, texts in references.items()}
    key = next(iter(plain))
    hashes = conditions.of_pairs(plain)
    for texts in ([*plain[key], word], [f"{plain[key][0]} {word}", *plain[key][1:]]):
        other = conditions.of_pairs(plain | {key: texts})
        assert [name for name in plain if other[name] != hashes[name]] == [key]
        assert conditions.of_all(other) != conditions.of_all(hashes)
    renamed = {f"{name}x": value for name, value in hashes.items()}
    assert conditions.of_all(renamed) != conditions.of_all(hashes)


def test_pairs_left_out_are_counted_with_their_reasons():
    scope = Scope(Conditions(tokeniser="ptb"), "r.json", {"without a caption": 3, "without words": 0, "x": 2})
    found = scope.described({"a": "1", "b": "2"})
    assert (found["pairs"], found["left_out"], found["left_out_because"]) == (
        2,
        5,
        "3 without a caption; 2 x",
    )
    assert found["references"] == "r.json"
    assert found["references_sha256"] == conditions.of_all({"b": "2", "a": "1"})
