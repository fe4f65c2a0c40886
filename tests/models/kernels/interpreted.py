"""Run the Triton kernels in Triton's interpreter on a CPU: `interpreted.py CASES RESULTS`.

It is a program of its own, because Triton decides at its first import whether it interprets.
"""

import os
import sys
import warnings
from collections.abc import Callable

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from models.kernels import matching_gpu, matching_kernels


def of_numbers(operation: Callable) -> Callable:
    """Run an operation of the interpreter, which has no bfloat16, in float32."""

    def interpreted(self, a, b, *rest):
        if a.dtype.scalar != tl.bfloat16:
            return operation(self, a, b, *rest)
        found = operation(self, _float32(a), _float32(b), *rest)
        return found if rest else _bfloat16(found)  # a product is added to a float32

    return interpreted


def _float32(x: TensorHandle) -> TensorHandle:
    return TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32)


def _bfloat16(x: TensorHandle) -> TensorHandle:
    return TensorHandle((x.data.view(np.uint32) >> 16).astype(np.uint16), tl.bfloat16)


def equal(a, b):
    """Replace the instruction of matching_kernels._equal: float16's 1 in each half that is equal."""
    low, high = (a & 0xFFFF) == (b & 0xFFFF), (a >> 16) == (b >> 16)
    return tl.where(low, 0x3C00, 0) | tl.where(high, 0x3C000000, 0)


def plus(a, b, kind):
    """Replace the instruction of matching_kernels._plus, for ones and zeros."""
    one = 0x3C00
    two = tl.constexpr(0x4000 if kind == tl.float16 else 0x3C80)
    halves = [tl.where(x & y & one > 0, two, (x | y) & one) for x, y in ((a, b), (a >> 16, b >> 16))]
    return halves[0] | (halves[1] << 16)


matching_kernels._equal, matching_kernels._plus = triton.jit(equal), triton.jit(plus)
# a loop's bound may be a loaded number
tl.tensor.__index__ = lambda self: int(self.handle.data.item())
InterpreterBuilder.create_dot = of_numbers(InterpreterBuilder.create_dot)
InterpreterBuilder.create_fadd = of_numbers(InterpreterBuilder.create_fadd)
warnings.filterwarnings("ignore", "All-NaN slice encountered")


def computed(case: dict) -> dict:
    operands = case["queries"], case["keys"]
    found = matching_gpu.locate(*operands)
    gradients = matching_gpu.spread(case["grad"], *operands)
    listed = matching_gpu._listed(case["grad"])
    return {"found": found, "gradients": gradients, "listed": listed}


if __name__ == "__main__":
    cases = torch.load(sys.argv[1])
    torch.save({name: computed(case) for name, case in cases.items()}, sys.argv[2])
