"""Beam search, which keeps the k most likely partial captions of every pair at each position.

A caption that has ended keeps its place among the k, as in the program of Xu et al. (Show, Attend and Tell,
2015). So a beam of 1 equals greedy search. The score of a caption is the sum of its words' log-probabilities,
including <END>, divided by (number of words) ** length_penalty, as in the program of Vinyals et al. (Show and
Tell, 2016). With a length_penalty of 0, the usual choice, the score is the sum; with 1 it is the mean. If
scores are equal, the caption with the better place is preferred, then the lowest word id, then the caption
that ended first.

B: pairs; k: beam, the number of places; L: tokens of the longest caption that was found; V: words of the
vocabulary; longest: the model's limit of tokens. A pair is settled if no further word can give a better
caption for it; left: number of pairs that are not settled.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from models.common.captioner import Captioner, Difference
from models.common.decoder_protocol import Exchange
from pipeline.decoding.greedy import Captioned, captioned
from pipeline.text.vocabularies import END, NULL, START


@torch.inference_mode()
def beam_search(model: Captioner, difference: Difference, beam: int, length_penalty: float = 0.0) -> Tensor:
    """Return the best caption of each pair as token ids, (B, L), in the form that `greedy` returns."""
    return Beam(model, difference, beam, length_penalty).run().words


@torch.inference_mode()
def beam_attending(
    model: Captioner, difference: Difference, beam: int, length_penalty: float = 0.0
) -> Captioned:
    """Return the captions that `beam_search` returns, with attention."""
    search = Beam(model, difference, beam, length_penalty, attending=True).run()
    return captioned(search.decoder, search.words, search.seen, search.state)


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

    A list has fewer captions only if no other captions are possible. Raises ValueError if `count` is larger
    than `beam`.
    """
    if count > beam:
        raise ValueError(f"a beam of {beam} does not end with {count} captions")
    search = NBest(model, difference, beam, length_penalty)
    search.run()
    # sorted() is stable, so the earlier of equal candidates comes first
    return [sorted(found, key=lambda each: -each.score)[:count] for found in search.ended]


class Beam:
    """Beam search over a batch. Nothing is computed for settled pairs.

    `words`, `scores` and `seen` hold the best ended caption of each pair, in the batch's order. In `state`,
    `sums`, `free`, `written` and `looked`, the first rows belong to the pairs that are not settled: row n to
    the pair `order[n]` of the batch.
    """

    def __init__(
        self,
        model: Captioner,
        difference: Difference,
        beam: int,
        length_penalty: float,
        attending: bool = False,
    ):
        B, device = len(difference.before), difference.before.device
        self.decoder, self.longest = model.decoder, model.sizes.longest - 1
        self.never = list(model.never)
        self.beam, self.length_penalty, self.attending = beam, length_penalty, attending
        self.state = self.decoder.begin(difference, beam)
        self.order = torch.arange(B, device=device)
        self.free = torch.full_like(self.order, beam)  # number of places without an ended caption
        # float64: unequal logits stay unequal as log-probabilities, so that a beam of 1 is greedy search
        self.sums = torch.full((B, beam), -torch.inf, dtype=torch.float64, device=device)
        self.sums[:, 0] = 0  # start from one empty caption, not from k
        self.written = torch.full((B, beam, self.longest), NULL, device=device)
        self.scores = torch.full_like(self.sums[:, 0], -torch.inf)
        self.words = self.written[:, 0].clone()
        self.looked: Tensor | None = None  # (B, k, longest, ...), `NextWord.looked` of the steps
        self.seen: Tensor | None = None  # (B, longest, ...), attention of the best ended caption

    def run(self) -> "Beam":
        """Decode all captions, cut `words` to the longest caption, and return the search."""
        word = torch.full_like(self.written[:, :, 0], START)  # (left, k)
        for position in range(self.longest):
            step = self.decoder.step(word.flatten(), position, self.state)
            self._keep(step.looked, position)
            parents, word = self._choose(step.logits.view(*word.shape, -1))
            self._follow(parents, word, position)
            self._end(word, position)
            word = self._leave(word)
            if not len(word):
                break
        places = torch.arange(1, self.longest + 1, device=self.words.device)
        last = ((self.words != NULL) * places).max()  # a caption may contain NULL
        self.words = self.words[:, : int(last)]
        return self

    def _keep(self, looked: Tensor | None, position: int) -> None:
        if looked is None or not self.attending:
            return
        if self.looked is None:
            self.looked = looked.new_zeros(*self.written.shape, *looked.shape[1:])
            self.seen = torch.zeros_like(self.looked[:, 0])
        own = looked.unflatten(0, (-1, self.beam))
        self.looked[: len(own), :, position] = own

    def _choose(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Choose the k best continuations of each unsettled pair, from the logits (left, k, V).

        Returns, for each place, the index of the extended caption and the appended word, (left, k) each.
        """
        left, _, V = logits.shape
        scores = logits.double().log_softmax(-1)
        scores[:, :, self.never] = -torch.inf
        scores += self.sums[:left, :, None]
        sums, places = best(scores.flatten(1), self.beam)
        taken = torch.arange(self.beam, device=sums.device) >= self.free[:left, None]
        self.sums[:left] = sums.masked_fill(taken, -torch.inf)
        return places // V, places % V

    def _follow(self, parents: Tensor, word: Tensor, position: int) -> None:
        """Move the chosen captions, with their state, to their new places, and append their new words."""
        left = len(word)
        rows = (parents + self.beam * torch.arange(left, device=parents.device)[:, None]).flatten()
        self.state.follow(rows)
        written = self.written[:left].flatten(0, 1)  # a view, as below
        written[:, :position] = written[rows, :position]
        written[:, position] = word.flatten()
        if self.looked is not None:
            looked = self.looked[:left].flatten(0, 1)[:, : position + 1]
            looked.copy_(looked[rows])

    def _end(self, word: Tensor, position: int) -> None:
        """Remove the captions that end at this position from the search; update each pair's best caption."""
        left, rows = len(word), self.order[: len(word)]
        last = position == self.longest - 1  # all captions are cut here
        ended = (word == END) | last
        scores = self.sums[:left].masked_fill(~ended, -torch.inf) / (position + 1) ** self.length_penalty
        score, place = scores.max(1)  # the first of equal scores
        better = (score > self.scores[rows]).nonzero()[:, 0]
        rows, place = rows[better], place[better]
        self.scores[rows] = score[better]
        self.words[rows] = self.written[better, place]
        if self.looked is not None and self.seen is not None:
            self.seen[rows] = self.looked[better, place]
        self.free[:left] -= (ended & self.sums[:left].isfinite()).sum(1)
        self.sums[:left].masked_fill_(ended, -torch.inf)

    def _leave(self, word: Tensor) -> Tensor:
        left = len(word)
        settled = self._settled(left)
        places = Exchange(settled)
        if places.left < left:
            self.state.leave(settled)
            places.apply(self.order)
            for rows in (word, self.sums, self.free, self.written, self.looked):
                if rows is not None:
                    places.move(rows)
        return word[: places.left]

    def _settled(self, left: int) -> Tensor:
        """Return a mask, (left,), that is true for settled pairs.

        A pair is settled if none of its unfinished captions can get a better score than its best ended
        caption. More words can only lower the sum of a caption's log-probabilities.
        """
        reachable = self.sums[:left].amax(1) / self.longest**self.length_penalty
        return reachable <= self.scores[self.order[:left]]


class NBest(Beam):
    """Beam search that stores every ended caption, and continues until no place is free."""

    def __init__(self, model: Captioner, difference: Difference, beam: int, length_penalty: float):
        super().__init__(model, difference, beam, length_penalty)
        self.ended: list[list[Candidate]] = [[] for _ in range(len(difference.before))]

    def _end(self, word: Tensor, position: int) -> None:
        left = len(word)
        last = position == self.longest - 1
        ending = ((word == END) | last) & self.sums[:left].isfinite()
        pairs, tokens = self.order[:left].tolist(), self.written[:left, :, : position + 1].tolist()
        for row, place in ending.nonzero().tolist():
            total = float(self.sums[row, place])
            score = total / (position + 1) ** self.length_penalty
            self.ended[pairs[row]].append(Candidate(tuple(tokens[row][place]), total, score))
        super()._end(word, position)

    def _settled(self, left: int) -> Tensor:
        return (self.free[:left] == 0) | (self.sums[:left].amax(1) == -torch.inf)


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` highest values of each row in descending order, and their indices.

    Equal values keep their order, which torch.topk does not promise.
    """
    values, places = [], []
    for _ in range(count):
        value, place = scores.max(-1, keepdim=True)
        scores = scores.scatter(-1, place, -torch.inf)
        values.append(value)
        places.append(place)
    return torch.cat(values, -1), torch.cat(places, -1)
