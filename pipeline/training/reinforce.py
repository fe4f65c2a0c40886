"""Self-critical sequence training, a phase after captioning that raises the captions' expected reward.

Rennie et al., "Self-critical sequence training for image captioning", CVPR 2017. For a pair x, K captions
c_k ~ p(c | x) are sampled word by word. p covers only the words that decoding may write. With rewards r_k,
which are between 0 and 1 (CIDEr-D: 0 to 10),

    L_policy = -1/K sum_k (r_k - b_k) log p(c_k | x),    log p(c | x) = sum_t log p(w_t | w_<t, x)

The baseline b_k does not depend on c_k. So the gradient of L_policy is an unbiased estimate of the negative
gradient of the expected reward (their Eq. 7). `baseline: mean`: b_k is the mean reward of the other K - 1
samples. `baseline: greedy`: b_k is the reward of the greedy caption (their Eq. 8). The phase minimises
L_policy + `cross_entropy` * (L_cap + the model's other weighted terms).

B: pairs; K: samples per pair; L: words per caption; N: cells of an image; D: width; R: references per pair.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from models.common.captioner import Captioner, Difference
from models.common.distributed_batch import total
from models.common.packing import of_captions
from models.common.trainable import Labels, Trainable
from pipeline.compute import devices
from pipeline.datasets.schema import NO_CHANGE, Pair, exchanged
from pipeline.decoding.greedy import evaluating, greedy, sample
from pipeline.io.errors import InputError
from pipeline.judging.no_change import says_no_change, sentences_of
from pipeline.judging.strict import agrees, judge
from pipeline.scoring import metrics
from pipeline.scoring.metrics import cider_is_zero, document_frequencies
from pipeline.text.vocabularies import START, Vocabulary
from pipeline.training import compiling
from pipeline.training.sampling import Batch

Tokenize = Callable[[list[str]], list[str]]
Reward = Callable[[Sequence[Pair], Sequence[str]], list[float]]
"""Function that returns the reward of each caption; pairs[i] belongs to captions[i]."""


def truth(
    pairs: Sequence[Pair], captions: Sequence[str], partial_credit: float, false_alarm: float
) -> list[float]:
    """Return a reward for each caption: 1 if the caption is true for the scene of its pair.

    A false caption of a changed pair has the reward `partial_credit` ** n. Here n is the number of its
    faults: different false parts, such as the colour or the kind of change (judging.verdicts.FAULTS).
    A false caption of an unchanged pair (a false alarm) has the reward 1 - `false_alarm`.
    """
    rewards = []
    for pair, caption in zip(pairs, captions, strict=True):
        verdict = judge(caption, pair)
        assert verdict is not None  # reward_of checked that the scenes are known
        unchanged = pair.change_type == NO_CHANGE
        false_reward = 1.0 - false_alarm if unchanged else float(partial_credit ** len(verdict.faults))
        rewards.append(1.0 if verdict.true else false_reward)
    return rewards


def agreement(pairs: Sequence[Pair], captions: Sequence[str], false_alarm: float) -> list[float]:
    """Return a reward for each caption: 1 if the caption agrees with its references (judging/strict.py).

    Any other caption has the reward 0 for a changed pair, and 1 - `false_alarm` for an unchanged pair.
    `false_alarm`, from 0 to 1, is the cost of reporting a change that is not there.
    """
    rewards = []
    for pair, caption in zip(pairs, captions, strict=True):
        false_reward = 1.0 - false_alarm if pair.change_type == NO_CHANGE else 0.0
        rewards.append(1.0 if agrees(caption, pair) else false_reward)
    return rewards


class CiderReward:
    """Reward CIDEr-D, from 0 to 10, with the document frequencies of the training references.

    `tokenize` is the tokeniser for the references. The model's captions are not tokenised, because they
    consist of words of the vocabulary.
    """

    def __init__(self, pairs: Sequence[Pair], tokenize: Tokenize):
        sentences = iter(tokenize([caption for pair in pairs for caption in pair.captions]))
        self.references = {pair.pair_id: [next(sentences) for _ in pair.captions] for pair in pairs}
        self.documents = document_frequencies(self.references), len(self.references)

    def __call__(self, pairs: Sequence[Pair], captions: Sequence[str]) -> list[float]:
        own = {str(number): caption for number, caption in enumerate(captions)}  # a pair has several captions
        references = {number: self.references[pair.pair_id] for number, pair in zip(own, pairs, strict=True)}
        cider = metrics.CiderD(own, references, metrics.counted(own, references), self.documents)
        return [float(value) for value in cider.scores(range(len(own)))]


def random(pairs: Sequence[Pair], captions: Sequence[str]) -> list[float]:
    return torch.randint(2, (len(captions),)).double().tolist()


def constant(pairs: Sequence[Pair], captions: Sequence[str]) -> list[float]:
    """Return 1 for every caption, a control: minus the baseline it is 0, so L_policy has no gradient."""
    return [1.0] * len(captions)


def reward_of(settings: Mapping[str, Any], pairs: Sequence[Pair], tokenize: Tokenize) -> Reward:
    """Return the reward that the settings name, and check that it is not 0 by definition for these pairs."""
    match settings["reward"]:
        case "truth":
            if unknown := next((pair.pair_id for pair in pairs if pair.scene is None), None):
                raise InputError(f"reinforce.reward: truth needs the scene of {unknown}; set it to CIDEr-D")
            costs = {name: settings[name] for name in ("partial_credit", "false_alarm")}
            return partial(truth, **costs)
        case "agrees":
            return partial(agreement, false_alarm=settings["false_alarm"])
        case "CIDEr-D":
            reward = CiderReward(pairs, tokenize)
            if cider_is_zero(reward.references):
                raise InputError(
                    "reinforce.reward: CIDEr-D is 0 by definition over fewer than 2 distinct sets of "
                    "references, as in the split train; set it to agrees, or add training pairs"
                )
            return reward
        case "random":
            return random
    return constant


POLICY = "policy"
# not plain `entropy`: DUDA and VARD have a loss term of this name
MEASURES = ("reward", "sample_entropy", "sample_length", "sample_tells_change")


class SelfCritical:
    """Objective of the reward phase: losses and measures.

    The measures are means over the samples: the reward; the entropy, -log p(c) in nats; the length in words,
    with <END>; and the share of captions that report a change.
    """

    def __init__(self, reward: Reward, settings: Mapping[str, Any], vocabulary: Vocabulary):
        self.reward, self.vocabulary = reward, vocabulary
        self.samples, self.baseline = settings["samples"], settings["baseline"]
        self.supervised: bool = settings["cross_entropy"] > 0
        self.both_ways: bool = settings["both_ways"]

    def names(self, model: Trainable) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (POLICY, *(model.terms if self.supervised else ())), MEASURES

    def __call__(
        self, model: Any, before: Tensor, after: Tensor, tokens: Tensor, batch: Batch, labels: Labels | None
    ) -> dict[str, Tensor]:
        """Return the losses and the measures of B pairs, as scalars by name; `model` is a Captioner.

        before, after: encodings of the images of each pair, (B, N, D)
        tokens: R reference captions of each pair, (B*R, L+1), with <START> and <END>, padded with NULL
        """
        pairs, first, second = batch.pairs, before, after
        if self.both_ways:
            pairs, first, second = some_exchanged(pairs, before, after)
        with evaluating(model), compiling.eager():  # without dropout, as in decoding
            losses = self._policy(model, first, second, pairs)
        if self.supervised:
            terms = model.losses_of(before, after, tokens, batch.parts, labels)
            losses |= {name: terms[name] for name in model.terms}
        return losses

    def _policy(
        self, model: Captioner, before: Tensor, after: Tensor, pairs: Sequence[Pair]
    ) -> dict[str, Tensor]:
        """Sample captions for the pairs, and return the loss L_policy and four measures of the captions.

        The measures are means over the sampled captions: the reward; the entropy, -log p(caption) in nats;
        the length in words, with <END>; and the share of captions that report a change.
        """
        with torch.no_grad():
            difference = model.difference(before, after)
            words, log_p = sample(model, difference, self.samples)  # (B*K, L), (B*K,)
            captions = [self.vocabulary.decode(row) for row in words.tolist()]
            rewards = self._rewards(pairs, captions, self.samples).to(words.device)  # (B, K)
            advantage = rewards - self._baseline(model, difference, pairs, rewards)
        own = sentences_of(pairs)
        reports_change = torch.tensor([float(not says_no_change(caption, own)) for caption in captions])
        lengths = of_captions(words).sum(-1)
        means = dict(zip(MEASURES, (rewards, -log_p, lengths, reports_change), strict=True))
        caption_count = total(torch.tensor(float(len(words)), device=words.device))
        shares = {name: values.to(caption_count).sum() / caption_count for name, values in means.items()}
        return {POLICY: self._loss(model, before, after, words, advantage) / caption_count} | shares

    def _loss(
        self, model: Captioner, before: Tensor, after: Tensor, words: Tensor, advantage: Tensor
    ) -> Tensor:
        """Return the sum of -advantage * log p(caption), advantage (B, K) = reward - baseline.

        Without an advantage, log p is computed of one pair only, because the loss must depend on the weights.
        """
        chosen = advantage.any(1)
        chosen[0] |= ~chosen.any()
        chosen_words = words.view(*advantage.shape, -1)[chosen].flatten(0, 1)
        log_p = log_probabilities(model, model.difference(before[chosen], after[chosen]), chosen_words)
        return -(advantage[chosen].flatten() * log_p).sum()

    def _rewards(self, pairs: Sequence[Pair], captions: Sequence[str], samples: int) -> Tensor:
        repeated = [pair for pair in pairs for _ in range(samples)]
        return torch.tensor(self.reward(repeated, captions)).view(len(pairs), samples)

    def _baseline(
        self, model: Captioner, difference: Difference, pairs: Sequence[Pair], rewards: Tensor
    ) -> Tensor:
        """Return each sample's mean reward of the pair's others, (B, K), or the greedy caption's, (B, 1)."""
        if self.baseline == "mean":
            return (rewards.sum(1, keepdim=True) - rewards) / (self.samples - 1)
        captions = [self.vocabulary.decode(row) for row in greedy(model, difference).tolist()]
        return self._rewards(pairs, captions, 1).to(rewards)


def some_exchanged(
    pairs: Sequence[Pair], before: Tensor, after: Tensor
) -> tuple[tuple[Pair, ...], Tensor, Tensor]:
    """Exchange the images of each pair with probability 1/2, in `pairs` and in the encodings, (B, N, D)."""
    swapped = torch.rand(len(pairs)) < 0.5
    new_pairs = (
        exchanged(pair) if swap else pair for pair, swap in zip(pairs, swapped.tolist(), strict=True)
    )
    mask = devices.upload(swapped)[:, None, None]  # (B, 1, 1)
    return tuple(new_pairs), torch.where(mask, after, before), torch.where(mask, before, after)


def log_probabilities(model: Captioner, difference: Difference, words: Tensor) -> Tensor:
    """Return log p(c | x), (B*K,), of captions without <START>, (B*K, L), consecutive for a pair."""
    tokens = torch.nn.functional.pad(words, (1, 0), value=START)
    logits = model.word_logits(tokens, difference)
    logits[:, :, list(model.never)] = -torch.inf
    log_p = logits.log_softmax(-1).gather(-1, words[:, :, None])[:, :, 0]
    return log_p.masked_fill(~of_captions(words), 0.0).sum(-1)  # a model may write <NULL>
