"""Sizes of IDC-PCL, and switches: options in which the paper, the released program and the ablations differ.

Schedules, batch sizes, task weights and weight decay are settings of a phase in params.yaml.
"""

from dataclasses import dataclass
from typing import Literal

from models.common.grid_embedding import DataSizes


@dataclass(frozen=True)
class PclSizes(DataSizes):
    """Sizes of IDC-PCL."""

    multiples = (("width", "heads"), ("width", 2))

    width: int  # D
    heads: int
    single: int  # blocks of the single-image transformer
    pair: int  # blocks of the pair transformer
    cross: int  # blocks of the cross-modal transformer
    pool: int  # a cell of the model is the mean of pool x pool cells of the feature store

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(side % self.pool for side in self.grid):
            raise ValueError(f"pool {self.pool} does not divide the grid of {self.grid[0]} x {self.grid[1]}")

    @property
    def cells(self) -> tuple[int, int]:
        return self.grid[0] // self.pool, self.grid[1] // self.pool


@dataclass(frozen=True)
class PclSwitches:
    """Switches of IDC-PCL; a default is the paper's value, or the usual choice if the paper gives none.

    The comment above a switch describes its values, separated by |.
    """

    # embeddings of [IMG1], [IMG2] and the text's [CLS]: separate vectors | the same vector, that of [CLS]
    image_tokens: Literal["own", "shared"] = "own"
    # channel c of the embedding of position p: sin or cos of p / 10000^(2 floor(c/2) / D) | sin or cos of
    # p / 10000^(2c / D)
    positions: Literal["standard", "doubled"] = "standard"
    # layer norms divide by sqrt(variance + eps) | by the unbiased standard deviation + eps
    layer_norm: Literal["variance", "deviation"] = "variance"
    # captions have at most as many tokens as: the longest training caption | the phase's max_tokens, to which
    # they are padded; then they have up to max_tokens - 3 words
    length: Literal["longest", "max_tokens"] = "longest"
    # attention to padding in pretraining: padding is not a key | captions are padded to the longest caption,
    # and padding is a key
    padding: Literal["masked", "attended"] = "masked"
    # negatives of MVCL: features of unmasked cells | features of masked cells and outputs of unmasked cells
    mvcl_negatives: Literal["originals", "outputs"] = "originals"
    # softmax of the words: over the vocabulary | also over [MASK] and [CLS], which are never correct
    softmax: Literal["vocabulary", "all"] = "vocabulary"
    # decoding never writes <NULL>, <UNK>, <START>, [MASK] and [CLS] | may write any token
    barred: Literal["marks", "none"] = "marks"
    # losses of the captioning: means over the chosen words, or over the judged pairs | sums
    reduction: Literal["mean", "sum"] = "mean"
    # pretraining: tensors that a task does not use keep their values | get zero gradients, so that Adam's
    # running means still move them
    idle_gradients: Literal["none", "zero"] = "none"
    # initial weights: torch's, with which the embeddings of words and types, N(0, 1), are much larger than
    # cells, sigmoid(W x) | words and types are scaled down, and W up | the same, and the first block of the
    # pair transformer compares each cell with its counterpart (counterpart_weights.py). The last two are not
    # published. They are for training on few pairs
    first_weights: Literal["torch", "balanced", "counterpart"] = "torch"
    # from here on: ablations (Tables 3-5), with the same default in both variants
    # tasks of the pretraining: all | masked words and masked cells | only masked words
    tasks: Literal["all", "mlm_mvcl", "mlm"] = "all"
    # true: the network has the single-image and the pair transformer; false: only the cross-modal transformer
    difference_encoder: bool = True
    # true: the captioning also learns to classify changed and unchanged pairs
    distractor_judging: bool = True
    # data expansion (Table 2): none | an earlier pretraining phase on CUB's single images with captions | a
    # fourth task on NABirds' pairs of images with classes | both
    extra_data: Literal["none", "cub", "nabirds", "cub_nabirds"] = "none"


RELEASED = PclSwitches(
    image_tokens="shared",
    positions="doubled",
    layer_norm="deviation",
    length="max_tokens",
    padding="attended",
    mvcl_negatives="outputs",
    softmax="all",
    barred="none",
    reduction="sum",
    idle_gradients="zero",
)
