"""Compare a training step of `scorer_cbr` on random batches with a reference in float32.

A step is a forward pass, a backward pass and Adam. Both sides have the same initial weights.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from benchmarks.measures import Call, Row, measure_case, ratio
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
ALIKE = {"cv": 1.0, "cbr": 1.0}  # equal loss weights, so that a wrong gradient of any term is visible
RATE, DROPOUT = 2e-4, 0.1
# bfloat16 is left out if the device lacks it, because a step then takes twenty times as long
TYPES = ("float32", "bfloat16")[: 1 + (devices.precision("auto", devices.device()) == torch.bfloat16)]
# memory that the reference's step needs, in multiples of a batch's similarities, as measured
AT_ONCE = 13
ROUNDS = 2

Weights = dict[str, float]


@dataclass(frozen=True)
class Case:
    """Settings of a batch and of the model. A batch has both pairs of each scene."""

    size: str  # key of SIZES
    mtm: str  # kind of matching: per_head | summed
    scenes: int
    grid: int = 14  # cells on a side of the feature grid
    variant: str = "paper"  # paper | released, which needs the mtm `summed`


def rows() -> Iterator[Row]:
    """Yield the table's rows, for batches of 32 scenes, or 128 on a GPU.

    The three models are: the paper's with matching per head, the released one, and the paper's with matching
    summed over heads. Each has a row in float32 and a row in bfloat16. The reference is left out if it does
    not fit into memory.
    """
    scenes = 128 if torch.cuda.is_available() else 32
    for mtm, variant in (("per_head", "paper"), ("summed", "released"), ("summed", "paper")):
        case = Case("papers", mtm, scenes, variant=variant)
        check(replace(case, scenes=4))
        sides = {dtype: partial(step, "ours", dtype) for dtype in TYPES}
        if fits(case):
            sides["reference"] = partial(step, "reference", "float32")
        results = measure_case(sides, case, ROUNDS)
        reference = results.get("reference")
        for dtype in TYPES:
            name = f"training step, {variant}, {mtm}, {dtype}, {scenes} scenes (2 pairs each)"
            against = f"all similarities at once, float32, median of {ROUNDS}"
            yield name, against, str(results[dtype]), str(reference or "–"), ratio(results[dtype], reference)


def batch(case: Case) -> Batch:
    """Return random features and captions of each scene's changed pair, and then of its unchanged pair."""
    generator, S = torch.Generator().manual_seed(0), case.scenes
    images = torch.randn(3 * S, CHANNELS, case.grid, case.grid, generator=generator).half()
    tokens = torch.randint(END + 1, WORDS, (2 * S, LONGEST), generator=generator)
    # position of <END> in each caption
    end_positions = torch.randint(5, LONGEST, (2 * S,), generator=generator)[:, None]
    positions = torch.arange(LONGEST)
    tokens[:, 0] = START
    tokens = tokens.where(positions < end_positions, NULL).where(positions != end_positions, END)
    return Batch(images, torch.arange(S).repeat(2), torch.arange(S, 3 * S), tokens, 2)


def batch_on_device(case: Case) -> Batch:
    """Return the batch of a case in the device's memory; so the transfer is not measured."""
    whole, device = batch(case), devices.device()
    tensors = (x.to(device) for x in (whole.images, whole.before, whole.after, whole.tokens))
    return Batch(*tensors, whole.parts)


def parts(whole: Batch) -> list[Part]:
    """Split a batch into the reference's parts: (before images, after images, tokens); images in float32."""
    chunks = zip(*(x.chunk(whole.parts) for x in (whole.before, whole.after, whole.tokens)), strict=True)
    return [(whole.images[b].float(), whole.images[a].float(), tokens) for b, a, tokens in chunks]


def our_training(
    case: Case,
    dtype: str,
    dropout: float = DROPOUT,
    loss: Weights = LOSS,
    words: int = WORDS,
    longest: int = LONGEST,
) -> Training:
    """Return our training loop, to measure its method `step`. Initial weights are always the same."""
    torch.manual_seed(0)
    switches = {"mtm": case.mtm}
    settings = {"dropout": dropout, "temperature": 0.5, "variant": case.variant, "switches": switches}
    train = {"precision": dtype, "learning_rate": RATE}
    recipe = Recipe("none", "scorer_cbr", settings, SIZES[case.size], loss, {"train": train}, {}, {})
    model = recipe_file.build(recipe, recipe.sizes_for((CHANNELS, case.grid, case.grid), words, longest))
    return Training(model, recipe, 1, Path(tempfile.gettempdir()) / "no such state", lambda _: 0.0)


def reference_step(case: Case, dropout: float = DROPOUT, loss: Weights = LOSS) -> tuple[Captioner, Step]:
    """Return a model with the same initial weights as in `our_training`, and the reference's step for it."""
    model = our_training(case, "float32", dropout, loss).model
    if case.variant == "released":
        return model, ReleasedStep(model, loss, RATE, dropout)
    return model, Step(model, loss, RATE, case.mtm, dropout)


def step(side: str, dtype: str, case: Case) -> Call:
    """Return a function that makes a training step of one side, `ours` or `reference`."""
    if side == "ours":
        return partial(our_training(case, dtype).step, batch_on_device(case), 0)
    return partial(reference_step(case)[1], parts(batch_on_device(case)))


def check(case: Case) -> None:
    """Check, without dropout, that our losses (and in float32, gradients) agree with the reference's."""
    whole = batch(case)
    model, reference = reference_step(case, 0.0, ALIKE)
    expected = reference(parts(whole))
    for dtype, tolerance in zip(TYPES, (1e-4, 3e-2), strict=False):
        loop = our_training(case, dtype, 0.0, ALIKE)
        torch.testing.assert_close(loop.step(whole, 0), expected, rtol=tolerance, atol=0.0)
        if dtype == "float32":
            _same_gradients(loop.model, model)


def _same_gradients(our_model: Captioner, reference_model: Captioner) -> None:
    """Check that the gradients of two models differ by less than 3e-2 of a parameter's gradient norm.

    Rounding causes differences of 1e-5, and up to 4e-3 if two similarities are equal up to rounding. An error
    in the gradient, such as a missing mask, causes 9e-2 or more. Gradients of an attention's key biases are
    only rounding errors, so a small share of the norm of all gradients is also allowed.
    """
    trained_parameters = {
        name: parameter for name, parameter in our_model.named_parameters() if parameter.requires_grad
    }
    reference_gradients = {
        name: parameter.grad
        for name, parameter in reference_model.named_parameters()
        if name in trained_parameters
    }
    total_norm = torch.stack([grad.norm() for grad in reference_gradients.values()]).norm()
    for name, parameter in trained_parameters.items():
        difference = (parameter.grad - reference_gradients[name]).norm()
        assert difference < 3e-2 * reference_gradients[name].norm() + 1e-7 * total_norm, (
            name,
            difference,
            reference_gradients[name].norm(),
        )


def fits(case: Case, at_once: float = AT_ONCE) -> bool:
    """Return True if `at_once` copies of all similarities, (B, B, h, N, N), fit into the free memory."""
    heads = 1 if case.mtm == "summed" else SIZES[case.size]["heads"]
    similarities = 4 * heads * (case.scenes * case.grid**2) ** 2  # bytes
    free = torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else memory.free()
    return at_once * similarities < 0.8 * free
