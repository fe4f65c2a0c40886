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

        This base class returns None: in its models, the images do not attend to each other.
        """
        return None


@dataclass
class Aligned(Difference):
    """Difference with queries and keys of the last layer in which the images attend to each other."""

    after_queries: Tensor  # (B, h, N, d)
    before_keys: Tensor  # (B, h, N, d)

    def alignment(self, rows: list[int]) -> Tensor:
        """Return the attention of the after images' cells to the before images' cells, (len(rows), N, N).

        This attention (SCORER Eq. 5, DIRL Eq. 5) is averaged over heads. The weights of a cell of the after
        image, in the last dimension, sum to 1. `rows` selects pairs; all pairs would need much memory.
        """
        return attention_weights(self.after_queries[rows], self.before_keys[rows]).mean(1)


@dataclass
class States:
    """States of one decoder layer, (B, L, D) each."""

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
    looked: Tensor | None  # (R, ...), the step's input for the decoder's `maps` and `word_weights`


class State(Protocol):
    """Protocol of a decoder's state in a search, for example its keys and values, or an LSTM's vectors."""

    def follow(self, parents: Tensor) -> None:
        """Replace each caption r by caption parents[r]; `parents` has the shape (R)."""

    def leave(self, ended: Tensor) -> None:
        """Remove the ended pairs; `ended`, (left,), is true or false for each pair still in the search.

        The remaining pairs get the rows that `Exchange(ended)` assigns to them.
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
        """Predict each of the words 1 to L of captions from the words before it.

        `tokens`, (k*B, L+1), are the captions with <START> and <END>.
        """

    def begin(self, difference: Difference, beam: int = 1) -> SearchState:
        """Return the search state before the first word, for `beam` captions of each pair."""

    def step(self, tokens: Tensor, position: int, state: SearchState) -> NextWord:
        """Predict the next word of each caption; `tokens`, (R,), are the captions' words at `position`."""

    def maps(self, looked: Tensor | None, state: SearchState) -> Tensor | None:
        """Return the attention maps of one caption per pair, (B, L, I, N), or None if there is no attention.

        Each map sums to 1. I is 1 if a word has one map for both images, and 2 if a word has one map for each
        image. `looked`, (B, L, ...), contains `NextWord.looked` of all steps. Its pairs have the order that
        they had in `begin`. It is zero after the end of a caption.
        """

    def word_weights(self, looked: Tensor | None) -> Tensor | None:
        """Return the weights of the K inputs at each word, (B, L, K), with sum 1; None if K is 0."""


class Unweighed:
    """Base class of decoders that do not weigh inputs at each word."""

    weighed: tuple[str, ...] = ()

    def word_weights(self, looked: Tensor | None) -> None:
        """Return None, because there are no weights."""


class Exchange:
    """Reordering of the rows of a search, after which the n unfinished rows are the first n rows.

    Each ended row among the first n rows is exchanged with an unfinished row after them.
    """

    def __init__(self, ended: Tensor):
        """Find the rows to exchange; `ended` has a value for each row, true if the row has ended."""
        unfinished = ~ended
        self.left = int(unfinished.sum())  # n
        self.ended_rows = ended[: self.left].nonzero()[:, 0]
        self.unfinished_rows = self.left + unfinished[self.left :].nonzero()[:, 0]

    def move(self, rows: Tensor) -> None:
        """Copy an unfinished row to each ended row among the first n rows, in place.

        n is the number of unfinished rows. The copied rows are those after the first n rows, and are not
        changed. Afterwards, the first n rows hold all unfinished rows.
        """
        rows[self.ended_rows] = rows[self.unfinished_rows]

    def apply(self, rows: Tensor) -> None:
        """Exchange each ended row among the first n rows with an unfinished row after them, in place."""
        rows[self.ended_rows], rows[self.unfinished_rows] = rows[self.unfinished_rows], rows[self.ended_rows]

    def remaining(self, rows: Tensor) -> Tensor:
        """Return a new tensor with only the unfinished rows, in the order after the exchange."""
        moved = rows.clone()
        self.move(moved)
        return moved[: self.left]
