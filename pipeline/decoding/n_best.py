"""The K best captions of a beam, with their log-probabilities; the first is what beam_search.py finds."""

from dataclasses import dataclass

import torch
from torch import Tensor

from models.captioner import Captioner, Difference
from pipeline.decoding.beam_search import Beam
from pipeline.vocabularies import END


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
    # sorted() keeps the order of equal ones: the earlier first, as in beam_search.py
    return [sorted(found, key=lambda each: -each.score)[:count] for found in search.ended]


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
