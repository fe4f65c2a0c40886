"""CLIP4IDC's switches: differences between its paper and its released program, and its ablations.

Settings of the training loop are in params.yaml: optimiser, weight decay, clipping, schedule, patience, and
`exchange` (replace the before image by the distractor image).
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ClipSwitches:
    """The defaults are the paper's (Guo et al., AACL-IJCNLP 2022)."""

    # tokens of both images (Eq. 4): a layer norm after they are joined
    joint_norm: bool = False
    # retrieval (Eq. 8): sum of both directions' cross-entropies | their mean
    directions: Literal["sum", "mean"] = "sum"
    # adaptation, learning rate of e and p: the encoder's, coef_lr times the phase's | the phase's
    new_rate: Literal["encoder", "base"] = "encoder"
    # not trained: nothing | patches, class token, positions and first norm of the image, and the text's
    # embeddings | the same without the captioner's words (the program on Spot-the-Diff) | as `stem`, and in
    # captioning the whole image encoder (Table 7)
    frozen: Literal["none", "stem", "stem_but_words", "encoder"] = "none"
    # layers of the captioner's decoder attend to: the encoder's last layer | the layer of the same number
    memory: Literal["last", "layerwise"] = "last"
    # the captioner's word and position embeddings: its own | CLIP's, frozen with the stem
    words: Literal["own", "clip"] = "own"
    # patches: CLIP's linear map | 3 x 3 convolutions | features of a frozen backbone, `patch` x `patch` cells
    # averaged. The last two are not published, and are for training on few images
    patches: Literal["linear", "convolutions", "features"] = "linear"
    # initialisation: CLIP's | the first block on both images attends to counterparts, the decoder attends to
    # the difference (models/initialisation/clip4idc.py), and the captioner's maps are scaled to their width
    # (not published)
    first_weights: Literal["clip", "counterpart"] = "clip"


RELEASED = ClipSwitches(
    joint_norm=True,
    directions="mean",
    new_rate="base",
    frozen="stem",
    memory="layerwise",
    words="clip",
)
