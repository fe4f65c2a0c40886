"""Interface between encoder, decoder and search: Difference, Words, and the protocol of a Decoder.

B: pairs; k: captions per pair; L: words; V: size of the vocabulary; D: width; h: heads; d = D/h; N:
cells of an image; I: attention maps per word. K: number of inputs that the decoder weighs at each word,
for example the vectors of both images. In a search, `left` is the number of pairs that are not
finished, and R = left * k is the number of their captions. A search has a row for each of these
captions. The captions of a pair are consecutive.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from torch import Tensor

from models.common.attention import attention_weights


@dataclass
class Difference:
    """Encoded images of a batch of pairs: the input of the decoder and of the loss terms."""

    memory: Tensor  # (B, N, D), the decoder's input; (B, 2N, D) for separate attention to each image
    before: Tensor  # (B, N, D): the pair encoding, before any interaction
    after: Tensor  # (B, N, D)

    def alignment(self, rows: list[int]) -> Tensor | None:
        return None


@dataclass
class Aligned(Difference):
    """Difference for models in which the two images attend to each other.

    It also holds queries of the after image and keys of the before image. They belong to the last layer
    in which the images attend to each other.
    """

    after_queries: Tensor  # (B, h, N, d)
    before_keys: Tensor  # (B, h, N, d)

    def alignment(self, rows: list[int]) -> Tensor:
        """Return the weights of before cells for after cells, (len(rows), N, N) (SCORER, DIRL Eq. 5)."""
        return attention_weights(self.after_queries[rows], self.before_keys[rows]).mean(1)


@dataclass
class States:
    """Tensors that one decoder layer computes, (B, L, D) each.

    There are five: the output of self-attention, the output of cross-attention, each of these two after
    residual and layer norm, and the output of the layer.
    """

    self_attended: Tensor  # the self-attention's output
    self_normed: Tensor  # the same after residual and layer norm
    cross_attended: Tensor  # the cross-attention's output
    cross_normed: Tensor  # the same after residual and layer norm
    out: Tensor  # the layer's output


@dataclass
class Words:
    """Output of the decoder for a batch of captions."""

    logits: Tensor  # (B, L, V)
    hidden: Tensor  # (B, L, D), the last layer's states, from which the logits are computed
    real: Tensor  # (B, L), true if the word to predict is not padding
    read: Tensor  # (B, L), true if the input word is not padding; includes <END> if it is an input
    layers: tuple[States, ...] = ()  # states of each layer; empty without `keep_layers`


@dataclass
class NextWord:
    """Output of a decoding step: the prediction of each caption's next word."""

    logits: Tensor  # (R, V)
    trace: Tensor | None  # (R, ...), the step's input for the decoder's `maps` and `word_weights`


class State(Protocol):
    """Protocol of a decoder's state in a search, for example its keys and values, or an LSTM's vectors."""

    def follow(self, parents: Tensor) -> None:
        """Replace each caption r by caption parents[r]; `parents` has the shape (R)."""

    def leave(self, ended: Tensor) -> None:
        """Remove the `ended` pairs; the n unfinished pairs become the first n rows (see Exchange)."""


SearchState = TypeVar("SearchState", bound=State)


class Decoder(Protocol[SearchState]):
    """Protocol of a captioner's decoder.

    A call predicts all words at once, for training. `begin` and `step` predict word by word, for a search.
    """

    compiles: bool  # True: `train.compile` compiles the decoder; False for a loop over words
    weighed: tuple[str, ...]  # names of the K inputs that the decoder weighs at each word; may be empty

    def __call__(
        self, tokens: Tensor, difference: Difference, keep_layers: bool = False, padding_is_key: bool = True
    ) -> Words:
        """Return the decoder's predictions for captions, each word predicted from the words before it.

        tokens: (k*B, L+1), k captions for each of B pairs, from <START> (never predicted) to <END>
        keep_layers: True if the result includes the states of each layer; some decoders ignore this
        padding_is_key: False if no position may attend to padding; some decoders ignore this
        """

    def begin(self, difference: Difference, beam: int = 1) -> SearchState:
        """Return the search state before the first word, for `beam` captions of each pair."""

    def step(self, tokens: Tensor, position: int, state: SearchState) -> NextWord:
        """Predict the next word of each caption; `tokens`, (R,), are the captions' words at `position`."""

    def maps(self, trace: Tensor | None, state: SearchState) -> Tensor | None:
        """Return the attention maps of one caption per pair, (B, L, I, N), or None if there is no attention.

        Each map sums to 1. I is 1 (one map for both images) or 2. `trace`, (B, L, ...), has each step's
        `NextWord.trace`, zeros after a caption's end. Trace and result are in the order of the batch; the
        rows of `state` may not be.
        """

    def word_weights(self, trace: Tensor | None) -> Tensor | None:
        """Return each word's weights of the decoder's K inputs, (B, L, K), summing to 1; None if K = 0."""


class Unweighed:
    """Base class of decoders that do not compute a weight for each of their inputs at each word.

    Other decoders do: for example, a decoder can weigh the vectors of the two images at each word.
    """

    weighed: tuple[str, ...] = ()

    def word_weights(self, trace: Tensor | None) -> None:
        """Return None, because the decoder computes no weights of its inputs. `trace` has no effect."""


class Exchange:
    """Reordering of the rows of a search: unfinished rows move to the front.

    A row holds a pair with all its captions. If n rows are unfinished, each ended row among the first n
    changes places with an unfinished row behind them. Then the first n rows are the unfinished rows.
    """

    def __init__(self, ended: Tensor):
        """Pair the ended rows among the first n with the unfinished rows after them; `ended` is (rows,)."""
        unfinished = ~ended
        self.left = int(unfinished.sum())  # n
        self.ended_rows = ended[: self.left].nonzero()[:, 0]
        self.unfinished_rows = self.left + unfinished[self.left :].nonzero()[:, 0]

    def move(self, rows: Tensor) -> None:
        rows[self.ended_rows] = rows[self.unfinished_rows]

    def apply(self, rows: Tensor) -> None:
        rows[self.ended_rows], rows[self.unfinished_rows] = rows[self.unfinished_rows], rows[self.ended_rows]

    def remaining(self, rows: Tensor) -> Tensor:
        """Return a copy of only the n unfinished rows, in the order that `move` gives them."""
        moved = rows.clone()
        self.move(moved)
        return moved[: self.left]
