"""CLIP4IDC's switches: options in which the paper, the released program and the ablations differ.

The settings of the training loop are in params.yaml: optimiser, weight decay, gradient clipping, schedule,
patience, and `exchange` (replace the before image by the distractor image).
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ClipSwitches:
    """Switches of CLIP4IDC; the defaults are the paper's. Comments list the values, separated by |."""

    # true: a layer norm follows after the tokens of both images are joined (Eq. 4)
    joint_norm: bool = False
    # retrieval (Eq. 8): sum of both directions' cross-entropies | their mean
    directions: Literal["sum", "mean"] = "sum"
    # learning rate of e and p (Eq. 4) in the adaptation: the rate of CLIP's encoder (coef_lr times the
    # phase's rate) | the phase's rate
    new_rate: Literal["encoder", "base"] = "encoder"
    # tensors that are not trained: none | patches, class token, positions and first layer norm of the image
    # encoder, and the text's word and position embeddings | as `stem`, but the captioner's word embeddings
    # are trained (the program on Spot-the-Diff) | as `stem`, and in captioning the whole image encoder
    # (Table 7)
    frozen: Literal["none", "stem", "stem_but_words", "encoder"] = "none"
    # a layer of the captioner's decoder attends to: the encoder's last layer | the encoder's layer of the
    # same number
    memory: Literal["last", "layerwise"] = "last"
    # the captioner's word and position embeddings: its own | CLIP's, frozen with the stem
    words: Literal["own", "clip"] = "own"
    # patches are computed by: CLIP's linear map | averaging `patch` x `patch` cells of a frozen backbone's
    # features, then a linear map (not published, for training on few images)
    patches: Literal["linear", "features"] = "linear"
    # initial weights: CLIP's | weights with which the first block that sees both images compares a token with
    # the same token of the other image, and the decoder attends to the difference
    # (models/initialisation/clip4idc.py); the captioner's maps are scaled to their width (not published)
    first_weights: Literal["clip", "counterpart"] = "clip"


RELEASED = ClipSwitches(
    joint_norm=True,
    directions="mean",
    new_rate="base",
    frozen="stem",
    memory="layerwise",
    words="clip",
)
