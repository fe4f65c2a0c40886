"""IDC-PCL's switches: where its paper and its released program differ, and its ablations.

What is the training loop's is not here: schedules, batches, task weights and weight decay are settings of a
phase in params.yaml.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class PclSwitches:
    """The defaults are the paper's (Yao et al., AAAI 2022), or the standard part where it says nothing."""

    # [IMG1], [IMG2] and the text's [CLS]: a vector each | one, the word <CLS>
    image_tokens: Literal["own", "shared"] = "own"
    # channel c of a position: sin or cos of p / 10000^(2 floor(c/2) / D) | of p / 10000^(2c / D)
    positions: Literal["standard", "doubled"] = "standard"
    # layer norms divide by sqrt(variance + eps) | by the unbiased deviation + eps
    layer_norm: Literal["variance", "deviation"] = "variance"
    # captions: no longer than the longest one to train on | filled and written up to the phase's max_tokens,
    # L, and cut to L - 3 words
    length: Literal["longest", "max_tokens"] = "longest"
    # pre-training: no token sees padding | captions are filled to the longest, and all tokens see it
    padding: Literal["masked", "attended"] = "masked"
    # MVCL's negatives: unmasked cells' features | masked cells' features and unmasked cells' outputs
    mvcl_negatives: Literal["originals", "outputs"] = "originals"
    # a word's softmax: over the vocabulary | over [MASK] and [CLS], too, which are never right
    softmax: Literal["vocabulary", "all"] = "vocabulary"
    # decoding never writes <NULL>, <UNK>, <START>, [MASK] and [CLS] | may write any token
    barred: Literal["marks", "none"] = "marks"
    # captioning: the mean over chosen words, and over judged pairs | both sums
    reduction: Literal["mean", "sum"] = "mean"
    # pre-training: what a task does not use rests | gets zero gradients, so that Adam's means still move it
    idle_gradients: Literal["none", "zero"] = "none"
    # first weights: torch's, N(0, 1) for words and types, in which cells of sigma(W x) drown | words and
    # types scaled down and W up, so that they weigh alike | those, and the pair transformer's first block
    # looks at the same cell of the other image (counterpart_weights.py); both not published: for few pairs
    first_weights: Literal["torch", "balanced", "counterpart"] = "torch"
    # ablations (its Tables 3-5), in either variant: the tasks of pre-training
    tasks: Literal["all", "mlm_mvcl", "mlm"] = "all"
    # the single-image and the pair transformer | embeddings go straight into the cross-modal one
    difference_encoder: bool = True
    # captioning also judges whether anything changed
    distractor_judging: bool = True
    # data expansion (its Table 2): a stage of pre-training before, on CUB's single images with captions; a
    # fourth task beside the others, on NABirds' pairs of classes
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
