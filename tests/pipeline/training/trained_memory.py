"""What training takes, in a process of its own: two numbers.

The bytes that pipeline/training/memory_planning.py tells for it, and those that the resident memory of this
process rises by over two steps, with as many batches beside them as training reads ahead.
"""

import tempfile
from pathlib import Path

import torch

from pipeline.recipes import recipe_file
from pipeline.recipes.recipe_file import Recipe
from pipeline.training import memory_planning
from pipeline.training.loop import Training
from pipeline.training.sampling import Batch

SCENE = memory_planning.Scene(pairs=2, images=3)


def run(name: str, sizes: dict, grid: int, scenes: int, precision: str) -> tuple[Training, int]:
    """Two steps on made-up batches."""
    settings = {"dropout": 0.1} | ({} if name in ("rr", "subtraction") else {"temperature": 0.5})
    train = {"precision": precision, "learning_rate": 1e-4}
    losses = {"cv": 0.1, "cbr": 0.1}
    recipe = Recipe("none", name, settings, sizes, losses, train, {}, {})
    shape = (1024, grid, grid)
    model = recipe_file.build(recipe, recipe.sizes_for(shape, 76, 24))
    training = Training(model, recipe, 1, Path(tempfile.gettempdir()) / "no such state", lambda _: 0.0)
    need = memory_planning.demand(training.model, SCENE, training.device, training.dtype)
    pairs = scenes * SCENE.pairs
    ahead = [
        torch.ones(scenes * SCENE.images, *shape, dtype=torch.float16) for _ in range(memory_planning.AHEAD)
    ]
    places = torch.arange(pairs) % len(ahead[0])
    for step in range(2):
        batch = Batch(ahead[step], places, places, torch.full((pairs, 24), 3), SCENE.pairs)
        training.step(batch, step)
    best = {k: v.detach().clone() for k, v in model.state_dict().items()}
    assert best
    return training, memory_planning.peak(need, scenes)


def resident(of: str) -> int:
    """VmRSS: now; VmHWM: at most since `forget`."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[of].split()[0])


def forget() -> None:
    """What compiling took for a moment is no part of it."""
    Path("/proc/self/clear_refs").write_text("5")


def measured(out: Path, name: str, width: int, layers: int, grid: int, scenes: int, precision: str) -> None:
    """Write both numbers to the file `out`."""
    fixed = {"heads": 8, "decoder_layers": 2, "word_width": 300}
    run(name, {"width": 64, "layers": 1, **fixed}, 2, 2, precision)  # libraries and compiled loops
    forget()
    before = resident("VmRSS")
    _, told = run(name, {"width": width, "layers": layers, **fixed}, grid, scenes, precision)
    out.write_text(f"{told} {resident('VmHWM') - before}")
