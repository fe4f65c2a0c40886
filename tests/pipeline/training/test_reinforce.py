"""The reward phase: its mean gradient is the gradient of the expected reward, summed over all captions."""

from dataclasses import replace
from itertools import product
from unittest.mock import patch

import pytest
import torch

from models import Sizes, build
from models.common.trainable import Labels
from pipeline.compute.process_group import joined
from pipeline.config import recipe_file
from pipeline.datasets.schema import NO_CHANGE, Pair, exchanged
from pipeline.decoding.greedy import sample
from pipeline.judging.strict import judge
from pipeline.text.vocabularies import END, NULL, START, WordVocabulary
from pipeline.training import phases
from pipeline.training.reinforce import POLICY, SelfCritical, constant, log_probabilities, some_exchanged
from pipeline.training.sampling import Batch
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained
from tests import killed
from tests.killed import KilledError
from tests.models import test_conformance as conformance
from tests.pipeline.training.test_loop import recipe, same
from tests.spawned import spawn
from tests.tabletop_pairs import draw_pairs

UNCHANGED = Pair("x", "x", "train", "a", "b", ("x",), NO_CHANGE)
WORDS = WordVocabulary(("<NULL>", "<UNK>", "<START>", "<END>", "a", "b"), 4, True)
SETTINGS = {"reward": "random", "samples": 2, "baseline": "mean", "cross_entropy": 0.0, "both_ways": False}
EVERY = [row for row in product((END, 4, 5), repeat=3) if END not in row[:-1]]
EVERY += [(4, END, NULL), (5, END, NULL), (END, NULL, NULL)]  # all captions of at most three words


def tiny(dtype=torch.float64):
    torch.manual_seed(5)
    sizes = Sizes(3, (1, 2), len(WORDS), WORDS.longest, 4, 2, 1, 1, 4)
    model = build("subtraction", sizes, {"variant": "paper", "switches": {}, "dropout": 0.0}).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=dtype))
    return model


def encoded(model, pairs=1):
    random = torch.Generator().manual_seed(7)
    return model.encoding(torch.randn(2 * pairs, 3, 1, 2, generator=random, dtype=torch.float64)).chunk(2)


def reward(pairs, captions):
    """Return a different reward for each caption."""
    return [1.7 * caption.count("a") - 0.6 * len(caption) ** 0.5 + (caption == "b a") for caption in captions]


def by_hand(model, difference, words):
    """Return p(c), word after word, by a softmax over the words that may be written."""
    tokens, p = [START], 1.0
    for word in words:
        if word == NULL:
            break
        padded = torch.tensor([[*tokens, NULL]])
        shares = model.decoder(padded, difference).logits[0, -1][3:].softmax(-1)  # <END>, a, b
        p, tokens = p * shares[word - 3], [*tokens, word]
    return p


def gradients(model, value):
    model.zero_grad()
    value.backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def losses(model, words, settings, pairs=1, part=slice(None), log_p=None):
    """Return the losses of the phase for these sampled captions; `part` selects pairs of a batch."""
    log_p = torch.zeros(len(words)) if log_p is None else log_p
    objective = SelfCritical(reward, SETTINGS | settings, WORDS)
    before, after = (images[part] for images in encoded(model, pairs))
    batch = Batch(*[torch.empty(0)] * 4, parts=1, pairs=(UNCHANGED,) * len(before))
    with patch("pipeline.training.reinforce.sample", lambda *_: (words, log_p)):
        return objective(model, before, after, torch.tensor([[START, 4, END, NULL]]), batch, None)


@pytest.mark.parametrize(("samples", "baseline"), [(2, "mean"), (1, "greedy"), (2, "greedy")])
def test_the_mean_over_all_samples_is_the_gradient_of_the_expected_reward(samples, baseline):
    model = tiny()
    difference = model.difference(*encoded(model))
    chances = torch.stack([by_hand(model, difference, words) for words in EVERY])
    assert len(EVERY) == 15
    torch.testing.assert_close(chances.sum(), torch.tensor(1.0, dtype=torch.float64))
    captions = [WORDS.decode(words) for words in EVERY]
    expected = gradients(model, -(chances * torch.tensor(reward(None, captions))).sum())
    mean = 0.0
    for drawn in product(range(len(EVERY)), repeat=samples):
        words = torch.tensor([EVERY[number] for number in drawn])
        found = losses(model, words, {"samples": samples, "baseline": baseline})
        mean = mean + chances[list(drawn)].prod().detach() * found[POLICY]
    torch.testing.assert_close(gradients(model, mean), expected, rtol=1e-5, atol=1e-7)  # logits are float32
    # negative control: the gradient for a single caption differs
    one = gradients(model, losses(model, torch.tensor([EVERY[0]] * 2), {"baseline": "greedy"})[POLICY])
    assert not all(torch.allclose(a, b) for a, b in zip(one, expected, strict=True))


def test_captions_are_sampled_by_their_probability():
    model = tiny()
    difference = model.difference(*encoded(model))
    torch.manual_seed(0)
    drawn = [tuple(row) for row in sample(model, difference, 6000)[0].tolist()]
    width = len(drawn[0])
    with torch.no_grad():
        for words in EVERY:
            share = drawn.count(words[:width]) / len(drawn)
            assert abs(share - float(by_hand(model, difference, words))) < 0.02


def test_the_log_probability_of_a_sample_is_that_of_its_words():
    model = tiny()
    difference = model.difference(*encoded(model, 3))
    words, log_p = sample(model, difference, 20)
    assert log_p.std() > 0.1
    torch.testing.assert_close(log_p, log_probabilities(model, difference, words).detach())


@pytest.mark.parametrize("same", [[0], [0, 2], [0, 1, 2]])
def test_pairs_whose_samples_have_equal_rewards_add_nothing_to_the_gradient(same):
    model, words = tiny(), torch.tensor(EVERY[3:9]).view(3, 2, -1)
    words[same, 1] = words[same, 0]
    found = gradients(model, losses(model, words.flatten(0, 1), {}, 3)[POLICY])
    rewards = torch.tensor(reward(None, [WORDS.decode(row) for row in words.flatten(0, 1).tolist()])).view(
        3, 2
    )
    log_p = log_probabilities(model, model.difference(*encoded(model, 3)), words.flatten(0, 1)).view(3, 2)
    expected = gradients(model, -((rewards - rewards.flip(1)) * log_p).sum() / 6)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
    assert any(each.abs().sum() > 0 for each in found) is (len(same) < 3)


def test_measures_are_means_over_the_samples():
    model = tiny()
    words, log_p = torch.tensor([[4, 5, END], [END, NULL, NULL]]), torch.tensor([-1.5, -0.5])
    found = losses(model, words, {}, log_p=log_p)
    assert found["reward"] == pytest.approx(sum(reward(None, ["a b", ""])) / 2)
    assert found["sample_entropy"] == 1.0
    assert (found["sample_length"], found["sample_tells_change"]) == (2.0, 1.0)


@conformance.CASES
def test_every_model_has_the_phase(name, variant):
    model, B = conformance.built(name, variant), 4
    before, after = (model.encoding(images) for images in conformance.images(model, B))
    words = WordVocabulary(tuple(f"w{number}" for number in range(conformance.V)), conformance.LONGEST, True)
    objective = SelfCritical(constant, SETTINGS | {"baseline": "greedy", "cross_entropy": 0.1}, words)
    terms, measures = objective.names(model)
    batch = Batch(*[torch.empty(0)] * 4, parts=1, pairs=(UNCHANGED,) * B)
    labels = Labels(torch.tensor([1, 0, 1, 1]), kinds=torch.tensor([2, 5, 2, 4]))
    torch.manual_seed(1)
    with patch.object(objective, "reward", lambda pairs, captions: [len(text) / 9 for text in captions]):
        found = objective(model, before, after, conformance.captions(B), batch, labels)
    assert [*found] == [POLICY, *measures, *terms[1:]]
    assert len({*terms, *measures}) == len(terms) + len(measures)
    assert all(value.isfinite() for value in found.values())
    trained = [each for each in model.parameters() if each.requires_grad]
    grown = torch.autograd.grad(found[POLICY], trained, allow_unused=True)
    assert any(each is not None and each.abs().sum() > 0 for each in grown)


def share(folder):
    with joined() as ranks:
        torch.save(half(ranks.part(4)), folder / f"{ranks.rank}.pt")
        ranks.wait()


def half(part):
    """Return the losses, and then their gradients, of the pairs `part` of four pairs."""
    model, words = tiny(), torch.tensor(EVERY[3:11]).view(4, 2, -1)[part].flatten(0, 1)
    found = losses(model, words, {}, 4, part)
    return [x.detach() for x in found.values()] + gradients(model, found[POLICY])


@pytest.mark.slow
def test_shares_of_two_processes_add_up(tmp_path):
    spawn(share, 2, tmp_path)
    both = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    whole = half(slice(None))
    torch.testing.assert_close([a + b for a, b in zip(*both, strict=True)], whole)
    assert not torch.allclose(both[0][0], whole[0])


@pytest.fixture(scope="module")
def trained(prepared, tmp_path_factory):
    """Save random weights, from which the phase starts."""
    chosen, vocabulary = recipe(), prepared.vocabulary
    torch.manual_seed(0)
    model = recipe_file.build(chosen, chosen.sizes_for((6, 3, 3), len(vocabulary), vocabulary.longest))
    folder = tmp_path_factory.mktemp("trained") / "weights"
    about = Trained(chosen, 1, (6, 3, 3), len(vocabulary), vocabulary.longest, 1, 0.0)
    trained_model.save(folder, about, model.state_dict())
    return folder


def train(prepared, trained, folder, seed=1, scores=(1.0, 3.0, 2.0), killed_at=None, **changes):
    """Train the phase for twelve iterations."""
    own = SETTINGS | {"iterations": 12, "learning_rate": 1e-2, "validate_every": 4, "cross_entropy": 0.1}
    own |= {"references": 1, "partial_credit": 0.0, "false_alarm": 1.0} | changes
    chosen = replace(recipe(), phases=recipe().phases | {"reinforce": own})
    phase = phases.phase_of(chosen, phases.PhaseInputs(trained))
    history, model = killed.train(prepared, folder, chosen, phase, seed, scores, killed_at)
    return history, model.state_dict()


@pytest.mark.slow
@pytest.mark.parametrize("reward", ["random", "CIDEr-D", "agrees"])
def test_a_killed_phase_gives_the_same_bits_and_another_seed_others(prepared, trained, tmp_path, reward):
    whole, weights = train(prepared, trained, tmp_path / "whole", reward=reward)
    with pytest.raises(KilledError):
        train(prepared, trained, tmp_path / "killed", killed_at=2, reward=reward)
    resumed, again = train(prepared, trained, tmp_path / "killed", scores=(3.0, 2.0), reward=reward)
    assert same(weights, again)
    assert (whole.losses, whole.best_iteration) == (resumed.losses, resumed.best_iteration)
    _, others = train(prepared, trained, tmp_path / "other", seed=2, reward=reward)
    assert not same(weights, others)


@pytest.mark.slow
def test_with_a_constant_reward_only_the_cross_entropy_trains(prepared, trained, tmp_path):
    start, _ = trained_model.load(trained)
    _, alone = train(prepared, trained, tmp_path / "a", reward="constant", cross_entropy=0.0)
    _, kept = train(prepared, trained, tmp_path / "b", reward="constant")
    assert same(start.state_dict(), alone)
    assert not same(start.state_dict(), kept)


def test_half_of_the_pairs_are_exchanged_and_judged_by_the_reverse_change():
    # a moved object has moved in both directions
    pairs = tuple(pair for pair in draw_pairs(4, 60) if pair.change_type not in (NO_CHANGE, "move"))
    before = torch.arange(len(pairs), dtype=torch.float32)[:, None, None]
    torch.manual_seed(3)
    given, first, second = some_exchanged(pairs, before, before + 100)
    swapped = [one != other for one, other in zip(given, pairs, strict=True)]
    assert 0.25 < sum(swapped) / len(pairs) < 0.75
    assert (first[:, 0, 0] > 99).tolist() == swapped
    assert torch.equal(first + second, 2 * before + 100)
    for pair, other, swap in zip(pairs, given, swapped, strict=True):
        assert exchanged(exchanged(pair)) == pair
        assert judge(pair.captions[0], other).true is not swap
        assert not swap or (other.before, other.after) == (pair.after, pair.before)
    added = next(pair for pair in pairs if pair.change_type == "add")
    caption = next(text for text in added.captions if text.endswith("has been added"))
    assert judge(caption.replace("has been added", "is gone"), exchanged(added)).true
