"""CLIP's maps in 16 bits, as CLIP4IDC's released program trains them: `half_weights` of a phase.

Weights and biases of linear maps and convolutions of both towers are of 16 bits, with their gradients and
what the optimiser keeps of them, and so are the towers' activations. Layer norms, tokens, positions and the
captioner stay of 32 bits; vectors and F' become so before they are compared or captioned.
"""

from torch import Tensor, nn


class WideNorm(nn.LayerNorm):
    """A layer norm computed in 32 bits."""

    def forward(self, x: Tensor) -> Tensor:
        """... x D, of any type."""
        return super().forward(x.float()).to(x.dtype)


def halve(model: nn.Module) -> None:
    """Make the towers of an adapting model, or of its captioner, such ones; names stay as they are."""
    names = ("encoding", "inter", "text", "difference.inter")
    for name, tower in model.named_modules():
        if name in names:
            _halve(tower)


def _halve(tower: nn.Module) -> None:
    for module in tower.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            module.half()
        elif type(module) is nn.LayerNorm:
            module.__class__ = WideNorm
