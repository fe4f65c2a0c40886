"""CLIP4IDC's captioner: a post-LN transformer encoder and decoder (section 2.4 and appendix B).

B: pairs; n: patches of an image; t = n + 1: tokens of an image, class token first; M = 2t: tokens of both
images; E: width; S: layers of the encoder, and also of the decoder; L: words; V: size of the vocabulary;
h: heads; d = E/h. F' is the output of the pair encoder (pair_encoders.py), (B, M, E).
"""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.clip4idc.encoders import ClipSizes, ClipSwitches, Tables
from models.common.attention import TransformerBlock, feed_forward
from models.common.decoder import DecoderLayer, TransformerDecoder, TransformerState
from models.common.decoder_protocol import Difference
from models.common.switches import PAPER

EPSILON = 1e-12  # of the layer norms
NORM = partial(nn.LayerNorm, eps=EPSILON)
DEVIATION = 0.02  # standard deviation of the initial weights


class MemoryEncoder(nn.Module):
    """Transformer encoder of the captioner. It computes the memories to which the decoder attends.

    Its input is the output of the pair encoder.
    """

    def __init__(self, sizes: ClipSizes, switches: ClipSwitches, dropout: float):
        super().__init__()
        self.layerwise = switches.memory == "layerwise"
        self.layers: Any = nn.ModuleList(
            TransformerBlock(sizes.joint, sizes.caption_heads, dropout, nn.GELU(), norm=NORM)
            for _ in range(sizes.caption_layers)
        )
        initialise(self, deviation(sizes, switches))

    def forward(self, x: Tensor) -> Tensor:
        """Encode tokens, (B, M, E): the last output, (B, 1, M, E), or all with `layerwise`, (B, S, M, E)."""
        outputs = []
        for layer in self.layers:
            x = layer(x)
            outputs.append(x)
        return torch.stack(outputs if self.layerwise else outputs[-1:], 1)


class ClipDecoder(TransformerDecoder):
    """Transformer decoder of the captioner.

    It attends to the outputs of all S encoder layers, (B, S, M, E), or of the last one, (B, 1, M, E).
    The logits of a state x are x W^T + b, where W is the word embedding.
    """

    def __init__(self, sizes: ClipSizes, switches: ClipSwitches, dropout: float):
        super().__init__()
        E = sizes.joint
        self.longest = sizes.longest
        self.tables = Tables(sizes.vocabulary, sizes.context, E, DEVIATION)
        self.norm = nn.LayerNorm(E, EPSILON)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(layer(sizes, dropout) for _ in range(sizes.caption_layers))
        self.head, self.head_norm = nn.Sequential(nn.Linear(E, E), nn.GELU()), nn.LayerNorm(E, EPSILON)
        self.bias = nn.Parameter(torch.zeros(sizes.vocabulary))
        initialise(self, deviation(sizes, switches))

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        return self.dropout(self.norm(self.tables(tokens, first)))

    def predict(self, x: Tensor) -> Tensor:
        return F.linear(self.head_norm(self.head(x)), self.tables.tokens.weight, self.bias)

    def memory_of(self, difference: Difference, number: int) -> Tensor:
        """Return the encoder output of the layer `number`, or of the last layer, (B, M, E)."""
        memory = difference.memory
        return memory[:, number if memory.shape[1] > 1 else 0]

    def maps(self, trace: Any, state: TransformerState) -> Tensor:
        """Return the last layer's attention to the n patches of both images, added: (B, L, 1, n), sum 1."""
        attention, keys = self.layers[-1].cross_attention, state.layers[-1].memory_keys
        before, after = attention.map(state.queries(trace), keys).chunk(2, -1)
        patches = before[..., 1:] + after[..., 1:]
        return state.one_map(patches / patches.sum(-1, keepdim=True))


def layer(sizes: ClipSizes, dropout: float) -> DecoderLayer:
    """Build a DecoderLayer with CLIP4IDC's feed-forward layer and epsilon of layer norms."""
    switches = replace(PAPER, norm_epsilon=EPSILON)
    decoder_layer = DecoderLayer(sizes.joint, sizes.caption_heads, dropout, switches)
    decoder_layer.feed_forward = feed_forward(sizes.joint, nn.GELU())
    return decoder_layer


def deviation(sizes: ClipSizes, switches: ClipSwitches) -> float:
    """Return the linear maps' initial standard deviation; DEVIATION is too small for a width E below 512."""
    return DEVIATION if switches.first_weights == "clip" else sizes.joint**-0.5


@torch.no_grad()
def initialise(module: nn.Module, deviation: float) -> None:
    """Initialise a module's linear maps: weights from N(0, deviation^2), biases 0."""
    for linear in module.modules():
        if isinstance(linear, nn.Linear):
            linear.weight.normal_(0.0, deviation)
            linear.bias.zero_()
