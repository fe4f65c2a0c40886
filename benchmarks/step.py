"""Compare time and memory of a training step of `scorer_cbr` with a reference in float32.

A step is a forward pass, a backward pass and Adam.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch

from benchmarks.measures import Measured, Row, memory, ratio, seconds
from benchmarks.training import TYPES, Case, check, fits, step

ROUNDS = 2


def rows() -> Iterator[Row]:
    """Yield the table's rows, for batches of 32 scenes, or 128 on a GPU.

    There are three cases, in float32 and bfloat16: the matching per head, the variant `released`, and the
    matching summed over heads. The sides alternate. The reference is left out if it does not fit into memory.
    """
    scenes = 128 if torch.cuda.is_available() else 32
    for mtm, variant in (("per_head", "paper"), ("summed", "released"), ("summed", "paper")):
        case = Case("papers", mtm, scenes, variant=variant)
        check(replace(case, scenes=4))
        sides = {dtype: partial(step, "ours", dtype) for dtype in TYPES}
        if fits(case):
            sides["reference"] = partial(step, "reference", "float32")
        took = seconds({side: prepare(case) for side, prepare in sides.items()}, ROUNDS)
        both = {side: Measured(took[side], memory(prepare, case) or 0) for side, prepare in sides.items()}
        plain = both.get("reference")
        for dtype in TYPES:
            name = f"training step, {variant}, {mtm}, {dtype}, {scenes} scenes (2 pairs each)"
            against = f"all similarities at once, float32, median of {ROUNDS}"
            times = ratio(both[dtype], plain) if plain else "–"
            yield name, against, str(both[dtype]), str(plain or "–"), times
