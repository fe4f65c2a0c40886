"""Beam search, which keeps the k most likely partial captions of every pair at each position.

A caption that has ended still counts as one of the k, as in the program of Xu et al. (Show, Attend and
Tell, 2015). So a beam of 1 equals greedy search. The score of a caption is the sum of its words'
log-probabilities, including <END>, divided by (number of words) ** length_penalty, as in the program of
Vinyals et al. (Show and Tell, 2016). With a length_penalty of 0, the usual choice, the score is the
sum; with 1 it is the mean. The partial captions of a pair are ordered by their sums. If sums are equal,
the captions are ordered like the captions that they extend, then by the id of their last word. Among
ended captions with equal scores, the caption that ended first is preferred.

A pair is called settled if no further word can give a better caption for it. The search of a settled
pair stops. The other pairs are called unsettled. Each pair has k places, one for each of its captions.

B: pairs; unsettled: number of unsettled pairs; k: beam, the number of places of a pair; L: tokens of
the longest caption that was found; V: words of the vocabulary; longest: the model's limit of tokens.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from models.common.captioner import Captioner, Difference
from models.common.decoder_protocol import Exchange
from pipeline.decoding.greedy import Captioned, captioned
from pipeline.text.vocabularies import NULL, START


@torch.inference_mode()
def beam_search(
    model: Captioner, difference: Difference, beam: int, length_penalty: float = 0.0
) -> Captioned:
    """Return each pair's best caption by log-probability / (number of words) ** length_penalty."""
    search = Beam(model, difference, beam, length_penalty).run()
    return captioned(search.decoder, search.words, search.best_attention, search.state)


@dataclass(frozen=True)
class Candidate:
    """A caption that a beam search found, with its score."""

    tokens: tuple[int, ...]  # with <END>, unless it was cut at the model's limit
    log_probability: float  # sum over its tokens
    score: float  # log_probability / (number of tokens) ** length_penalty


@torch.inference_mode()
def n_best(
    model: Captioner, difference: Difference, beam: int, count: int, length_penalty: float = 0.0
) -> list[list[Candidate]]:
    """Return the `count` best captions of each pair, as B lists with the best caption first.

    A list has fewer captions only if no others are possible. Raises ValueError if `count` is larger than
    `beam`.
    """
    if count > beam:
        raise ValueError(f"a beam of {beam} does not end with {count} captions")
    search = NBest(model, difference, beam, length_penalty)
    search.run()
    # sorted() is stable, so the earlier of equal candidates comes first
    return [sorted(candidates, key=lambda candidate: -candidate.score)[:count] for candidates in search.ended]


class Beam:
    """Beam search over a batch of pairs.

    A pair is settled if none of its unfinished captions can become better than its best ended caption.
    Nothing more is computed for a settled pair.

    `words`, `scores` and `best_attention` hold the best ended caption of each pair, in the order of the
    batch. The rows of `state`, `sums`, `free_places`, `tokens` and `attention` are in
    another order: the first rows belong to the pairs that are not settled. Row n belongs to the pair
    `order[n]` of the batch.
    """

    def __init__(self, model: Captioner, difference: Difference, beam: int, length_penalty: float):
        B, device = len(difference.before), difference.before.device
        self.decoder, self.longest = model.decoder, model.sizes.longest - 1
        self.never, self.ends = list(model.never), torch.tensor(model.ends, device=device)
        self.beam, self.length_penalty = beam, length_penalty
        self.state = self.decoder.begin(difference, beam)
        self.order = torch.arange(B, device=device)
        self.free_places = torch.full_like(self.order, beam)  # number of places without an ended caption
        # float64: unequal logits stay unequal as log-probabilities, so that a beam of 1 is greedy search
        self.sums = torch.full((B, beam), -torch.inf, dtype=torch.float64, device=device)
        self.sums[:, 0] = 0  # start from one empty caption, not from k
        self.tokens = torch.full((B, beam, self.longest), NULL, device=device)
        self.scores = torch.full_like(self.sums[:, 0], -torch.inf)
        self.words, self.lengths = self.tokens[:, 0].clone(), torch.zeros_like(self.order)
        self.attention: Tensor | None = None  # (B, k, longest, ...), attention of each token
        self.best_attention: Tensor | None = None  # (B, longest, ...), attention of the best ended caption

    def run(self) -> "Beam":
        """Decode all captions, cut `words` to the length of the longest caption, and return `self`."""
        word = torch.full_like(self.tokens[:, :, 0], START)  # (unsettled, k)
        for position in range(self.longest):
            step = self.decoder.step(word.flatten(), position, self.state)
            self._store_attention(step.trace, position)
            parents, word = self._choose(step.logits.view(*word.shape, -1))
            self._move(parents, word, position)
            self._end_captions(word, position)
            word = self._remove_settled(word)
            if not len(word):
                break
        self.words = self.words[:, : int(self.lengths.max())]
        return self

    def _store_attention(self, step_attention: Tensor | None, position: int) -> None:
        """Store the attention of the unsettled pairs' captions, if there is any, at `position`."""
        if step_attention is None:
            return
        if self.attention is None:
            self.attention = step_attention.new_zeros(*self.tokens.shape, *step_attention.shape[1:])
            self.best_attention = torch.zeros_like(self.attention[:, 0])
        by_pair = step_attention.unflatten(0, (-1, self.beam))
        self.attention[: len(by_pair), :, position] = by_pair

    def _choose(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Choose each unsettled pair's k best continuations by the logits, (unsettled, k, V).

        Returns the index of the partial caption that each new one extends, and the appended word,
        (unsettled, k) each.
        """
        unsettled, _, V = logits.shape
        scores = logits.double().log_softmax(-1)
        scores[:, :, self.never] = -torch.inf
        scores += self.sums[:unsettled, :, None]
        sums, indices = best(scores.flatten(1), self.beam)
        without_place = torch.arange(self.beam, device=sums.device) >= self.free_places[:unsettled, None]
        self.sums[:unsettled] = sums.masked_fill(without_place, -torch.inf)
        return indices // V, indices % V

    def _move(self, parents: Tensor, word: Tensor, position: int) -> None:
        """Copy words, state and attention of old captions to the rows of new captions that extend them.

        `parents`, the places of the old captions, and the new words at `position` are (unsettled, k).
        """
        unsettled = len(word)
        rows = (parents + self.beam * torch.arange(unsettled, device=parents.device)[:, None]).flatten()
        self.state.follow(rows)
        tokens = self.tokens[:unsettled].flatten(0, 1)  # a view, as below
        tokens[:, :position] = tokens[rows, :position]
        tokens[:, position] = word.flatten()
        if self.attention is not None:
            attention = self.attention[:unsettled].flatten(0, 1)[:, : position + 1]
            attention.copy_(attention[rows])

    def _end_captions(self, word: Tensor, position: int) -> None:
        """Remove captions that end with their newest word, (unsettled, k), and update the best ones."""
        unsettled, pairs = len(word), self.order[: len(word)]
        at_limit = position == self.longest - 1  # all captions are cut here
        ended = torch.isin(word, self.ends) | at_limit
        scores = self.sums[:unsettled].masked_fill(~ended, -torch.inf) / (position + 1) ** self.length_penalty
        score, place = scores.max(1)  # the first of equal scores
        improved = (score > self.scores[pairs]).nonzero()[:, 0]
        pairs, place = pairs[improved], place[improved]
        self.scores[pairs] = score[improved]
        self.words[pairs], self.lengths[pairs] = self.tokens[improved, place], position + 1
        if self.attention is not None and self.best_attention is not None:
            self.best_attention[pairs] = self.attention[improved, place]
        self.free_places[:unsettled] -= (ended & self.sums[:unsettled].isfinite()).sum(1)
        self.sums[:unsettled].masked_fill_(ended, -torch.inf)

    def _remove_settled(self, word: Tensor) -> Tensor:
        """Remove the pairs for which no further word can give a better caption, also from `word`."""
        unsettled = len(word)
        settled = self._settled(unsettled)
        exchange = Exchange(settled)
        if exchange.left < unsettled:
            self.state.leave(settled)
            exchange.apply(self.order)
            for rows in (word, self.sums, self.free_places, self.tokens, self.attention):
                if rows is not None:
                    exchange.move(rows)
        return word[: exchange.left]

    def _settled(self, unsettled: int) -> Tensor:
        """Return a mask, (unsettled,), of pairs whose best ended caption no unfinished one can beat."""
        reachable = self.sums[:unsettled].amax(1) / self.longest**self.length_penalty
        return reachable <= self.scores[self.order[:unsettled]]


class NBest(Beam):
    """Beam search that stores every ended caption of each pair, but no attention.

    The search of a pair ends when the number of ended captions equals the beam, or when no unfinished
    caption is left.
    """

    def __init__(self, model: Captioner, difference: Difference, beam: int, length_penalty: float):
        super().__init__(model, difference, beam, length_penalty)
        self.ended: list[list[Candidate]] = [[] for _ in range(len(difference.before))]

    def _store_attention(self, step_attention: Tensor | None, position: int) -> None:
        """Do nothing: the results contain no attention."""

    def _end_captions(self, word: Tensor, position: int) -> None:
        unsettled = len(word)
        at_limit = position == self.longest - 1
        ending = (torch.isin(word, self.ends) | at_limit) & self.sums[:unsettled].isfinite()
        pairs, tokens = self.order[:unsettled].tolist(), self.tokens[:unsettled, :, : position + 1].tolist()
        for row, place in ending.nonzero().tolist():
            log_probability = float(self.sums[row, place])
            score = log_probability / (position + 1) ** self.length_penalty
            self.ended[pairs[row]].append(Candidate(tuple(tokens[row][place]), log_probability, score))
        super()._end_captions(word, position)

    def _settled(self, unsettled: int) -> Tensor:
        return (self.free_places[:unsettled] == 0) | (self.sums[:unsettled].amax(1) == -torch.inf)


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return each row's highest values, descending, and indices; ties keep their order, unlike in topk."""
    values, indices = [], []
    for _ in range(count):
        value, index = scores.max(-1, keepdim=True)
        scores = scores.scatter(-1, index, -torch.inf)
        values.append(value)
        indices.append(index)
    return torch.cat(values, -1), torch.cat(indices, -1)
