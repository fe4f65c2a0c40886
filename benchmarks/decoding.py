"""Compare greedy decoding at the papers' size with the same search without cached keys and values."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from benchmarks import reference
from models import Sizes, build
from models.common.captioner import Captioner
from pipeline.compute import devices
from pipeline.decoding.greedy import greedy
from pipeline.text.vocabularies import END, NULL

SIZES = Sizes(1024, (14, 14), 76, 24, 512, 8, 2, 2, 300)
BATCH = 256  # pairs in a batch, on both sides
ENDS = (14.0, -100.0)  # biases of <END>: with the first, lengths differ; with the second, no caption ends

Captions = list[list[int]]
Side = Callable[[], Captions]


def model(end: float) -> Captioner:
    """Return an untrained model; `end` is the bias of the token <END>.

    The decoder's memory strongly influences the model's words, so captions differ between pairs.
    """
    torch.manual_seed(0)
    model = build("rr", SIZES, {"dropout": 0.1}).eval()
    with torch.no_grad():
        model.decoder.vocabulary.weight.mul_(8)
        model.decoder.vocabulary.bias[END] = end
        for layer in model.decoder.layers:
            layer.cross_attention.output.weight.mul_(20)
    return model.to(devices.device())


def cases(
    together: int, alone: int = 128, ends: tuple[float, ...] = ENDS
) -> Iterator[tuple[str, Side, Side, str]]:
    """Yield the name of a case, our function, the reference's function, and a description of the reference.

    Both functions give equal captions, which is checked before. There are two references. One decodes
    `together` pairs in batches. The other decodes `alone` pairs one at a time. Our function always decodes
    the same pairs as the reference.
    """
    for end in ends:
        captioner, memory = model(end), memories(together)
        for pairs, theirs, said in (
            (together, batched, f"no cached keys and values, batches of {BATCH}"),
            (alone, reference.one_at_a_time, "no cached keys and values, one pair at a time"),
        ):
            mine, other = (bound(side, captioner, memory[:pairs]) for side in (ours, theirs))
            found = mine()
            assert found == other()
            tokens = [len(caption) for caption in found]
            mean = sum(tokens) / pairs
            yield (
                f"decode {pairs:,} pairs, {min(tokens)} to {max(tokens)} tokens, mean {mean:.1f}",
                mine,
                other,
                said,
            )


def memories(pairs: int) -> Tensor:
    """Return random memories of `pairs` pairs, (pairs, cells, width)."""
    memory = torch.randn(pairs, SIZES.grid[0] * SIZES.grid[1], SIZES.width)
    return memory.to(devices.device())


def bound(side: Callable[[Captioner, Tensor], Captions], captioner: Captioner, memory: Tensor) -> Side:
    """Return a function without arguments that calls `side` with this model and memory, without gradients."""
    return torch.inference_mode()(lambda: side(captioner, memory))


def ours(captioner: Captioner, memory: Tensor) -> list[list[int]]:
    """Decode `memory` with our search; return the tokens of each caption up to its <END>."""
    parts = map(reference.of_memory, memory.split(BATCH))
    found = [row for part in parts for row in greedy(captioner, part).tolist()]
    return [[token for token in row if token != NULL] for row in found]


def batched(captioner: Captioner, memory: Tensor) -> list[list[int]]:
    """Decode `memory` with the reference, in batches of the same size as ours."""
    return [caption for part in memory.split(BATCH) for caption in reference.uncached(captioner, part)]
