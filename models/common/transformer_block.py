"""Transformer block of the papers' encoders: self-attention, then feed-forward.

B: pairs; T: tokens; D: width; h: heads; d = D/h.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention


class QuickGelu(nn.Module):
    """CLIP's activation function, g(z) = z sigmoid(1.702 z)."""

    def forward(self, z: Tensor) -> Tensor:
        return z * torch.sigmoid(1.702 * z)


def feed_forward(width: int, activation: nn.Module, dropout: float | None = None) -> nn.Sequential:
    """Build the feed-forward layer W_2 drop(g(W_1 x)); g is `activation`, and W_1 maps to 4D channels."""
    inner = [activation] if dropout is None else [activation, nn.Dropout(dropout)]
    return nn.Sequential(nn.Linear(width, 4 * width), *inner, nn.Linear(4 * width, width))


class TransformerBlock(nn.Module):
    """Transformer block: self-attention MHA, then a feed-forward layer FF.

    post-LN: y = LN_1(x + drop(MHA(x))), then LN_2(y + drop(FF(y)))
    pre-LN (`pre_norm`): y = x + drop(MHA(LN_1(x))), then y + drop(FF(LN_2(y)))

    Without `activation` there is no FF; this is only possible with post-LN. With `inner_dropout`, FF has
    dropout after its activation. `norm` builds a layer norm. `name` is the name of FF in saved weights.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        activation: nn.Module | None = None,
        inner_dropout: bool = False,
        pre_norm: bool = False,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
        name: str = "feed_forward",
    ):
        super().__init__()
        self.pre_norm, self.name = pre_norm, name if activation else ""
        if pre_norm:
            self.norm_1, self.norm_2 = norm(width), norm(width)
        self.attention = MultiHeadAttention(width, heads, dropout)
        if activation:
            self.add_module(name, feed_forward(width, activation, dropout if inner_dropout else None))
        if not pre_norm and activation:
            self.norms = nn.ModuleList(norm(width) for _ in range(2))
        elif not pre_norm:
            self.norm = norm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, causal: bool = False) -> Tensor:
        """Apply the block to tokens x, (B, T, D); with `causal`, a token does not see later ones."""
        y = self.norm_1(x) if self.pre_norm else x
        return self.rest(x, self.attention(y, y, causal))

    @property
    def feed_forward_layer(self) -> Any:
        """Feed-forward layer FF, an nn.Sequential; only a block with an activation has this layer."""
        return getattr(self, self.name)

    def rest(self, x: Tensor, attended: Tensor) -> Tensor:
        """Apply all layers after the attention; x is the block's input, `attended` the attention's output."""
        y = x + self.dropout(attended)
        if not self.name:
            return self.norm(y)
        if self.pre_norm:
            return y + self.dropout(self.feed_forward_layer(self.norm_2(y)))
        y = self.norms[0](y)
        return self.norms[1](y + self.dropout(self.feed_forward_layer(y)))

    def weights(self, x: Tensor) -> Tensor:
        """Return the self-attention's weights for tokens x, (B, T, D), averaged over heads: (B, T, T)."""
        y = self.norm_1(x) if self.pre_norm else x
        return self.attention.map(self.attention.queries(y), self.attention.keys_values(y)[0])
