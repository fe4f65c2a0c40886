"""The matching's Triton kernels against plain torch: in the interpreter, and on a GPU if there is one."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from models.kernels import matching, matching_plain

ROOT = Path(__file__).parents[3]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not matching.TRITON, reason="Triton is not installed"),
]
on_a_gpu = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 0),
    reason="no GPU of compute capability 8.0",
)
SHAPES = {  # B, A, h, N, M, d: no multiples of the tiles
    "a paper's head": (1, 1, 1, 196, 196, 64),
    "one wide head": (1, 1, 1, 130, 140, 72),
    "few against many": (2, 2, 1, 5, 340, 7),  # more tiles than are unrolled
    "many against few": (1, 2, 1, 270, 33, 16),
    "one of each": (1, 1, 1, 1, 1, 1),
}


def operands(B, A, h, N, M, d, dtype, whole=False):
    """Return operands with the models' strides; `whole`: integers, with exact products and many ties."""
    random = torch.Generator().manual_seed(0)
    shapes = (B, N, h, d), (A, M, h, d)
    pick = (lambda s: torch.randint(-2, 3, s, generator=random)) if whole else None
    q, k = (
        (pick(s) if whole else torch.randn(s, generator=random)).to(dtype).transpose(1, 2) for s in shapes
    )
    return {"queries": q, "keys": k, "grad": torch.randn(B, A, h, generator=random)}


def cases():
    made = {
        (name, dtype): operands(*shape, dtype, whole=True)
        for name, shape in SHAPES.items()
        for dtype in (torch.float32, torch.float16)
    }
    made |= {"random": operands(1, 2, 2, 70, 150, 40, torch.float32)}
    made |= {"sparse": operands(5, 6, 2, 20, 20, 16, torch.float32)}
    made["sparse"]["grad"] *= (torch.arange(30).view(5, 6, 1) % 7 == 0) + 2.0**-22
    made["sparse"]["grad"][2] *= 2.0**-30  # negligible is relative to the image's largest gradient
    made |= {"nan": operands(2, 1, 2, 70, 150, 40, torch.float32)}
    made["nan"]["queries"][1, 0, 69, 3] = math.copysign(math.nan, -1.0)
    made |= {"zero rows": operands(1, 1, 1, 3, 3, 2, torch.float32)}
    made["zero rows"]["queries"] = torch.tensor([[[[-0.0, 0.0], [0.0, 0.0], [-1.0, -1.0]]]])
    return made


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    torch.save(cases(), folder / "cases")
    command = [sys.executable, "-W", "error", Path(__file__).with_name("interpreted.py")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([*command, folder / "cases", folder / "results"], check=True, env=environment)
    return torch.load(folder / "results")


def check(case, result, rtol=1e-5, atol=1e-6):
    q, k = case["queries"], case["keys"]
    matches, *places = matching_plain.locate(q, k)
    torch.testing.assert_close(result["found"][0], matches.float(), rtol=rtol, atol=atol, equal_nan=True)
    expected = matching_plain.spread(case["grad"], q, k, *places)
    for mine, theirs in zip(result["gradients"], expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", SHAPES)
def test_any_shape_and_every_tie(interpreted, name, dtype):
    rtol = 1e-5 if dtype == torch.float32 else 2e-3  # the gradients' last bit
    check(cases()[name, dtype], interpreted[name, dtype], rtol)


@pytest.mark.parametrize("name", ["random", "zero rows"])
def test_random_numbers_and_zeros_of_both_signs(interpreted, name):
    check(cases()[name], interpreted[name])


def test_pairs_with_a_negligible_gradient_are_left_out(interpreted):
    case, (count, which) = cases()["sparse"], interpreted["sparse"]["listed"]
    size = case["grad"].abs().amax(-1).tolist()
    for b, row in enumerate(size):
        columns = [max(other[a] for other in size) for a in range(len(row))]
        wanted = [a for a, x in enumerate(row) if x > 2.0**-20 * min(max(row), columns[a])]
        assert which[b, : count[b]].tolist() == wanted
    assert 0 < count.sum() < 30
    q, k = case["queries"], case["keys"]
    whole = matching_plain.spread(case["grad"], q, k, *matching_plain.locate(q, k)[1:])
    for mine, exact in zip(interpreted["sparse"]["gradients"], whole, strict=True):
        # the error is a few millionths of the image's largest gradient
        assert ((mine - exact).flatten(1).abs().amax(1) <= 2.0**-18 * exact.flatten(1).abs().amax(1)).all()


def test_nan_reaches_the_matching(interpreted):
    matches = interpreted["nan"]["found"][0]
    assert matches[1, :, 0].isnan().all()
    assert matches[0].isfinite().all()
    assert matches[:, :, 1].isfinite().all()


@pytest.mark.parametrize(
    ("capability", "dtype", "d", "parts"),
    [(80, torch.bfloat16, 512, 1), (80, torch.float16, 64, 1), (90, torch.bfloat16, 64, 3)],
)
def test_the_kernels_compile_for_gpus(capability, dtype, d, parts):
    """Check types, layouts and shared memory, which the interpreter does not."""
    from models.kernels import matching_gpu, matching_kernels

    x = torch.empty(1, 1, 196, d, dtype=dtype)  # on no device: as on one with little shared memory
    fixed = {"N": 196, "M": 196, "D": d}
    kind = {torch.bfloat16: "*bf16", torch.float16: "*fp16"}[dtype]
    kinds = dict.fromkeys(("own", "others", "to"), kind) | {"best": "*fp32", "grad": "*fp32"}
    kinds |= {"at": "*fp16", "own_at": "*fp16"} | dict.fromkeys(("other_at", "count", "which"), "*i32")
    sizes, how = matching_gpu._nearest_tiles(196, d)
    compiled(matching_kernels.nearest, fixed | sizes | {"IMAGES": 16}, kinds, how, capability)
    compiled(matching_kernels.places, fixed | sizes, kinds, how, capability)
    sizes, how = matching_gpu._sum_tiles(x, 196, 196, d)
    compiled(matching_kernels.sum_gradients, fixed | sizes | {"PARTS": parts}, kinds, how, capability)


def compiled(kernel, fixed, kinds, how, capability):
    """Compile a kernel for pointers and strides divisible by 16, and adjacent channels."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    fixed = fixed | {name: 1 for name in kernel.arg_names if name.endswith("channel")}
    types = {name: "constexpr" if name in fixed else kinds.get(name, "i32") for name in kernel.arg_names}
    even = [name for name in types if name in kinds or name.endswith(("image", "head", "token", "part"))]
    aligned = {(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in even}
    source = ASTSource(fn=kernel, signature=types, constexprs=fixed, attrs=aligned)
    built = compile(source, GPUTarget("cuda", capability, 32), how)
    assert built.metadata.shared <= 99 * 1024  # the least of compute capability 8.x
    assert "atom" not in built.asm["ptx"]


@on_a_gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", SHAPES)
def test_on_a_gpu(name, dtype):
    from models.kernels import matching_gpu

    case = operands(*SHAPES[name], dtype, whole=True)
    there = {key: value.cuda() for key, value in case.items()}
    both = there["queries"], there["keys"]
    assert matching.implementation(*both) is matching_gpu
    found = matching_gpu.locate(*both)
    gradients, again = (matching_gpu.spread(there["grad"], *both) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(gradients, again, strict=True))
    result = {"found": [x.cpu() for x in found], "gradients": [x.cpu() for x in gradients]}
    check(case, result, 1e-2 if dtype == torch.bfloat16 else 2e-3)
