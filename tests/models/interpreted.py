"""Run the Triton kernels in Triton's interpreter, on a processor: a program of its own.

`interpreted.py CASES RESULTS`: Triton decides at its first import whether it interprets.
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from models.kernels import matching_gpu


def computed(case: dict) -> dict:
    """`case`: queries, keys, grad; `precision` as torch.set_float32_matmul_precision takes it."""
    torch.set_float32_matmul_precision(case["precision"])
    found = matching_gpu.locate(case["queries"], case["keys"])
    gradients = matching_gpu.spread(case["grad"], case["queries"], case["keys"], *found[1:])
    return {"found": found, "gradients": gradients}


if __name__ == "__main__":
    cases = torch.load(sys.argv[1])
    torch.save({name: computed(case) for name, case in cases.items()}, sys.argv[2])
