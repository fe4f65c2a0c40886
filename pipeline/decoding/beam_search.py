"""Beam search: the k likeliest captions so far of every pair go on.

A caption that has ended keeps one of the k places, as in the program of Xu et al. (Show, Attend and Tell,
2015), so that a beam of 1 is greedy search. A caption scores the sum of its words' log-probabilities,
<END> among them, divided by (number of words) ** length_penalty, as in the program of Vinyals et al. (Show
and Tell, 2016): 0 is the sum and captioning's usual choice, 1 the mean. Of equal ones the earlier wins: the
better-placed caption, then the lowest word id, then the one that ended first.

`n_best` gives the K best captions that a beam ends with; the first is what `beam_search` finds.

A module of its own: training decodes greedily, and is not to run again when this one is edited.
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
    """The best caption that a beam finds: token ids B x L as `greedy` gives them."""
    return Beam(model, difference, beam, length_penalty).run().words


@torch.inference_mode()
def beam_attending(
    model: Captioner, difference: Difference, beam: int, length_penalty: float = 0.0
) -> Captioned:
    """What `beam_search` finds, with the decoder's maps and weights of each word."""
    search = Beam(model, difference, beam, length_penalty, attending=True).run()
    return captioned(search.decoder, search.words, search.seen, search.state)


@dataclass(frozen=True)
class Candidate:
    """A caption as a beam found it."""

    tokens: tuple[int, ...]  # with <END>, unless it was cut at the model's longest
    log_probability: float  # the sum of its tokens'
    score: float  # by which it is compared: that, divided by (number of tokens) ** length_penalty


@torch.inference_mode()
def n_best(
    model: Captioner, difference: Difference, beam: int, count: int, length_penalty: float = 0.0
) -> list[list[Candidate]]:
    """The `count` best captions of each pair, best first: B lists.

    A beam of k ends with k captions; fewer only where there are no more. Raises ValueError for count > beam.
    """
    if count > beam:
        raise ValueError(f"a beam of {beam} does not end with {count} captions")
    search = NBest(model, difference, beam, length_penalty)
    search.run()
    # sorted() keeps the order of equal ones: the earlier first, as everywhere here
    return [sorted(found, key=lambda each: -each.score)[:count] for found in search.ended]


class Beam:
    """The captions of a batch: `words`, `scores` and `seen` of the best that ended, by pair.

    Pairs whose best is settled cost nothing more: `order` says which stand where in `state`, those to be
    settled first. What is kept of the captions that go on (`sums`, `written`, `looked`) stands in that order.
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
        self.free = torch.full_like(self.order, beam)  # places that no ended caption keeps
        # float64: unequal logits stay unequal as log-probabilities, so that a beam of 1 is greedy search
        self.sums = torch.full((B, beam), -torch.inf, dtype=torch.float64, device=device)
        self.sums[:, 0] = 0  # one empty caption, not k
        self.written = torch.full((B, beam, self.longest), NULL, device=device)
        self.scores = torch.full_like(self.sums[:, 0], -torch.inf)
        self.words = self.written[:, 0].clone()
        # B x k x longest x ..., as the decoder gave it, and B x longest x ... of the best that ended
        self.looked: Tensor | None = None
        self.seen: Tensor | None = None

    def run(self) -> "Beam":
        """Write all captions; `words` is then as wide as the longest of them."""
        word = torch.full_like(self.written[:, :, 0], START)  # left x k
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
        last = ((self.words != NULL) * places).max()  # NULL may stand within a caption
        self.words = self.words[:, : int(last)]
        return self

    def _keep(self, looked: Tensor | None, position: int) -> None:
        """What the decoder will make maps and weights of."""
        if looked is None or not self.attending:
            return
        if self.looked is None:
            self.looked = looked.new_zeros(*self.written.shape, *looked.shape[1:])
            self.seen = torch.zeros_like(self.looked[:, 0])
        own = looked.unflatten(0, (-1, self.beam))
        self.looked[: len(own), :, position] = own

    def _choose(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Of k captions x V words, the best for the free places: the captions and their words, left x k."""
        left, _, V = logits.shape
        scores = logits.double().log_softmax(-1)
        scores[:, :, self.never] = -torch.inf
        scores += self.sums[:left, :, None]
        sums, places = best(scores.flatten(1), self.beam)
        taken = torch.arange(self.beam, device=sums.device) >= self.free[:left, None]
        self.sums[:left] = sums.masked_fill(taken, -torch.inf)
        return places // V, places % V

    def _follow(self, parents: Tensor, word: Tensor, position: int) -> None:
        """All that is kept of the chosen captions, in their new places."""
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
        """Captions that end here keep their places; a pair's best so far is remembered."""
        left, rows = len(word), self.order[: len(word)]
        last = position == self.longest - 1  # those that do not end are cut
        ended = (word == END) | last
        scores = self.sums[:left].masked_fill(~ended, -torch.inf) / (position + 1) ** self.length_penalty
        score, place = scores.max(1)  # the first of equal ones
        better = (score > self.scores[rows]).nonzero()[:, 0]
        rows, place = rows[better], place[better]
        self.scores[rows] = score[better]
        self.words[rows] = self.written[better, place]
        if self.looked is not None and self.seen is not None:
            self.seen[rows] = self.looked[better, place]
        self.free[:left] -= (ended & self.sums[:left].isfinite()).sum(1)
        self.sums[:left].masked_fill_(ended, -torch.inf)

    def _leave(self, word: Tensor) -> Tensor:
        """Without the pairs that are settled."""
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
        """The pairs, of the first `left`, of which no caption can still be better than the best that ended.

        Words only lower a sum, and it is divided by the longest's length at most.
        """
        reachable = self.sums[:left].amax(1) / self.longest**self.length_penalty
        return reachable <= self.scores[self.order[:left]]


class NBest(Beam):
    """A beam that remembers all captions that ended, and goes on until none of its places is free."""

    def __init__(self, model: Captioner, difference: Difference, beam: int, length_penalty: float):
        super().__init__(model, difference, beam, length_penalty)
        self.ended: list[list[Candidate]] = [[] for _ in range(len(difference.before))]

    def _end(self, word: Tensor, position: int) -> None:
        """Note the captions that end here; then as a beam does."""
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
    """The `count` highest of each row and their places, highest first; of equal ones the first.

    By turns: torch.topk says nothing of the order of equal ones, and sorting all of them is slower.
    """
    values, places = [], []
    for _ in range(count):
        value, place = scores.max(-1, keepdim=True)
        scores = scores.scatter(-1, place, -torch.inf)
        values.append(value)
        places.append(place)
    return torch.cat(values, -1), torch.cat(places, -1)
