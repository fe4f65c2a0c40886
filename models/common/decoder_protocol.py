"""What a captioner's decoder is: all that training, the searches and whoever shows maps ask of one.

B pairs, k captions of each, L words, V words of the vocabulary, N cells an image, K weights of a word. In a
search `left` pairs of the B are still captioned, and the R = left * k rows are their captions, those of a
pair one after another.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from torch import Tensor

from models.common.difference import Difference


@dataclass
class States:
    """What one layer makes of a batch of captions, step by step; (B, L, D) each."""

    self_attended: Tensor  # the self-attention's output
    self_normed: Tensor  # after its residual and LN
    cross_attended: Tensor  # the cross-attention's output: the difference that each word looked at
    cross_normed: Tensor
    out: Tensor  # after the feed-forward: the next layer's input


@dataclass
class Words:
    """What the decoder made of a batch of captions, by name."""

    logits: Tensor  # (B, L, V)
    hidden: Tensor  # (B, L, D), the last layer's states, which `logits` are a linear map of
    real: Tensor  # (B, L), true where the word to predict is not padding
    read: Tensor  # (B, L), true where the word that is read is not padding: with <END>, if that is read
    layers: tuple[States, ...] = ()  # where they were asked for


@dataclass
class NextWord:
    """What one step of the decoder gives, by name."""

    logits: Tensor  # (R, V)
    looked: Tensor | None  # (R, ...): what `maps` and `word_weights` need of this step; None where nothing


class State(Protocol):
    """What `step` keeps of a batch, whatever that is: keys and values, an LSTM's two vectors."""

    def follow(self, parents: Tensor) -> None:
        """Each caption goes on from that of the row which `parents` (R) names."""

    def leave(self, ended: Tensor) -> None:
        """Without the pairs for which `ended` (left) is true; the others' places: `Exchange(ended)`."""


Kept = TypeVar("Kept", bound=State)


class Decoder(Protocol[Kept]):
    """What a captioner's decoder can do: for all words at once, and word by word."""

    compiles: bool  # whether `train.compile` compiles it; a loop over words is a graph for each length
    weighed: tuple[str, ...]  # K names: what it weighs anew at each word; none where it weighs nothing

    def __call__(
        self, tokens: Tensor, difference: Difference, keep_layers: bool = False, padding_is_key: bool = True
    ) -> Words:
        """Captions with both marks, R of each pair one after another -> what becomes of all words."""

    def begin(self, difference: Difference, beam: int = 1) -> Kept:
        """What `step` keeps of a batch, to write `beam` captions of each pair."""

    def step(self, tokens: Tensor, position: int, state: Kept) -> NextWord:
        """The word after `tokens` (R), which stand at `position`."""

    def maps(self, looked: Tensor | None, state: Kept) -> Tensor | None:
        """Where the words of one caption a pair looked: (B, L, I, N); None where it looks at nothing.

        `looked`, (B, L, ...): what the steps gave, pairs as they stood in `begin`, zero after a caption's
        end; None where they gave None. A word's map sums to 1. I is 1 where one map is meant for both images,
        2 where the first is of before, the second of after.
        """

    def word_weights(self, looked: Tensor | None) -> Tensor | None:
        """The weights of what is `weighed`, at each of those words: (B, L, K); None where nothing is.

        `looked` as for `maps`. A word's weights sum to 1.
        """


class Unweighed:
    """A decoder that weighs nothing anew at a word."""

    weighed: tuple[str, ...] = ()

    def word_weights(self, looked: Tensor | None) -> None:
        """None: it has no such weights."""


class Exchange:
    """Brings the rows that go on to the front: each that does not stand there takes an ended one's place."""

    def __init__(self, ended: Tensor):
        """`ended`: for each row in its place, whether it is to leave."""
        here = ~ended
        self.left = int(here.sum())
        self.front = ended[: self.left].nonzero()[:, 0].tolist()  # ended
        self.back = (self.left + here[self.left :].nonzero()[:, 0]).tolist()  # going on

    def move(self, rows: Tensor) -> None:
        """Copy the rows that go on; ended ones are lost. Row by row, for there is no room for many."""
        for front, back in zip(self.front, self.back, strict=True):
            rows[front].copy_(rows[back])

    def apply(self, rows: Tensor) -> None:
        """Exchange the rows: none is lost."""
        for front, back in zip(self.front, self.back, strict=True):
            ended = rows[front].clone()
            rows[front].copy_(rows[back])
            rows[back].copy_(ended)

    def kept(self, rows: Tensor) -> Tensor:
        """The rows that go on, as a tensor of their own: what a small state is left with."""
        found = rows.clone()
        self.move(found)
        return found[: self.left]
