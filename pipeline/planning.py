"""How much memory training takes, before it starts: measured on a few scenes, not guessed.

What a step keeps for its backward pass is a polynomial of second degree in the scenes of a batch (the
matching compares all pairs of images). So three small forward passes tell it for every batch, of any model,
precision and device, and a new model needs no formula of its own. The rest is counted, and AT_MOST was
measured on a processor; on a GPU nothing was.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from models.captioner import Captioner
from pipeline import devices
from pipeline.errors import InputError

GIB = 2**30
PROBES = (2, 3, 4)  # scenes; in a batch of one, shapes collapse and less is kept
AHEAD = 4  # batches in memory: the one in use, two read ahead, one being read (pipeline/batches.py)
COPIES = 5  # of float32 parameters: themselves, gradients, Adam's two averages, the best so far
# of what is kept: with gradients on their way and what the allocator holds back; 1.8 to 2.6 on a processor
# (five models, 8 to 32 scenes: tests/pipeline/test_planning.py measures again)
AT_MOST = 2.0
MEMINFO, CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Scene:
    """What one scene brings into a batch."""

    pairs: int  # each with a caption
    images: int  # float16 features C x H x W


@dataclass(frozen=True)
class Demand:
    """Bytes of training with x scenes a batch: fixed + linear x + quadratic x^2."""

    fixed: float
    linear: float
    quadratic: float


def demand(model: Captioner, scene: Scene, device: torch.device, dtype: torch.dtype) -> Demand:
    """What training the model on batches of such scenes takes on `device`, of which it is.

    Beyond what the process has before: parameters and the optimiser's state are counted as if they were
    still to come. Leaves gradients, random numbers and the model as they were.
    """
    kept = [_kept(model, scene, scenes, device, dtype) for scenes in PROBES]
    fixed, linear, quadratic = (AT_MOST * term for term in through(kept))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    fixed += parameters * (4 * COPIES + (0 if dtype == torch.float32 else dtype.itemsize))
    C, (H, W) = model.sizes.channels, model.sizes.grid
    read = 2 * scene.images * C * H * W * (AHEAD if device.type == "cpu" else 1)
    return Demand(fixed, linear + read, quadratic)


def through(values: list[float]) -> tuple[float, float, float]:
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


def check(needed: Demand, batch: int, available: int | None) -> None:
    """Raise InputError where training with `batch` scenes does not fit; None: nobody knows what is free."""
    if available is None or peak(needed, batch) <= available:
        return
    most = largest_batch(needed, available)
    remedy = f"train.batch {most} would fit" if most else "not even train.batch 1 would fit"
    raise InputError(
        f"training needs about {peak(needed, batch) / GIB:.1f} GiB at batch {batch}, "
        f"{available / GIB:.1f} GiB are free; {remedy}"
    )


def free(device: torch.device, meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """Bytes that this process may still take on the device; None where the system does not tell.

    On a processor what the system can give without swapping, or what is left of a container's limit.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if not meminfo.exists():  # not Linux: free pages at least, where the system counts them
        known = "SC_AVPHYS_PAGES" in getattr(os, "sysconf_names", {})
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else None
    lines = dict(line.split(":") for line in meminfo.read_text().splitlines())
    available = 1024 * int(lines["MemAvailable"].split()[0])
    limit = _container(cgroup)
    return available if limit is None else min(available, limit)


def _container(cgroup: Path) -> int | None:
    """What is left of the limit of a control group (version 2); files that it has cached can go."""
    limit = cgroup / "memory.max"
    if not limit.exists() or limit.read_text().strip() == "max":
        return None
    used = int((cgroup / "memory.current").read_text())
    counts = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
    return int(limit.read_text()) - used + int(counts["inactive_file"])


def _kept(model: Captioner, scene: Scene, scenes: int, device: torch.device, dtype: torch.dtype) -> int:
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
    model: Captioner, scene: Scene, scenes: int, device: torch.device, dtype: torch.dtype
) -> dict[str, Tensor]:
    """The losses of a made-up batch, with captions of the longest length."""
    sizes, pairs = model.sizes, scenes * scene.pairs
    images = torch.zeros(scenes * scene.images, sizes.channels, *sizes.grid, dtype=dtype, device=device)
    tokens = torch.ones(pairs, sizes.longest, dtype=torch.int64, device=device)
    shown = torch.arange(pairs, device=device) % len(images)
    encoded = model.encoding(images)  # as pipeline/training.py does
    return model.losses_of(encoded[shown], encoded[shown], tokens, scene.pairs)
