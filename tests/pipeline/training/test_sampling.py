"""Batches of scenes: seeds, epochs, exchanged images, and the tensors of a batch."""

from dataclasses import replace

import pytest

from pipeline.datasets.schema import Pair, SceneFacts, of_split
from pipeline.io.errors import InputError
from pipeline.training.sampling import exchange, scenes_of, training_batches
from tests.samplers import sampler_of


def scene(number):
    shared = {"scene_id": str(number), "split": "train", "before": f"d{number}"}
    return [
        Pair(f"{number}", after=f"s{number}", captions=("c0", "c1", "c2"), change_type="add", **shared),
        Pair(f"{number}_n", after=f"n{number}", captions=("n0", "n1"), change_type="none", **shared),
    ]


PAIRS = [pair for number in range(10) for pair in scene(number)]


def test_an_epoch_draws_every_scene_once():
    sampler = sampler_of(PAIRS, batch=5, seed=1, exchanging=False)
    drawn = [s[0].scene_id for iteration in (0, 1) for s in sampler.draw(iteration)[0]]
    assert sorted(drawn, key=int) == [str(n) for n in range(10)]
    again = [s[0].scene_id for iteration in (2, 3) for s in sampler.draw(iteration)[0]]
    assert sorted(again) == sorted(drawn)
    assert again != drawn


def test_the_seed_decides_the_batches():
    first, same, other = (sampler_of(PAIRS, 5, seed, True) for seed in (1, 1, 2))
    assert [first.draw(i) for i in range(6)] == [same.draw(i) for i in range(6)]
    assert [first.draw(i) for i in range(6)] != [other.draw(i) for i in range(6)]


def test_exchange_changes_both_pairs():
    change, no_change = exchange(tuple(scene(0)))
    assert (change.before, change.after) == ("n0", "s0")
    assert (no_change.before, no_change.after) == ("n0", "d0")
    assert change.captions == ("c0", "c1", "c2")


def test_known_cameras_follow_the_exchanged_images():
    def seen(pair, before, after):
        return replace(pair, scene=SceneFacts((), (), before, after, None))

    default, changed, distractor = (0.0, 0.0, 5.0), (1.0, 0.0, 5.0), (0.0, 1.0, 5.0)
    change, no_change = scene(0)
    turned = exchange((seen(change, default, changed), seen(no_change, default, distractor)))
    cameras = [(each.scene.before_camera, each.scene.after_camera) for each in turned]
    assert cameras == [(distractor, changed), (distractor, default)]


def test_half_of_the_scenes_are_exchanged_and_all_captions_are_drawn():
    sampler = sampler_of(PAIRS, batch=10, seed=1, exchanging=True)
    scenes, captions = zip(*(sampler.draw(i) for i in range(40)), strict=True)
    turned = sum(s[0].before.startswith("n") for drawn in scenes for s in drawn)
    assert 150 < turned < 250
    found = {text for drawn in captions for texts in drawn for (text,) in texts}
    assert found == {"c0", "c1", "c2", "n0", "n1"}


@pytest.mark.parametrize(("number", "changed", "unchanged"), [(1, 1, 1), (2, 2, 2), (3, 3, 2)])
def test_several_captions_of_a_pair_differ(number, changed, unchanged):
    sampler = sampler_of(PAIRS, batch=10, seed=1, exchanging=False, references=number)
    chosen, captions = sampler.draw(0)
    for scene, several in zip(chosen, captions, strict=True):
        assert [len(texts) for texts in several] == [number, number]
        different = [len(set(texts)) for texts in several]
        assert different == [changed, unchanged]  # an unchanged pair has only two captions
        assert all(set(texts) <= set(pair.captions) for texts, pair in zip(several, scene, strict=True))
    assert len({several[0][0] for several in captions}) > 1  # not always the first one


def test_a_batch_larger_than_the_split_is_refused():
    with pytest.raises(InputError, match=r"train\.batch is 11 scenes"):
        sampler_of(PAIRS, batch=11, seed=1, exchanging=True)


def test_scenes_with_different_numbers_of_pairs_become_single_pairs():
    assert len(scenes_of(PAIRS)) == 10
    assert len(scenes_of(PAIRS[:-1])) == 19


def test_scenes_with_other_numbers_of_pairs_are_named():
    note = sampler_of(PAIRS[:-1], 5, 1, False).note
    assert all(words in note for words in ("'9' has 1 training pair", "'0' has 2", "train.batch"))
    assert sampler_of(PAIRS, 5, 1, False).note is None
    assert sampler_of(PAIRS[::2], 5, 1, False).note is None  # one pair a scene


@pytest.mark.parametrize("references", [1, 3])
def test_a_batch_holds_the_features_and_words_of_its_pairs(prepared, references):
    sampler = sampler_of(of_split(prepared.pairs, "train"), 4, 3, exchanging=True, references=references)
    drawn = training_batches(sampler, prepared.store, prepared.vocabulary, range(3))
    for iteration, batch in enumerate(drawn):
        scenes, captions = sampler.draw(iteration)
        assert batch.parts == 2
        assert len(batch.images) == 3 * 4  # both pairs of a scene have the same before image
        for p in range(2):
            for row in range(4):
                pair, place = scenes[row][p], 4 * p + row
                before, after = (batch.images[rows[place]].numpy() for rows in (batch.before, batch.after))
                assert (before == prepared.store.read([pair.before])[0]).all()
                assert (after == prepared.store.read([pair.after])[0]).all()
                for number, text in enumerate(captions[row][p]):
                    words = prepared.vocabulary.encode(text)
                    tokens = batch.tokens[references * place + number]
                    assert tokens[: len(words)].tolist() == words
                    assert not tokens[len(words) :].any()
