"""The interface between encoder, decoder and search: Difference, Words, and the protocol of a Decoder.

B: pairs; k: captions per pair; L: words; V: size of the vocabulary; D: width; h: heads; d = D/h; N: cells of
an image; K: decoder weights per word; I: maps per word. In a search, `left` pairs are not finished, and the
R = left * k rows are their captions; the captions of a pair are consecutive.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from torch import Tensor

from models.common.attention import attention_weights


@dataclass
class Difference:
    """Encoded batch of pairs: everything that the decoder and the loss terms see of the images."""

    memory: Tensor  # (B, N, D), input of the decoder; (B, 2N, D) if it attends to each image separately
    before: Tensor  # (B, N, D): the pair encoding, before any interaction
    after: Tensor  # (B, N, D)

    def alignment(self, rows: list[int]) -> Tensor | None:
        """Return the cross-view attention of some pairs; None if the model has none."""
        return None


@dataclass
class Aligned(Difference):
    """Difference of a model with cross-view attention: operands of its last layer, (B, h, N, d) each."""

    after_queries: Tensor
    before_keys: Tensor

    def alignment(self, rows: list[int]) -> Tensor:
        """Return the attention of the after image's cells to the before image's cells: (rows, N, N).

        SCORER's and DIRL's Eq. 5, averaged over heads; each row sums to 1. `rows` selects pairs: the whole
        batch would need too much memory, because (N, N) is 196 x 196 per head.
        """
        return attention_weights(self.after_queries[rows], self.before_keys[rows]).mean(1)


@dataclass
class States:
    """States of one decoder layer, (B, L, D) each."""

    self_attended: Tensor  # the self-attention's output
    self_normed: Tensor  # after its residual and LN
    cross_attended: Tensor  # the cross-attention's output
    cross_normed: Tensor
    out: Tensor  # after the feed-forward: the next layer's input


@dataclass
class Words:
    """Output of the decoder for a batch of captions."""

    logits: Tensor  # (B, L, V)
    hidden: Tensor  # (B, L, D), the last layer's states; `logits` are a linear map of them
    real: Tensor  # (B, L), true if the word to predict is not padding
    read: Tensor  # (B, L), true if the input word is not padding; includes <END> if it is an input
    layers: tuple[States, ...] = ()  # only with `keep_layers`


@dataclass
class NextWord:
    """Output of one step of the decoder."""

    logits: Tensor  # (R, V)
    looked: Tensor | None  # (R, ...), attention of this step, from which `maps` and `word_weights` compute


class State(Protocol):
    """Search state, for example keys and values, or the two vectors of an LSTM."""

    def follow(self, parents: Tensor) -> None:
        """Replace caption r by caption parents[r], for each of the R rows."""

    def leave(self, ended: Tensor) -> None:
        """Remove the pairs for which `ended` (left) is true; `Exchange(ended)` gives the others' places."""


Kept = TypeVar("Kept", bound=State)


class Decoder(Protocol[Kept]):
    """Decoder of a captioner; it predicts all words at once in training, and word by word in a search."""

    compiles: bool  # `train.compile` compiles it; a loop over words would be a graph for each length
    weighed: tuple[str, ...]  # names of the K inputs that it weighs at each word; may be empty

    def __call__(
        self, tokens: Tensor, difference: Difference, keep_layers: bool = False, padding_is_key: bool = True
    ) -> Words:
        """Predict words 1..L of captions (k*B, L+1), with <START> and <END>; k consecutive per pair."""

    def begin(self, difference: Difference, beam: int = 1) -> Kept:
        """Return the state from which `step` writes `beam` captions of each pair."""

    def step(self, tokens: Tensor, position: int, state: Kept) -> NextWord:
        """Predict the word after `tokens` (R), which are at `position`."""

    def maps(self, looked: Tensor | None, state: Kept) -> Tensor | None:
        """Return the attention maps of one caption per pair, (B, L, I, N); None without attention.

        looked: (B, L, ...), results of the steps, in the order of `begin`, zero after a caption's end

        Each map sums to 1. I is 1 if a map is shown on both images, 2 for one map on each image.
        """

    def word_weights(self, looked: Tensor | None) -> Tensor | None:
        """Return the weights of `weighed` at each word, (B, L, K), which sum to 1; None if K is 0.

        `looked`: as for `maps`.
        """


class Unweighed:
    """Base of decoders without weights per word."""

    weighed: tuple[str, ...] = ()

    def word_weights(self, looked: Tensor | None) -> None:
        """Return None: there are no weights."""


class Exchange:
    """Moves unfinished rows to the front, by exchanging ended rows there with unfinished rows behind."""

    def __init__(self, ended: Tensor):
        """`ended`: true for the rows that leave."""
        here = ~ended
        self.left = int(here.sum())
        self.front = ended[: self.left].nonzero()[:, 0].tolist()  # ended rows
        self.back = (self.left + here[self.left :].nonzero()[:, 0]).tolist()  # unfinished rows

    def move(self, rows: Tensor) -> None:
        """Overwrite ended rows with unfinished ones. Rows are copied one at a time to save memory."""
        for front, back in zip(self.front, self.back, strict=True):
            rows[front].copy_(rows[back])

    def apply(self, rows: Tensor) -> None:
        """Exchange ended and unfinished rows; none is lost."""
        for front, back in zip(self.front, self.back, strict=True):
            ended = rows[front].clone()
            rows[front].copy_(rows[back])
            rows[back].copy_(ended)

    def kept(self, rows: Tensor) -> Tensor:
        """Return the unfinished rows as a new tensor."""
        found = rows.clone()
        self.move(found)
        return found[: self.left]
