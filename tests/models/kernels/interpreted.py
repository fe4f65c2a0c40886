"""Run the Triton kernels in Triton's interpreter, on a processor: a program of its own.

`interpreted.py CASES RESULTS`: Triton decides at its first import whether it interprets.
"""

import os
import sys
import warnings
from collections.abc import Callable

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from models.kernels import matching_gpu


def of_numbers(operation: Callable) -> Callable:
    """Triton's interpreter takes the bits of bfloat16 for whole numbers: give the operation float32."""

    def interpreted(self, a, b, *rest):
        if a.dtype.scalar != tl.bfloat16:
            return operation(self, a, b, *rest)
        found = operation(self, _float32(a), _float32(b), *rest)
        return found if rest else _bfloat16(found)  # a product is added to a float32

    return interpreted


def _float32(x: TensorHandle) -> TensorHandle:
    return TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32)


def _bfloat16(x: TensorHandle) -> TensorHandle:
    """Of numbers that bfloat16 has."""
    return TensorHandle((x.data.view(np.uint32) >> 16).astype(np.uint16), tl.bfloat16)


InterpreterBuilder.create_dot = of_numbers(InterpreterBuilder.create_dot)
InterpreterBuilder.create_fadd = of_numbers(InterpreterBuilder.create_fadd)
# the kernels look at rows of NaN as at any other
warnings.filterwarnings("ignore", "All-NaN slice encountered")


def computed(case: dict) -> dict:
    """`case`: queries, keys, grad; `precision` as torch.set_float32_matmul_precision takes it."""
    torch.set_float32_matmul_precision(case["precision"])
    found = matching_gpu.locate(case["queries"], case["keys"])
    gradients = matching_gpu.spread(case["grad"], case["queries"], case["keys"], *found[1:])
    return {"found": found, "gradients": gradients}


if __name__ == "__main__":
    cases = torch.load(sys.argv[1])
    torch.save({name: computed(case) for name, case in cases.items()}, sys.argv[2])
