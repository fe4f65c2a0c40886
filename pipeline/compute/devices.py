"""Device and precision of computations, and settings for repeatable results."""

import os
from contextlib import AbstractContextManager
from functools import cache

import torch


def device() -> torch.device:
    """Return this process's GPU, which process_group.py has chosen, or the CPU if there is no GPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    # the device includes the GPU's number, because another GPU may be current in other threads
    return torch.device("cuda", torch.cuda.current_device())


def upload(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a CPU tensor to this process's GPU, if there is one, while the GPU goes on computing."""
    gpu = device()
    if gpu.type == "cpu" or tensor.device.type != "cpu":
        return tensor
    stream = _copy_stream(gpu)
    with torch.cuda.stream(stream):
        copy = tensor.pin_memory().to(gpu, non_blocking=True)
    stream.synchronize()
    copy.record_stream(torch.cuda.default_stream(gpu))  # the memory is kept until that stream has used it
    return copy


@cache
def _copy_stream(gpu: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(gpu)


def identity() -> str:
    """Return device and threads; where this text is the same on a machine, results are the same bits."""
    cuda = torch.cuda.is_available()
    # the name of GPU 0 in every process, so that all processes return the same text
    name = torch.cuda.get_device_name(0) if cuda else f"cpu {torch.backends.cpu.get_cpu_capability()}"
    return f"{name}, {torch.get_num_threads()} threads"


def precision(name: str, device: torch.device) -> torch.dtype:
    """Return the torch type of the name; `auto` is bfloat16 if the device natively has it, else float32."""
    if name == "auto":
        name = "bfloat16" if _has_bfloat16(device) else "float32"
    return {"bfloat16": torch.bfloat16, "float32": torch.float32}[name]


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[object]:
    return torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32)


def repeatable() -> None:
    """Make torch use only deterministic algorithms: the same program gives the same bits on a machine."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # like use_deterministic_algorithms(True), which also loads torch's compiler for 2 s
    torch.set_deterministic_debug_mode("error")
    # our code reads no memory that it has not written, and filling it costs a fifth of a step
    # (torch adds the attribute at run time, so type checkers do not see it)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False


def _has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # names that torch may change; without them the precision `auto` is float32
    tests = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in tests)
