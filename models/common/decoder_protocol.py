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
        """Return the attention between the two images of each pair; `rows` are the indices of the pairs.

        This class stores no such attention, so its result is None. The subclass Aligned returns the
        attention.
        """
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
        """Return how the cells of the after images attend to the cells of the before images.

        The result, (len(rows), N, N), is averaged over heads (SCORER Eq. 5, DIRL Eq. 5). [r, i, j] is the
        weight that cell i of the after image gives to cell j of the before image. The weights of cell i sum
        to 1. Only the pairs with the indices `rows` are computed, to save memory.
        """
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
        """Remove the ended pairs from the state of the search.

        `ended` has one bool for each pair that is still in the search: True if the pair has ended now.
        Let n be the number of unfinished pairs. Afterwards, they are the first n pairs. The first ended
        pair among the first n is replaced with the first unfinished pair behind them, the second with
        the second, and so on. The other unfinished pairs keep their places (see class Exchange).
        """


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

        tokens: (k*B, L+1), the token ids of k captions for each of B pairs. A caption starts with
            <START> and ends with <END>. <START> is not predicted, so each caption has L predictions.
        difference: the encoded images of the B pairs
        keep_layers: True if the result includes the states of each layer. Some decoders ignore this.
        padding_is_key: False if no position may attend to padding. Some decoders ignore this.
        """

    def begin(self, difference: Difference, beam: int = 1) -> SearchState:
        """Return the search state before the first word, for `beam` captions of each pair."""

    def step(self, tokens: Tensor, position: int, state: SearchState) -> NextWord:
        """Predict the next word of each caption; `tokens`, (R,), are the captions' words at `position`."""

    def maps(self, trace: Tensor | None, state: SearchState) -> Tensor | None:
        """Return the attention maps of one caption per pair, (B, L, I, N), or None if there is no attention.

        Each map sums to 1. I is 1 if a word has one map for both images, and 2 if it has a map for each
        image. `trace`, (B, L, ...), has the `NextWord.trace` of each decoding step, and zeros after the end
        of a caption. The pairs in `trace` and in the result are in the order of the batch. The order of the
        rows of `state` can differ.
        """

    def word_weights(self, trace: Tensor | None) -> Tensor | None:
        """Return the weights that the decoder gives to its K inputs at each word, (B, L, K).

        The K weights of a word sum to 1. Returns None if the decoder does not weigh inputs (K = 0).
        `trace` holds what the decoding steps stored to compute the weights.
        """


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
        """Find the rows that are exchanged: ended rows among the first n, unfinished rows after them.

        `ended`, bool (rows,), is True for the rows whose pairs have ended. n is the number of the other
        rows; the attribute `left` stores n.
        """
        unfinished = ~ended
        self.left = int(unfinished.sum())  # n
        self.ended_rows = ended[: self.left].nonzero()[:, 0]
        self.unfinished_rows = self.left + unfinished[self.left :].nonzero()[:, 0]

    def move(self, rows: Tensor) -> None:
        """Copy unfinished rows over ended rows, in place; return nothing.

        Afterwards, the first n rows are the n unfinished rows. The first ended row of the first n rows
        is overwritten by the first unfinished row behind them, the second by the second, and so on. The
        rows behind the first n rows are not changed.
        """
        rows[self.ended_rows] = rows[self.unfinished_rows]

    def apply(self, rows: Tensor) -> None:
        """Reorder `rows` in place, so that the unfinished rows come first and the ended rows last.

        Let n be the number of unfinished rows. Each ended row among the first n rows is exchanged with an
        unfinished row after them. The other rows keep their places.
        """
        rows[self.ended_rows], rows[self.unfinished_rows] = rows[self.unfinished_rows], rows[self.ended_rows]

    def remaining(self, rows: Tensor) -> Tensor:
        """Return a new tensor with only the n unfinished rows of `rows`; `rows` is not changed.

        Each ended row among the first n rows is replaced with an unfinished row that lies after them. The
        other rows keep their places.
        """
        moved = rows.clone()
        self.move(moved)
        return moved[: self.left]
