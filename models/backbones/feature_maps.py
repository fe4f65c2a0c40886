"""Parts of backbones that are cut at given strides: their description, and the names of their tensors.

C: channels of a map.
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Description:
    """Feature maps of a network, and the normalisation of pixels."""

    channels: dict[int, int]  # stride -> channels of the map, C
    mean: tuple[float, ...]  # of RGB values in 0..1
    std: tuple[float, ...]
    side: int | None = None  # side of an image in pixels, if the network accepts only one size


def spellings(name: str) -> Iterator[str]:
    """Yield the possible names of a tensor in a network that is cut.

    `name` is the name of the tensor in the complete network. For example, "stages.0.weight" may become
    "inner.stages.0.weight" or "inner.stages_0.weight".
    """
    yield from (name, f"inner.{name}", f"inner.model.{name}", f"inner.{name.replace('.', '_', 1)}")
