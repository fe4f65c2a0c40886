"""How much memory training takes, before it starts: measured on a few scenes, not guessed.

What a step keeps for its backward pass is a polynomial of second degree in the scenes of a batch (the
matching compares all pairs of images). So three small forward passes tell it for every batch, of any model,
precision and device, and a new model needs no formula of its own. The rest is counted, and AT_MOST was
measured on a processor; on a GPU nothing was. Where processes share a batch they make these passes together,
so that what each keeps of the others' pairs is measured too; a process's scenes are then the variable.

To catch torch.OutOfMemoryError instead would do on a GPU alone, where it comes in the middle of a training
and names no batch that fits. On a processor there is none: Linux promises memory that it has not and kills
the process that uses it; torch raises a RuntimeError only for a single tensor beyond all memory (tried).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models import Model
from pipeline.compute import devices
from pipeline.datasets.schema import Pair, images_of
from pipeline.errors import InputError

GIB = 2**30
PROBES = (2, 3, 4)  # scenes; in a batch of one, shapes collapse and less is kept
AHEAD = 4  # batches in memory: the one in use, two read ahead, one being read (pipeline/training/sampling.py)
COPIES = 5  # of float32 parameters: themselves, gradients, Adam's two averages, the best so far
# of what is kept: with gradients on their way and what the allocator holds back; 1.8 to 2.6 on a processor
# (five models, 8 to 32 scenes: tests/pipeline/training/test_memory_planning.py measures again)
AT_MOST = 2.0


@dataclass(frozen=True)
class Scene:
    """What one scene brings into a batch."""

    pairs: int
    images: int  # float16 features C x H x W
    references: int = 1  # captions a pair


@dataclass(frozen=True)
class Demand:
    """Bytes of training with x scenes: fixed + linear x + quadratic x^2."""

    fixed: float
    linear: float
    quadratic: float


def scene_of(scenes: Sequence[tuple[Pair, ...]], references: int = 1) -> Scene:
    """The scene that stands for these, of equal numbers of pairs: with the most images that one has."""
    return Scene(len(scenes[0]), max(len(images_of(scene)) for scene in scenes), references)


def demand(model: Model, scene: Scene, device: torch.device, dtype: torch.dtype, held: int = 0) -> Demand:
    """What training the model takes of `device`, where it is, by this process's scenes of a batch.

    Beyond what the process has before: parameters and the optimiser's state are counted as if they were
    still to come, and `held` bytes of features. Leaves gradients, random numbers and the model as they were.
    Processes that share batches call it together.
    """
    kept = [_kept(model, scene, scenes, device, dtype) for scenes in PROBES]
    fixed, linear, quadratic = (AT_MOST * term for term in through(kept))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    fixed += held + parameters * (4 * COPIES + (0 if dtype == torch.float32 else dtype.itemsize))
    C, (H, W) = model.sizes.channels, model.sizes.grid
    read = 2 * scene.images * C * H * W * AHEAD  # on a GPU where features are held there, else fewer
    return Demand(fixed, linear + read, quadratic)


def together(needed: Demand, processes: int, device: torch.device) -> Demand:
    """What `processes` of such a demand take of one device's memory, by scenes of the batch that they share.

    A GPU is one process's own; the processor's memory is everyone's.
    """
    here = processes if device.type == "cpu" else 1
    return Demand(
        here * needed.fixed, here * needed.linear / processes, here * needed.quadratic / processes**2
    )


def through(values: Sequence[float]) -> tuple[float, float, float]:
    """The polynomial of second degree that is `values` at PROBES: its constant, linear, quadratic term."""
    first, second, third = values
    x, y, _ = PROBES  # one apart
    quadratic = (third - 2 * second + first) / 2
    linear = second - first - (x + y) * quadratic
    return first - linear * x - quadratic * x**2, linear, quadratic


def peak(needed: Demand, batch: int) -> int:
    """Bytes of training with `batch` scenes a batch, at most."""
    return round(needed.fixed + needed.linear * batch + needed.quadratic * batch**2)


def largest_batch(needed: Demand, available: int) -> int:
    """The most scenes a batch that fit into `available` bytes; 0 where not even one does."""
    batch = 0
    step = 1 << 20
    while step:
        if peak(needed, batch + step) <= available:
            batch += step
        step //= 2
    return batch


def check(needed: Demand, batch: int, available: int | None, processes: int = 1) -> None:
    """Raise InputError where training with `batch` scenes does not fit; None: nobody knows what is free.

    The batch that would fit is one that the processes can share.
    """
    if available is None or peak(needed, batch) <= available:
        return
    most = largest_batch(needed, available) // processes * processes
    remedy = f"train.batch {most} would fit" if most else f"not even train.batch {processes} would fit"
    raise InputError(
        f"training needs about {peak(needed, batch) / GIB:.1f} GiB at batch {batch}, "
        f"{available / GIB:.1f} GiB are free; {remedy}"
    )


def _kept(model: Model, scene: Scene, scenes: int, device: torch.device, dtype: torch.dtype) -> int:
    """Bytes that a forward pass over so many scenes keeps for its backward pass, parameters aside."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def note(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return x

    with (
        torch.random.fork_rng([device] if device.type == "cuda" else []),
        torch.autograd.graph.saved_tensors_hooks(note, lambda x: x),
        devices.autocast(device, dtype),
    ):
        losses = _losses(model, scene, scenes, device, dtype)
    total = sum(kept.values())
    del losses  # not earlier: an address that is freed may be given again
    return total


def _losses(
    model: Model, scene: Scene, scenes: int, device: torch.device, dtype: torch.dtype
) -> dict[str, Tensor]:
    """The losses of a made-up batch, with captions of the longest length."""
    sizes, pairs = model.sizes, scenes * scene.pairs
    images = torch.zeros(scenes * scene.images, sizes.channels, *sizes.grid, dtype=dtype, device=device)
    tokens = torch.ones(pairs * scene.references, sizes.longest, dtype=torch.int64, device=device)
    shown = torch.arange(pairs, device=device) % len(images)
    encoded = model.encoding(images)  # as pipeline/training/loop.py does
    return model.losses_of(encoded[shown], encoded[shown], tokens, scene.pairs)
