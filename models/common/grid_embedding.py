"""First layer of models whose input is a feature grid: it maps the grid's cells to the model's width.

B: images; C: feature channels; H x W: grid; N = H*W: cells; D: width.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# (name of a size; number, or name of another size, of which it must be a multiple)
Multiples = tuple[tuple[str, str | int], ...]


@dataclass(frozen=True)
class DataSizes:
    """Sizes of a model's input and output, which the dataset determines."""

    multiples: ClassVar[Multiples] = ()

    channels: int  # C; 3 for pixels
    grid: tuple[int, int]  # H, W: rows and columns of cells, or of pixels
    vocabulary: int  # V: words, or CLIP's tokens
    longest: int  # L, tokens of a caption with <START> and <END>

    def __post_init__(self) -> None:
        """Raise ValueError if a size is not divisible by its divisor in `multiples`."""
        for name, factor in self.multiples:
            divisor = factor if isinstance(factor, int) else getattr(self, factor)
            if getattr(self, name) % divisor:
                text = f"{divisor}" if factor == divisor else f"{factor} ({divisor})"
                raise ValueError(f"{name} {getattr(self, name)} is not a multiple of {text}")


@dataclass(frozen=True)
class Sizes(DataSizes):
    """Sizes of SCORER, DIRL and their baselines."""

    width: int  # D
    heads: int
    layers: int  # number of layers of SCORER's reconstruction, or of DIRL's interaction
    decoder_layers: int
    word_width: int  # e


@dataclass(frozen=True)
class TransformerSizes(DataSizes):
    """Sizes of CARD, and of VARD with a transformer decoder."""

    multiples = (("width", "heads"), ("word_width", 2))

    width: int  # D
    heads: int
    decoder_layers: int
    word_width: int  # e


class PairMap(nn.Linear):
    """Linear map W [before ; after] + b of each cell, from 2D to D channels (SCORER Eq. 7, DIRL Eq. 7)."""

    def __init__(self, width: int):
        super().__init__(2 * width, width)


class GridCells(nn.Module):
    """Module that turns feature grids, (B, C, H, W), into sequences of cells, (B, N, C), row by row.

    A cell is the mean of pool x pool positions. With `coordinates`, a cell has two more channels, x and y.
    """

    def __init__(self, coordinates: bool = False, pool: int = 1):
        super().__init__()
        self.coordinates, self.pool = coordinates, pool

    def forward(self, features: Tensor) -> Tensor:
        if self.pool > 1:
            features = F.avg_pool2d(features, self.pool)
        if self.coordinates:
            x_and_y = coordinates(features).expand(len(features), -1, -1, -1)
            features = torch.cat([features, x_and_y], 1)  # (B, C+2, H, W)
        return features.flatten(2).transpose(1, 2)


class GridEmbedding(GridCells):
    """Linear map W x + b of each cell x of a feature grid.

    With `grid`, embeddings of the cell's column and row are added to the result (SCORER Eq. 1).
    """

    def __init__(
        self, channels: int, width: int, grid: tuple[int, int] | None = None, coordinates: bool = False
    ):
        super().__init__(coordinates)
        self.project = nn.Conv2d(channels + 2 * coordinates, width, 1)
        self.has_positions = grid is not None
        if grid:
            H, W = grid
            self.column, self.row = nn.Embedding(W, width // 2), nn.Embedding(H, width // 2)

    def positions(self) -> Tensor:
        """Return each cell's position embedding, (N, D): D/2 channels for the column, D/2 for the row."""
        H, W = self.row.num_embeddings, self.column.num_embeddings
        column = self.column.weight[None].expand(H, W, -1)  # (H, W, D/2)
        row = self.row.weight[:, None].expand(H, W, -1)
        return torch.cat([column, row], -1).flatten(0, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Embed the cells of feature grids, (B, C, H, W), as (B, N, D)."""
        cells = pointwise(self.project, super().forward(features))
        return cells + self.positions() if self.has_positions else cells


def pointwise(convolution: nn.Conv2d, cells: Tensor) -> Tensor:
    """Apply a 1x1 convolution to cells, (B, N, C), as a linear map, which is three times faster on a CPU."""
    return F.linear(cells, convolution.weight.flatten(1), convolution.bias)


def coordinates(features: Tensor) -> Tensor:
    """Return the cells' coordinates, (2, H, W): x = 2j/W - 1 and y = 2i/H - 1 in row i and column j."""
    H, W = features.shape[-2:]
    x = 2 * torch.arange(W, dtype=features.dtype, device=features.device) / W - 1
    y = 2 * torch.arange(H, dtype=features.dtype, device=features.device) / H - 1
    return torch.stack([x.expand(H, W), y[:, None].expand(H, W)])
