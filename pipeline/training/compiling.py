"""Compile parts of a model for a GPU with torch.compile (the setting `train.compile`).

These parts are compiled, unless their attribute `compiles` is False: the pair encoding, the difference, the
decoder, and the method `prepare` of loss terms, which computes CBR's imagined images. Not compiled: the
matching, whose kernels are compiled already; validation, which must compute the same as decoding; and the
sampling of captions in the reward phase, because their number and lengths vary.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch

from models.common.captioner import Regulariser
from models.common.trainable import Trainable
from models.kernels.matching import TRITON

Options = dict[str, str | int | bool | Callable[..., object]]
PIECES = ("encoding", "difference", "decoder", "inter", "text")


def backend(setting: str, device: torch.device) -> str | None:
    """Return the compiler for a device, or None for no compilation; `setting` is `train.compile`."""
    if setting == "off" or device.type != "cuda" or not TRITON:
        return None
    return "inductor" if torch.cuda.get_device_capability(device) >= (8, 0) else None


def compile_pieces(model: Trainable, compiler: str | None) -> None:
    """Set the compiler of the model's parts, which torch compiles when first called; None: no compiler."""
    if compiler is None:
        return
    # without this option, inductor times several kernels and takes the fastest, which differs from run to run
    options: Options | None = {"deterministic": True} if compiler == "inductor" else None
    for name, piece in model.named_children():
        if name in PIECES and getattr(piece, "compiles", True):
            piece.compile(backend=compiler, options=options)
    for module in model.modules():
        if isinstance(module, Regulariser) and type(module).prepare is not Regulariser.prepare:
            compiled = torch.compile(module.prepare, backend=compiler, options=options)
            setattr(module, "prepare", compiled)  # noqa: B010  # an attribute that hides the method


def eager() -> AbstractContextManager[object]:
    """Return a context manager in whose `with` block compiled code runs uncompiled."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled, and loading the compiler takes 2 s
        return nullcontext()
    return torch.compiler.set_stance("force_eager")
