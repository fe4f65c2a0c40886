"""Self-critical sequence training, a phase after captioning that raises the captions' expected reward.

Rennie et al., "Self-critical sequence training for image captioning", CVPR 2017. For a pair x, K captions
c_k ~ p(c | x) are sampled word by word. p covers only the words that decoding may write. With rewards r_k

    L_policy = -1/K sum_k (r_k - b_k) log p(c_k | x),    log p(c | x) = sum_t log p(w_t | w_<t, x)

The baseline b_k does not depend on c_k. So the gradient of L_policy is an unbiased estimate of the negative
gradient of the expected reward (their Eq. 7). `baseline: mean`: b_k is the mean reward of the other K - 1
samples. `baseline: greedy`: b_k is the reward of the greedy caption (their Eq. 8). The phase minimises
L_policy + `cross_entropy` * (L_cap + the model's other weighted terms).

B: pairs; K: samples per pair; L: words per caption; N: cells of an image; D: width; R: references per pair.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from models.common.captioner import Captioner, Difference
from models.common.distributed_batch import total
from models.common.trainable import Labels
from pipeline.compute import devices
from pipeline.datasets.schema import Pair, exchanged
from pipeline.decoding.greedy import evaluating, greedy, sample
from pipeline.text.vocabularies import NULL, START, Vocabulary
from pipeline.training import compiling
from pipeline.training.rewards import Reward, tells_change
from pipeline.training.sampling import Batch

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

    def names(self, model: Captioner) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (POLICY, *(model.terms if self.supervised else ())), MEASURES

    def __call__(
        self,
        model: Captioner,
        before: Tensor,
        after: Tensor,
        tokens: Tensor,
        batch: Batch,
        labels: Labels | None,
    ) -> dict[str, Tensor]:
        pairs, first, second = batch.pairs, before, after
        if self.both_ways:
            pairs, first, second = some_exchanged(pairs, before, after)
        with evaluating(model), compiling.eager():  # without dropout, as in decoding
            found = self._policy(model, first, second, pairs)
        if self.supervised:
            terms = model.losses_of(before, after, tokens, batch.parts, labels)
            found |= {name: terms[name] for name in model.terms}
        return found

    def _policy(
        self, model: Captioner, before: Tensor, after: Tensor, pairs: Sequence[Pair]
    ) -> dict[str, Tensor]:
        with torch.no_grad():
            difference = model.difference(before, after)
            words, log_p = sample(model, difference, self.samples)  # (B*K, L), (B*K,)
            captions = [self.vocabulary.decode(row) for row in words.tolist()]
            reward = self._rewards(pairs, captions, self.samples).to(words.device)  # (B, K)
            advantage = reward - self._baseline(model, difference, pairs, reward)
        reported = torch.tensor(tells_change(captions))
        written = (words != NULL).sum(-1)
        means = dict(zip(MEASURES, (reward, -log_p, written, reported), strict=True))
        number = total(torch.tensor(float(len(words)), device=words.device))
        shares = {name: values.to(number).sum() / number for name, values in means.items()}
        return {POLICY: self._loss(model, before, after, words, advantage) / number} | shares

    def _loss(
        self, model: Captioner, before: Tensor, after: Tensor, words: Tensor, advantage: Tensor
    ) -> Tensor:
        """Return L_policy, times the number of all samples. `advantage` is r - b, (B, K).

        A pair whose advantages are all 0 has no gradient, so log p is computed for the other pairs only. If
        there are no others, log p is computed for one pair, because the loss must depend on the weights.
        """
        chosen = advantage.any(1)
        chosen[0] |= ~chosen.any()
        taught = words.view(*advantage.shape, -1)[chosen].flatten(0, 1)
        log_p = log_probabilities(model, model.difference(before[chosen], after[chosen]), taught)
        return -(advantage[chosen].flatten() * log_p).sum()

    def _rewards(self, pairs: Sequence[Pair], captions: Sequence[str], each: int) -> Tensor:
        repeated = [pair for pair in pairs for _ in range(each)]
        return torch.tensor(self.reward(repeated, captions)).view(len(pairs), each)

    def _baseline(
        self, model: Captioner, difference: Difference, pairs: Sequence[Pair], reward: Tensor
    ) -> Tensor:
        """Return the baselines b, (B, K); with `baseline: greedy`, one for all samples of a pair, (B, 1)."""
        if self.baseline == "mean":
            return (reward.sum(1, keepdim=True) - reward) / (self.samples - 1)
        captions = [self.vocabulary.decode(row) for row in greedy(model, difference).tolist()]
        return self._rewards(pairs, captions, 1).to(reward)


def some_exchanged(
    pairs: Sequence[Pair], before: Tensor, after: Tensor
) -> tuple[tuple[Pair, ...], Tensor, Tensor]:
    """Exchange the images of each pair with probability 1/2, in `pairs` and in the encodings, (B, N, D)."""
    chosen = torch.rand(len(pairs)) < 0.5
    given = (exchanged(pair) if swap else pair for pair, swap in zip(pairs, chosen.tolist(), strict=True))
    swap = devices.upload(chosen)[:, None, None]  # (B, 1, 1)
    return tuple(given), torch.where(swap, after, before), torch.where(swap, before, after)


def log_probabilities(model: Captioner, difference: Difference, words: Tensor) -> Tensor:
    """Return log p(c | x), (B*K,), of the captions `words`, (B*K, L), which have no <START>.

    The K captions of a pair are consecutive. `difference` describes the B pairs.
    """
    tokens = torch.nn.functional.pad(words, (1, 0), value=START)
    logits = model.word_logits(tokens, difference)
    logits[:, :, list(model.never)] = -torch.inf
    of_words = logits.log_softmax(-1).gather(-1, words[:, :, None])[:, :, 0]
    return of_words.masked_fill(words == NULL, 0.0).sum(-1)
