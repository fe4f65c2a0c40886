"""Reference implementation of the attention maps of greedy and beam search."""

import torch
from torch import Tensor

from models.common.attention import RespectiveAttention, attention_weights
from models.common.captioner import Captioner, Difference
from pipeline.text.vocabularies import START


def of_memory(memory: Tensor) -> Difference:
    """Return a Difference with this memory."""
    return Difference(memory, memory, memory)


@torch.no_grad()
def looked(model: Captioner, memory: Tensor, words: list[int]) -> Tensor:
    """Return each word's map, L x N, from all words at once; memory: 1 x N x D, words: token ids."""
    x = model.decoder.embed(torch.tensor([[START, *words[:-1]]]))
    for layer in model.decoder.layers:
        before, x = x, layer(x, memory).out
    states = layer.norms[0](before + layer.self_attention(before, before, causal=True))
    attention = layer.cross_attention
    q, images = (
        attention.queries(states),
        memory.chunk(2 if isinstance(attention, RespectiveAttention) else 1, 1),
    )
    maps = [attention_weights(q, attention.keys_values(image)[0]).mean(1)[0] for image in images]
    return sum(maps) / len(maps)
