"""Pillow's settings hold while an image is decoded, in any number of threads, and are restored afterwards."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import TiffImagePlugin

from pipeline.datasets.pillow_settings import decoding


def settings():
    return list(warnings.filters), TiffImagePlugin.READ_LIBTIFF


def test_the_settings_are_restored_after_the_last_thread():
    before, barrier = settings(), threading.Barrier(4)

    def decode(number):
        barrier.wait(10)
        with decoding():
            seen = TiffImagePlugin.READ_LIBTIFF
            warnings.warn_explicit("damaged", UserWarning, "x.py", number, "PIL.TiffImagePlugin")
            barrier.wait(10)
        return seen

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(decode, range(4)))
    assert settings() == before


def test_an_error_restores_the_settings():
    before = settings()
    with pytest.raises(ValueError, match="broken"), decoding(), decoding():
        raise ValueError("broken")
    assert settings() == before
