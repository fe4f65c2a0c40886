"""Which device and precision to compute with, and how to make it repeatable."""

import os
from contextlib import AbstractContextManager

import torch


def device() -> torch.device:
    """This process's GPU where there is one (process_group.py; the first one alone), else the processor."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    # by number: other threads have their own current one
    return torch.device("cuda", torch.cuda.current_device())


def identity() -> str:
    """What of this machine decides the bytes of a result: the kind of device, and the number of threads."""
    cuda = torch.cuda.is_available()
    # of a machine's GPUs the first, so that several processes have one answer
    name = torch.cuda.get_device_name(0) if cuda else f"cpu {torch.backends.cpu.get_cpu_capability()}"
    return f"{name}, {torch.get_num_threads()} threads"


def precision(wanted: str, on: torch.device) -> torch.dtype:
    """`auto` is bfloat16 where the device computes in it natively, else float32."""
    if wanted == "auto":
        wanted = "bfloat16" if _has_bfloat16(on) else "float32"
    return {"bfloat16": torch.bfloat16, "float32": torch.float32}[wanted]


def autocast(on: torch.device, dtype: torch.dtype) -> AbstractContextManager[object]:
    """torch.autocast in `dtype`; nothing at all in float32."""
    return torch.autocast(on.type, dtype=dtype, enabled=dtype != torch.float32)


def repeatable() -> None:
    """The same program on the same machine gives the same bits: only deterministic algorithms."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # what use_deterministic_algorithms(True) sets, too, but without loading torch's compiler, which takes 2 s
    torch.set_deterministic_debug_mode("error")
    # nothing of ours reads memory that it has not written; filling it costs a fifth of a step
    # (a property that torch gives the module as it loads: none that a checker can see)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False


def _has_bfloat16(on: torch.device) -> bool:
    if on.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
