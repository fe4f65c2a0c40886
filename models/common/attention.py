"""Multi-head attention (Vaswani et al., 2017), and the Transformer block of the papers' encoders.

SCORER (Eq. 5-6) and the caption decoder use the attention.
B: pairs; T: tokens; L: queries; M: keys; D: width; h: heads; d = D/h.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

# number of attention weights from which a CPU computes them again in the backward pass, to save memory
RECOMPUTED = 1 << 23


class MultiHeadAttention(nn.Module):
    """Multi-head attention: Concat_i softmax(q_i k_i^T / sqrt(d)) v_i over heads i, then W^O.

    `dropout` is applied to the attention weights. Without `output`, the linear map W^O is left out.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0, bias: bool = True, output: bool = True):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width, bias)
        self.key = nn.Linear(width, width, bias)
        self.value = nn.Linear(width, width, bias)
        self.output: Any = nn.Linear(width, width, bias) if output else nn.Identity()

    def split(self, projected: Tensor) -> Tensor:
        """Split a projection into heads: (B, L, D) -> (B, h, L, d)."""
        return projected.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def queries(self, x: Tensor) -> Tensor:
        return self.split(self.query(x))

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.split(self.key(x)), self.split(self.value(x))

    def projections(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of all heads, (B, h, L, d) each, for x, (B, L, D)."""
        q, k, v = jointly(x, self.query, self.key, self.value)
        return self.split(q), self.split(k), self.split(v)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, causal: bool = False, real: Tensor | None = None
    ) -> Tensor:
        return self.output(self.weighed(q, k, v, causal, real))

    def weighed(
        self, q: Tensor, k: Tensor, v: Tensor, causal: bool = False, real: Tensor | None = None
    ) -> Tensor:
        """Return the heads' joined outputs before W^O: q (B, h, L, d), k and v (B, h, M, d) -> (B, L, D).

        With `causal`, a query sees no later keys. With `real`, (B, M), it sees only keys for which `real` is
        true.
        """
        p = self.dropout if self.training else 0.0
        if recomputes(q, k, p):
            heads = checkpoint(attended, q, k, v, causal, real, p, use_reentrant=False)
        else:
            heads = attended(q, k, v, causal, real, p)
        return heads.transpose(1, 2).flatten(2)  # (B, L, D)

    def map(self, q: Tensor, k: Tensor) -> Tensor:
        return attention_weights(q, k).mean(1)

    def forward(self, x: Tensor, memory: Tensor, causal: bool = False, real: Tensor | None = None) -> Tensor:
        """Let x, (B, L, D), attend to memory, (B, M, D); masks as in `weighed`."""
        if x is memory:
            return self.attend(*self.projections(x), causal, real)
        return self.attend(self.queries(x), *self.keys_values(memory), causal, real)


def recomputes(q: Tensor, k: Tensor, dropout: float) -> bool:
    """Return True if the backward pass recomputes the attention weights, which torch would store on a CPU."""
    if dropout == 0 or q.device.type != "cpu" or not q.requires_grad or torch.compiler.is_compiling():
        return False
    return q.shape[:-1].numel() * k.shape[-2] >= RECOMPUTED


def attended(q: Tensor, k: Tensor, v: Tensor, causal: bool, real: Tensor | None, dropout: float) -> Tensor:
    """Return the outputs of the heads, (B, h, L, d). `dropout`: rate of the attention weights' dropout."""
    if q.requires_grad and q.device.type == "cpu" and q.dtype == torch.bfloat16:
        # the fused kernel's backward pass is slower here: 22 instead of 7 ms for 16 x 2 heads x 196 x 196
        return F.dropout(attention_weights(q, k, causal, real).to(v.dtype), dropout) @ v
    if real is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal)
    mask = allowed(q, k, causal, real)
    return F.scaled_dot_product_attention(q, k, v, mask, dropout_p=dropout)


def jointly(x: Tensor, *maps: nn.Linear) -> tuple[Tensor, ...]:
    # on a CPU the copies around one product took 3 % of a training step
    return one_product(x, *maps) if x.is_cuda else tuple(map_(x) for map_ in maps)


def one_product(x: Tensor, *maps: Any) -> tuple[Tensor, ...]:
    """Apply linear maps, all with a bias or all without, to x, (..., D), by one matrix product."""
    weight = torch.cat([map_.weight for map_ in maps])
    bias = None if maps[0].bias is None else torch.cat([map_.bias for map_ in maps])
    return F.linear(x, weight, bias).split([map_.out_features for map_ in maps], -1)


class RespectiveAttention(nn.Module):
    """Attention to each image separately: [MHA(x, X_bef, X_bef) ; MHA(x, X_aft, X_aft)] W + b.

    This is the fusion `respective` of SCORER's supplement. The matrix W maps 2D channels to D channels, and
    replaces W^O. Both images share the matrices W^Q, W^K and W^V. A memory is (B, 2M, D): the M tokens of
    the before image, then the M tokens of the after image. The methods work like the methods of the same
    names in MultiHeadAttention, but there are 2M keys and 2M values.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0):
        super().__init__()
        self.each = MultiHeadAttention(width, heads, dropout, output=False)
        self.output = nn.Linear(2 * width, width)

    @property
    def query(self) -> nn.Linear:
        return self.each.query

    def split(self, projected: Tensor) -> Tensor:
        return self.each.split(projected)

    def queries(self, x: Tensor) -> Tensor:
        return self.each.queries(x)

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        return self.each.keys_values(memory)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.output(self.weighed(q, k, v))

    def weighed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return both images' attention, joined, without W: (B, h, L, d), (B, h, 2M, d) -> (B, L, 2D)."""
        images = zip(k.chunk(2, 2), v.chunk(2, 2), strict=True)  # keys and values of each image
        return torch.cat([self.each.weighed(q, *keys_values) for keys_values in images], -1)

    def map(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the weights averaged over heads and images: q (B, h, L, d), k (B, h, 2M, d) -> (B, L, M)."""
        before, after = (self.each.map(q, keys) for keys in k.chunk(2, 2))
        return (before + after) / 2


def attention_weights(q: Tensor, k: Tensor, causal: bool = False, real: Tensor | None = None) -> Tensor:
    """Return softmax(q k^T / sqrt(d)), 0 for hidden keys: q (B, h, L, d), k (B, h, M, d) -> (B, h, L, M)."""
    scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)  # q is smaller than the product
    if causal or real is not None:
        scores = scores.masked_fill(~allowed(q, k, causal, real), -math.inf)
    return scores.softmax(-1)


def allowed(q: Tensor, k: Tensor, causal: bool, real: Tensor | None) -> Tensor:
    """Return a mask of keys to see, (L, M) or (B, 1, L, M); the last query has the place of the last key."""
    L, M = q.shape[-2], k.shape[-2]
    mask = torch.ones(L, M, dtype=torch.bool, device=q.device)
    mask = mask.tril(M - L) if causal else mask
    return mask if real is None else mask & real[:, None, None]


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
