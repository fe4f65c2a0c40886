"""Compare greedy decoding at the papers' size with the same search without cached keys and values."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.measures import Row, compare
from models import Sizes, build
from models.common.captioner import NEVER, Captioner, Difference
from pipeline.compute import devices
from pipeline.decoding.greedy import greedy
from pipeline.text.vocabularies import END, NULL, START

SIZES = Sizes(1024, (14, 14), 76, 24, 512, 8, 2, 2, 300)
PAIRS = 128
ENDS = (14.0, -100.0)  # biases of <END>: with the first, lengths differ; with the second, no caption ends


def rows() -> Iterator[Row]:
    """Yield the table's rows: two for each bias of the token <END>.

    The reference decodes all pairs together in one row, and one pair at a time in the other.
    """
    cells = SIZES.grid[0] * SIZES.grid[1]
    memory = torch.randn(PAIRS, cells, SIZES.width).to(devices.device())
    for end_bias in ENDS:
        captioner = model(end_bias)
        our_search = partial(ours, captioner, memory)
        captions = our_search()
        tokens = [len(caption) for caption in captions]
        name = f"decode {PAIRS} pairs, {min(tokens)} to {max(tokens)} tokens, mean {sum(tokens) / PAIRS:.1f}"
        for pairs, description in ((PAIRS, "all pairs together"), (1, "one pair at a time")):
            reference_search = partial(reference, captioner, memory, pairs)
            assert reference_search() == captions
            yield compare(name, our_search, reference_search, f"no cached keys and values, {description}", 3)


def model(end_bias: float) -> Captioner:
    """Return an untrained model; `end_bias` is the bias of the token <END>.

    The decoder's memory strongly influences the model's words, so captions differ between pairs.
    """
    torch.manual_seed(0)
    model = build("rr", SIZES, {"dropout": 0.1}).eval()
    with torch.no_grad():
        model.decoder.vocabulary.weight.mul_(8)
        model.decoder.vocabulary.bias[END] = end_bias
        for layer in model.decoder.layers:
            layer.cross_attention.output.weight.mul_(20)
    return model.to(devices.device())


def difference_of(memory: Tensor) -> Difference:
    """Wrap a decoder's memory, (B, N, D), as a Difference for decoding; its other tensors have no effect."""
    return Difference(memory, memory, memory)


@torch.inference_mode()
def ours(captioner: Captioner, memory: Tensor) -> list[list[int]]:
    """Decode `memory` with our search; return the tokens of each caption up to its <END>."""
    return [
        [token for token in row if token != NULL] for row in greedy(captioner, difference_of(memory)).tolist()
    ]


@torch.inference_mode()
def reference(captioner: Captioner, memory: Tensor, pairs: int) -> list[list[int]]:
    """Decode the memory in groups of `pairs` image pairs, as the released programs do."""
    return [caption for part in memory.split(pairs) for caption in uncached(captioner, part)]


def uncached(model: Captioner, memory: Tensor) -> list[list[int]]:
    """Decode as `ours`, but recompute all words of all pairs at every step, until all captions have ended."""
    tokens = torch.full((len(memory), 1), START, device=memory.device)
    ended = torch.zeros(len(memory), dtype=torch.bool, device=memory.device)
    while tokens.shape[1] < model.sizes.longest and not ended.all():
        padded = torch.cat([tokens, torch.full_like(tokens[:, :1], NULL)], 1)
        logits = model.decoder(padded, difference_of(memory)).logits[:, -1]
        logits[:, NEVER] = -torch.inf
        word = logits.argmax(-1).masked_fill(ended, NULL)
        tokens = torch.cat([tokens, word[:, None]], 1)
        ended |= word == END
    return [[token for token in row if token != NULL] for row in tokens[:, 1:].tolist()]
