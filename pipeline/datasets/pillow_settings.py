"""Pillow's settings while this library decodes images; the program around it keeps its own settings."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from PIL import TiffImagePlugin

_LOCK, _USED = threading.Lock(), ExitStack()
_users: list[None] = []  # one entry for each thread that decodes


@contextmanager
def decoding() -> Iterator[None]:
    """Use libtiff for all TIFF files, and ignore Pillow's warnings, in the `with` block.

    Pillow's own reader mixes up planar bands of 16 bits. The warnings are on metadata, which no pixel depends
    on. The settings hold for all threads, so the first thread sets them, and the last restores them.
    """
    with _LOCK:
        _users.append(None)
        if len(_users) == 1:
            _USED.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", module=r"PIL\.")
            _USED.callback(setattr, TiffImagePlugin, "READ_LIBTIFF", TiffImagePlugin.READ_LIBTIFF)
            TiffImagePlugin.READ_LIBTIFF = True
    try:
        yield
    finally:
        with _LOCK:
            _users.pop()
            if not _users:
                _USED.close()
