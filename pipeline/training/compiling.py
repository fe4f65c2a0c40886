"""A model's pieces compiled for a GPU by torch.compile: what `train.compile` says.

Compiled are the pair encoding, the difference and the decoder, forwards and backwards: many small operations
of fixed shapes, but for the batch and the captions' length, for which torch compiles once more. Left as they
are: a decoder that says so (`compiles`, decoder_protocol.py); the matching, whose kernels are compiled
already; all that speaks to other processes; Adam, which is one kernel; and validation, which computes what
decoding will.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from models.common.captioner import Captioner
from models.common.trainable import Trainable
from models.kernels.matching import TRITON

Value = TypeVar("Value")
PIECES = ("encoding", "difference", "decoder", "inter", "text")


def backend(wanted: str, on: torch.device) -> str | None:
    """`auto`: torch's own compiler, on a GPU that Triton writes for; else none, and none for `off`."""
    if wanted == "off" or on.type != "cuda" or not TRITON:
        return None
    return "inductor" if torch.cuda.get_device_capability(on) >= (8, 0) else None


def compile_pieces(model: Trainable, compiler: str) -> None:
    """From here on the pieces compile when they are first called. Names of weights stay as they are."""
    # else it tries several kernels and takes the fastest, which is not the same one in every run
    options: dict[str, str | int | bool | Callable[..., object]] = {"deterministic": True}
    as_they_are = {"decoder"} if isinstance(model, Captioner) and not model.decoder.compiles else set()
    for name, piece in model.named_children():
        if name in PIECES and name not in as_they_are:
            piece.compile(backend=compiler, options=options if compiler == "inductor" else None)


def eagerly(function: Callable[[Any], Value]) -> Callable[[Any], Value]:
    """The function, for which nothing is compiled."""
    return torch.compiler.set_stance("force_eager")(function)
