"""CLIP4IDC's switches: where its paper and its released program differ, and its ablations.

What is the training loop's is not here: optimiser, weight decay, clipping, schedule, patience, and `exchange`
(the distractor image stands for before) are settings of a phase in params.yaml.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ClipSwitches:
    """The defaults are the paper's (Guo et al., AACL-IJCNLP 2022)."""

    # both images' tokens (Eq. 4): a layer norm after they are joined
    joint_norm: bool = False
    # retrieval (Eq. 8): the sum of both ways' cross-entropies | their mean
    directions: Literal["sum", "mean"] = "sum"
    # adaptation: e and p learn at the encoder's rate, coef_lr times the phase's | at the phase's own
    new_rate: Literal["encoder", "base"] = "encoder"
    # what does not learn: nothing | patches, class token, positions and first norm of the image, and the
    # text's tables | those, but the captioner's words learn (the program's captioning on Spot-the-Diff) |
    # those, and in the captioning the whole image encoder (Table 7)
    frozen: Literal["none", "stem", "stem_but_words", "encoder"] = "none"
    # each layer of the captioner's decoder attends to the encoder's last layer | to that of its own number
    memory: Literal["last", "layerwise"] = "last"
    # the captioner's words and positions: its own, learned | CLIP's text tables, frozen with the stem
    words: Literal["own", "clip"] = "own"
    # pixels to patches: CLIP's linear map | for learning from few images, not published: 3 x 3 convolutions |
    # no pixels, but a frozen backbone's features, `patch` x `patch` cells of its grid averaged to one
    patches: Literal["linear", "convolutions", "features"] = "linear"
    # CLIP's, at random where nothing is pretrained | the first block on both images compares with the same
    # cell of the other one, the decoder looks at their difference (models/initialisation/clip4idc.py), and
    # the captioner's maps are as large as their width asks (not published, either)
    first_weights: Literal["clip", "counterpart"] = "clip"


RELEASED = ClipSwitches(
    joint_norm=True,
    directions="mean",
    new_rate="base",
    frozen="stem",
    memory="layerwise",
    words="clip",
)
