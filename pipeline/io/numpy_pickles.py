"""Numbers and arrays of NumPy in a pickle, read without NumPy's own constructors.

NumPy's constructors trust the state of a pickle. The classes here take the places of the constructors. They
accept only plain types and data of the right length, and run no code of the file.
"""

import math
import re
from collections import OrderedDict
from typing import Any

import numpy as np

# booleans, whole numbers, floating-point and complex numbers, bytes and text
PLAIN = re.compile(r"b1|[iu][1248]|f[248]|c8|c16|[SU]\d{1,9}")


class Type:
    """Replacement for numpy.dtype. `type` is the dtype, or None if it is not a plain type."""

    def __init__(self, code: Any, *_: Any):
        is_plain = isinstance(code, str) and PLAIN.fullmatch(code)
        self.type = np.dtype(code) if is_plain else None

    def __setstate__(self, state: Any) -> None:
        """Set the byte order; the other entries of NumPy's state describe types that are not plain."""
        order = state[1] if isinstance(state, tuple) and len(state) > 1 else None
        if self.type is not None:
            self.type = self.type.newbyteorder(order) if order in ("<", ">", "|", "=") else None


def scalar(kind: Any = None, data: Any = None, *_: Any) -> Any:
    """Replacement for NumPy's constructor of a number: return a number, text or bytes of Python.

    Returns an empty dictionary if the type is not plain.
    """
    if not isinstance(kind, Type) or kind.type is None or not isinstance(data, bytes):
        return OrderedDict()
    if not kind.type.itemsize:  # an empty text
        return kind.type.type().item()
    return np.frombuffer(data, kind.type, 1)[0].item()


class Array(np.ndarray[Any, Any]):
    """Replacement for NumPy's constructor of an array. An array whose type is not plain stays empty."""

    def __new__(cls, *_: Any) -> "Array":
        return super().__new__(cls, (0,))

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, data = state
        if not isinstance(kind, Type) or kind.type is None or not isinstance(data, bytes):
            return
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError("an array has a wrong shape")
        if math.prod(shape) * kind.type.itemsize != len(data):
            raise ValueError("an array's data has a wrong length")
        checked: Any = 1, tuple(shape), kind.type, bool(fortran), data
        super().__setstate__(checked)


def no_bytes(*_: Any) -> bytes:
    """Replace the type bytes, which pickles of torch.save call without arguments."""
    return b""


class DroppedState:
    """Replacement for objects whose state is dropped, such as generators of random numbers."""

    def __new__(cls, *_: Any) -> "DroppedState":
        return super().__new__(cls)

    def __init__(self, *_: Any):
        pass

    def __setstate__(self, state: Any) -> None:
        pass


MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")  # old and new names
REPLACEMENTS: dict[str, Any] = {"numpy.dtype": Type, "builtins.bytes": no_bytes}
REPLACEMENTS |= {f"{module}.scalar": scalar for module in MODULES}
REPLACEMENTS |= {f"{module}._reconstruct": Array for module in MODULES}
DROPPED = ("numpy.random.", "random.Random")  # how the names of generators of random numbers begin


def replacement(name: str) -> Any:
    return DroppedState if name.startswith(DROPPED) else REPLACEMENTS.get(name)


def plain(value: Any) -> Any:
    """Return a value of a loaded file without the classes of this module."""
    if isinstance(value, DroppedState):
        return {}
    if isinstance(value, Type):
        return {} if value.type is None else value.type
    return value.view(np.ndarray) if isinstance(value, Array) else value
