"""A training step of scorer_cbr on random batches: ours, and a reference with the same initial weights."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.reference_released import ReleasedStep
from benchmarks.reference_step import Part, Step
from models.common.captioner import Captioner
from pipeline.compute import devices, memory
from pipeline.config import recipe_file
from pipeline.config.recipe_file import Recipe
from pipeline.text.vocabularies import END, NULL, START
from pipeline.training.loop import Training
from pipeline.training.sampling import Batch

CHANNELS, WORDS, LONGEST = 1024, 76, 24
SIZES = {
    "papers": {"width": 512, "heads": 8, "layers": 2, "decoder_layers": 2, "word_width": 300},
    "tabletop": {"width": 128, "heads": 2, "layers": 1, "decoder_layers": 1, "word_width": 64},
}
LOSS = {"cv": 0.1, "cbr": 0.001}
ALIKE = {"cv": 1.0, "cbr": 1.0}  # equal weights, so that a wrong gradient of any term is visible
RATE, DROPOUT = 2e-4, 0.1
# without native bfloat16, a step in it takes twenty times as long
TYPES = ("float32", "bfloat16")[: 1 + (devices.precision("auto", devices.device()) == torch.bfloat16)]
# memory of the reference's step, in multiples of a batch's similarities; measured
AT_ONCE = 13

Weights = dict[str, float]


@dataclass(frozen=True)
class Case:
    """A batch with both pairs of each scene; it has each of a scene's three images once."""

    size: str  # of SIZES
    mtm: str  # per_head | summed
    scenes: int
    grid: int = 14  # cells per side
    variant: str = "paper"  # paper | released, whose mtm is `summed`


def batch(case: Case) -> Batch:
    """Return random features and captions: default and changed images, then default and distractor."""
    random, S = torch.Generator().manual_seed(0), case.scenes
    images = torch.randn(3 * S, CHANNELS, case.grid, case.grid, generator=random).half()
    return batch_of(images, S, WORDS, LONGEST, random)


def batch_of(images: Tensor, S: int, words: int, longest: int, random: torch.Generator) -> Batch:
    """Return both pairs of S scenes with default, changed and distractor `images`, and random captions."""
    tokens = torch.randint(END + 1, words, (2 * S, longest), generator=random)
    ends = torch.randint(5, longest, (2 * S,), generator=random)[:, None]  # of each caption
    place = torch.arange(longest)
    tokens[:, 0] = START
    tokens = tokens.where(place < ends, NULL).where(place != ends, END)
    return Batch(images, torch.arange(S).repeat(2), torch.arange(S, 3 * S), tokens, 2)


def ready(case: Case) -> Batch:
    """Return `batch` in the device's memory, because the transfer is measured elsewhere."""
    whole, on = batch(case), devices.device()
    tensors = (x.to(on) for x in (whole.images, whole.before, whole.after, whole.tokens))
    return Batch(*tensors, whole.parts)


def parts(whole: Batch) -> list[Part]:
    """Return the batch for the reference: both images of each pair in float32, in parts."""
    chunks = zip(*(x.chunk(whole.parts) for x in (whole.before, whole.after, whole.tokens)), strict=True)
    return [(whole.images[b].float(), whole.images[a].float(), tokens) for b, a, tokens in chunks]


def ours(
    case: Case,
    dtype: str,
    dropout: float = DROPOUT,
    loss: Weights = LOSS,
    words: int = WORDS,
    longest: int = LONGEST,
) -> Training:
    """Return a training loop, of which only `step` is used; its initial weights are always the same."""
    torch.manual_seed(0)
    switches = {"mtm": case.mtm}
    settings = {"dropout": dropout, "temperature": 0.5, "variant": case.variant, "switches": switches}
    train = {"precision": dtype, "learning_rate": RATE}
    recipe = Recipe("none", "scorer_cbr", settings, SIZES[case.size], loss, train, {}, {})
    model = recipe_file.build(recipe, recipe.sizes_for((CHANNELS, case.grid, case.grid), words, longest))
    return Training(model, recipe, 1, Path(tempfile.gettempdir()) / "no such state", lambda _: 0.0)


def theirs(case: Case, dropout: float = DROPOUT, loss: Weights = LOSS) -> tuple[Captioner, Step]:
    """Return a model with the same initial weights, and the reference's step on it."""
    model = ours(case, "float32", dropout, loss).model
    if case.variant == "released":
        return model, ReleasedStep(model, loss, RATE, dropout)
    return model, Step(model, loss, RATE, case.mtm, dropout)


def step(side: str, dtype: str, case: Case) -> Callable[[], Tensor]:
    """Return a function that makes a step of one side on a batch in the device's memory."""
    if side == "ours":
        return partial(ours(case, dtype).step, ready(case), 0)
    return partial(theirs(case)[1], parts(ready(case)))


def finished(function: Callable[[], object]) -> Callable[[], object]:
    """Return the function with a wait until the device has finished."""

    def whole() -> object:
        found = function()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return found

    return whole


def check(case: Case) -> None:
    """Check, without dropout, that losses and gradients agree in float32, and losses in bfloat16."""
    whole = batch(case)
    model, plain = theirs(case, 0.0, ALIKE)
    expected = plain(parts(whole))
    for dtype, tolerance in zip(TYPES, (1e-4, 3e-2), strict=False):
        mine = ours(case, dtype, 0.0, ALIKE)
        torch.testing.assert_close(mine.step(whole, 0), expected, rtol=tolerance, atol=0.0)
        if dtype == "float32":
            _same_gradients(mine.model, model)


def _same_gradients(mine: Captioner, other: Captioner) -> None:
    """Check that each parameter's gradient differs by less than 3e-2 of its norm.

    Rounding gives 1e-5. If two similarities are equal up to rounding, either may be the maximum that receives
    the gradient; such tokens of a batch gave 4e-3. Key biases of an attention have only rounding errors. A
    missing direction, mask or path of a gradient gives 9e-2 or more.
    """
    learns = {name: parameter for name, parameter in mine.named_parameters() if parameter.requires_grad}
    theirs = {name: parameter.grad for name, parameter in other.named_parameters() if name in learns}
    whole = torch.stack([grad.norm() for grad in theirs.values()]).norm()
    for name, parameter in learns.items():
        difference = (parameter.grad - theirs[name]).norm()
        assert difference < 3e-2 * theirs[name].norm() + 1e-7 * whole, (name, difference, theirs[name].norm())


def similarities(case: Case) -> int:
    """Return the bytes of one matching's similarities in float32, (B, B, h, N, N)."""
    heads = 1 if case.mtm == "summed" else SIZES[case.size]["heads"]
    return 4 * heads * (case.scenes * case.grid**2) ** 2


def fits(case: Case, at_once: float = AT_ONCE) -> bool:
    """Return whether `at_once` times all similarities fit into 80 % of the free memory."""
    free = torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else memory.free()
    return at_once * similarities(case) < 0.8 * free
