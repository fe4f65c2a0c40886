"""A training step of CLIP4IDC's captioning at the paper's size, compared with a reference.

Both sides have the same initial weights. `python -m benchmarks.clip_step SIDE SCENES` makes a step of one
side, `ours` or `reference`. It prints the memory that the step adds to the process, in bytes, and its time in
seconds.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.alone import Measured, ratio, risen
from benchmarks.reference_clip import Part, Step
from benchmarks.training import batch_of
from models.common.captioner import Captioner
from pipeline.compute import devices
from pipeline.config import recipe_file
from pipeline.config.recipe_file import Recipe
from pipeline.training.loop import Training
from pipeline.training.sampling import Batch

FULL = {  # sizes of the paper's section 2 and appendix B: ViT-B/32, split into 9 + 3 blocks, CLIP's words
    **{"patch": 32, "width": 768, "heads": 12, "intra": 9, "inter": 3},
    **{"text_width": 512, "text_heads": 8, "text_layers": 12, "context": 77},
    **{"joint": 512, "caption_heads": 8, "caption_layers": 3},
}
SMALL = {
    **{"patch": 8, "width": 24, "heads": 3, "intra": 2, "inter": 2},
    **{"text_width": 16, "text_heads": 2, "text_layers": 1, "context": 40},
    **{"joint": 16, "caption_heads": 2, "caption_layers": 2},
}
SIDE, WORDS, LONGEST = 224, 49_408, 32
SMALL_SIDE, SMALL_WORDS = 32, 60
RATE, DROPOUT = 1e-4, 0.1


def ours(full: bool, dropout: float = DROPOUT) -> Training:
    """Return our training loop, to measure its method `step`. Initial weights are always the same."""
    torch.manual_seed(0)
    settings = {"dropout": dropout, "coef_lr": 1.0, "temperature": 0.01}
    train = {"precision": "float32", "learning_rate": RATE, "weight_decay": 0.0}
    recipe = Recipe("none", "clip4idc", settings, FULL if full else SMALL, {}, train, {}, {})
    side, words = (SIDE, WORDS) if full else (SMALL_SIDE, SMALL_WORDS)
    model = recipe_file.build(recipe, recipe.sizes_for((3, side, side), words, LONGEST))
    return Training(model, recipe, 1, Path(tempfile.gettempdir()) / "no such state", lambda _: 0.0)


def theirs(full: bool, dropout: float = DROPOUT) -> tuple[Captioner, Step]:
    """Return a model with the same initial weights as in `ours`, and the reference's step for it."""
    model = ours(full, dropout).model
    return model, Step(model, RATE, dropout)


def made(full: bool, scenes: int) -> Batch:
    """Return a batch of random pixels and captions with two pairs of each scene.

    First come the pairs of default and changed images, then the pairs of default and distractor images.
    """
    side, words = (SIDE, WORDS) if full else (SMALL_SIDE, SMALL_WORDS)
    random = torch.Generator().manual_seed(0)
    shape = (3 * scenes, 3, side, side)
    images = torch.randint(0, 256, shape, generator=random, dtype=torch.uint8)
    return batch_of(images, scenes, words, LONGEST, random)


def parts(whole: Batch) -> list[Part]:
    """Split a batch into the parts that the reference takes: (before images, after images, tokens) each."""
    chunks = zip(*(x.chunk(whole.parts) for x in (whole.before, whole.after, whole.tokens)), strict=True)
    return [(whole.images[b], whole.images[a], tokens) for b, a, tokens in chunks]


def step(side: str, full: bool, scenes: int) -> Callable[[], Tensor]:
    """Return a function that makes a training step of one side, `ours` or `reference`."""
    whole = made(full, scenes)
    if side == "ours":
        return partial(ours(full).step, whole, 0)
    return partial(theirs(full)[1], parts(whole))


def check() -> None:
    """Check with a small model, without dropout, that both sides give the same loss and gradients."""
    whole, (model, plain), mine = made(False, 3), theirs(False, 0.0), ours(False, 0.0)
    torch.testing.assert_close(mine.step(whole, 0)[0], plain(parts(whole)), rtol=1e-5, atol=0.0)
    given = dict(mine.model.named_parameters())
    for name, parameter in model.named_parameters():
        if not name.endswith("key.bias"):  # its gradient is only rounding errors
            torch.testing.assert_close(given[name].grad, parameter.grad, rtol=1e-3, atol=1e-6)


def measure(side: str, scenes: int) -> Measured:
    """Measure a training step of one side in a new process."""
    command = [sys.executable, "-m", "benchmarks.clip_step", side, str(scenes)]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    bytes_, seconds = found.stdout.split()
    return Measured(int(bytes_), float(seconds))


def rows(scenes: int = 16) -> Iterator[tuple[str, ...]]:
    """Check that both sides agree; then measure them, and yield the table's row.

    Each side makes one step in a process of its own, after a warm-up on one scene.
    """
    check()
    both = {side: measure(side, scenes) for side in ("ours", "reference")}
    mine, plain = both["ours"], both["reference"]
    name = f"CLIP4IDC's captioning step, float32, {scenes} scenes (2 pairs each)"
    yield name, "the plainest step, once", str(mine), str(plain), ratio(mine, plain)


if __name__ == "__main__":
    asked, count = sys.argv[1], int(sys.argv[2])
    devices.repeatable()
    step(asked, True, 1)()
    print(*risen(step(asked, True, count)))
