"""Images in memory of more than 8 bits: read where their scale is known, else refused."""

import numpy as np
import pytest
from PIL import Image

from pipeline.captioning.features import opened
from pipeline.datasets.images import SCALED
from pipeline.io.errors import InputError


@pytest.mark.parametrize(
    "picture",
    [
        *(Image.new("I", (2, 2), value) for value in (-1, 1, 255, 65536)),
        *(Image.new("F", (2, 2), value) for value in (0, 0.5, 255)),
        Image.fromarray(np.full((2, 2), 200, np.uint16)),
    ],
    ids=lambda picture: f"{picture.mode} {picture.getpixel((0, 0))}",
)
def test_an_unknown_scale_is_refused_by_bits_and_python_that_converts(picture):
    with pytest.raises(InputError, match=r"^before has .* bits.*; convert it: Image\.fromarray\([^\n]*$"):
        opened(picture, "before")
    names = {"Image": Image, "numpy": np, "IMAGE": abs(np.asarray(picture)), "LARGEST": 1e6}
    assert opened(eval(SCALED.partition(", with")[0], names)).mode == "RGB"
