"""Self-critical sequence training: a phase after training that raises the expected reward of captions.

Rennie et al., "Self-critical sequence training for image captioning", CVPR 2017. For a pair x, K captions
c_k ~ p(c | x) are sampled word by word, p over the words that decoding may write. With rewards r_k

    L_policy = -1/K sum_k (r_k - b_k) log p(c_k | x),    log p(c | x) = sum_t log p(w_t | w_<t, x)

b_k does not depend on c_k, so the gradient of L_policy is an unbiased estimate of minus the gradient of the
expected reward (their Eq. 7). `mean`: b_k is the mean reward of the other K - 1 samples; `greedy`: the reward
of the greedy caption (their Eq. 8). The phase minimises L_policy + `cross_entropy` * (L_cap + the model's
other weighted terms).

B pairs, K samples of each, L words, V words of the vocabulary.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from models.common.captioner import Captioner, Difference
from models.common.distributed_batch import total
from models.common.trainable import Labels
from pipeline.datasets.schema import Pair
from pipeline.decoding.greedy import evaluating, greedy
from pipeline.decoding.sampling import sample
from pipeline.text.vocabularies import NULL, START, Vocabulary
from pipeline.training.rewards import Reward, tells_change
from pipeline.training.sampling import Batch

POLICY = "policy"
MEASURES = ("reward", "entropy", "length", "tells_change")


class SelfCritical:
    """The phase's losses and measures of a batch.

    Measures are means over the samples: reward; entropy, -log p(c) in nats; length in words, <END> among
    them; tells_change, the share that say that something changed.
    """

    def __init__(self, reward: Reward, settings: Mapping[str, Any], vocabulary: Vocabulary):
        self.reward, self.vocabulary = reward, vocabulary
        self.samples, self.baseline = settings["samples"], settings["baseline"]
        self.supervised: bool = settings["cross_entropy"] > 0

    def names(self, model: Captioner) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The loss terms and the measures."""
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
        """Every term and measure of B encoded pairs, (B, N, D) each, and their references (R*B, L+1)."""
        with evaluating(model):  # without dropout: p is the distribution that decoding has
            difference = model.difference(before, after)
            found = self._policy(model, difference, batch.pairs)
        if self.supervised:
            terms = model.losses_of(before, after, tokens, batch.parts, labels)
            found |= {name: terms[name] for name in model.terms}
        return found

    def _policy(self, model: Captioner, difference: Difference, pairs: Sequence[Pair]) -> dict[str, Tensor]:
        words = sample(model, difference, self.samples)  # (B*K, L)
        captions = [self.vocabulary.decode(row) for row in words.tolist()]
        reward = self._rewards(pairs, captions, self.samples).to(words.device)  # (B, K)
        log_p = log_probabilities(model, difference, words).view_as(reward)
        advantage = reward - self._baseline(model, difference, pairs, reward)
        told = torch.tensor(tells_change(captions))
        written = (words != NULL).sum(-1)
        means = {"reward": reward, "entropy": -log_p.detach(), "length": written, "tells_change": told}
        number = total(torch.tensor(float(len(words)), device=words.device))
        shares = {name: values.to(number).sum() / number for name, values in means.items()}
        return {POLICY: -(advantage * log_p).sum() / number} | shares

    def _rewards(self, pairs: Sequence[Pair], captions: Sequence[str], each: int) -> Tensor:
        repeated = [pair for pair in pairs for _ in range(each)]
        return torch.tensor(self.reward(repeated, captions)).view(len(pairs), each)

    def _baseline(
        self, model: Captioner, difference: Difference, pairs: Sequence[Pair], reward: Tensor
    ) -> Tensor:
        """b: (B, K) or (B, 1)."""
        if self.baseline == "mean":
            return (reward.sum(1, keepdim=True) - reward) / (self.samples - 1)
        captions = [self.vocabulary.decode(row) for row in greedy(model, difference).tolist()]
        return self._rewards(pairs, captions, 1).to(reward)


def log_probabilities(model: Captioner, difference: Difference, words: Tensor) -> Tensor:
    """log p(c | x) of captions (B*K, L) without <START>, K of each pair one after another: (B*K)."""
    tokens = torch.nn.functional.pad(words, (1, 0), value=START)
    logits = model.word_logits(tokens, difference)
    logits[:, :, list(model.never)] = -torch.inf
    of_words = logits.log_softmax(-1).gather(-1, words[:, :, None])[:, :, 0]
    return of_words.masked_fill(words == NULL, 0.0).sum(-1)
