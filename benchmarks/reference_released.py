"""Reference implementation of SCORER+CBR's training step as in the authors' program.

It uses the switches of the variant `released` (models/common/switches.py), unlike reference_step.py. It uses
only torch's operations, and the weights of a model of models/.

B: pairs; C: feature channels; H x W: grid; N = H*W: cells; D: width; h: heads; d = D/h; L: words.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.reference_step import NULL, Part, Step
from models.common.captioner import Captioner

LARGEST_SCALE = 100.0  # largest value of exp(s), the learned scale


class ReleasedStep(Step):
    """Training step of the authors' program. It changes the parameters of `model`.

    The parameters of backward reasoning are not trained.
    """

    def __init__(self, model: Captioner, loss: dict[str, float], rate: float, dropout: float):
        super().__init__(model, loss, rate, "summed", dropout)
        learns = [weight for weight in self.weights.values() if weight.requires_grad]
        self.optimiser = torch.optim.Adam(learns, lr=rate, foreach=False, fused=False)
        self.epsilon = 1e-6

    def __call__(self, parts: Sequence[Part]) -> Tensor:
        terms = super().__call__(parts)
        with torch.no_grad():
            self.weights["regularisers.cv.contrast.s"].clamp_(max=math.log(LARGEST_SCALE))
        return terms

    def terms(self, before: Tensor, after: Tensor, tokens: Tensor) -> Tensor:
        """Return the losses `cap`, `cv` and `cbr`; captions are padded to the longest caption of the data."""
        return super().terms(before, after, F.pad(tokens, (0, self.sizes.longest + 1 - tokens.shape[1])))

    def encoded(self, features: Tensor) -> Tensor:
        """Add each cell's position as two more channels, then encode the cells."""
        H, W = self.sizes.grid
        x = (2 * torch.arange(W) / W - 1).expand(H, W)
        y = (2 * torch.arange(H) / H - 1)[:, None].expand(H, W)
        positions = torch.stack([x, y]).to(features).expand(len(features), 2, H, W)
        return super().encoded(torch.cat([features, positions], 1))

    def joined(self, name: str, attended: Tensor) -> Tensor:
        """Apply the projection W^O in backward reasoning; elsewhere return `attended` unchanged."""
        return super().joined(name, attended) if name.startswith("regularisers") else attended

    def fused(self, before: Tensor, after: Tensor) -> Tensor:
        return torch.relu(self.drop(self.linear("difference.fuse", torch.cat([before, after], -1))))

    def exchanged(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.attended(q, k, v, dropout=self.dropout)

    def fed_forward(self, name: str, x: Tensor) -> Tensor:
        """Apply the feed-forward layer, whose hidden layer has D channels.

        The residual connection adds the hidden layer, not the input `x`, to the output.
        """
        u = F.gelu(self.linear(f"{name}.0", x))
        return self.drop(self.linear(f"{name}.2", u)) + u

    def sentence(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """Return the sum of the states of real tokens (not padding), divided by the length of the longest
        caption.
        """
        is_word = (tokens[:, :-1] != NULL)[..., None].float()
        return (hidden * is_word).sum(1) / self.sizes.longest

    def back(self, to_after: Tensor, imagined: Tensor, after: Tensor) -> Tensor:
        return to_after.T

    def scale(self, term: str) -> Tensor:
        return self.weights[f"regularisers.{term}.contrast.s"].exp()
