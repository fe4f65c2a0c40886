"""What SCORER and DIRL begin with: each image's features as cells of the model's width, with their places.

B pairs, C feature channels, H x W grid, N = H*W cells, D width.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class DataSizes:
    """What the data say of a model's sizes."""

    channels: int  # C; 3 of pixels
    grid: tuple[int, int]  # H, W: cells, or pixels
    vocabulary: int  # V
    longest: int  # L, with both marks


@dataclass(frozen=True)
class Sizes(DataSizes):
    """Widths and depths of SCORER, DIRL and their baselines."""

    width: int  # D
    heads: int
    layers: int  # of cross-view reconstruction, or of DIRL's released interaction
    decoder_layers: int
    word_width: int  # e


class PairMap(nn.Linear):
    """[before ; after] W + b, 2D -> D, of each cell (Eq. 7 of SCORER and of DIRL)."""

    def __init__(self, width: int):
        super().__init__(2 * width, width)


class PairEncoding(nn.Module):
    """conv1x1(X) + pos(X), the same for both images (SCORER Eq. 1); C + 2 channels with coordinates."""

    def __init__(self, sizes: Sizes, coordinates: bool = False):
        super().__init__()
        H, W = sizes.grid
        self.coordinates = coordinates
        self.project = nn.Conv2d(sizes.channels + 2 * coordinates, sizes.width, 1)
        self.column = nn.Embedding(W, sizes.width // 2)
        self.row = nn.Embedding(H, sizes.width // 2)

    def positions(self) -> Tensor:
        """N x D, row-major: at each cell its column's embedding, then its row's."""
        H, W = self.row.num_embeddings, self.column.num_embeddings
        column = self.column.weight[None].expand(H, W, -1)  # H x W x D/2
        row = self.row.weight[:, None].expand(H, W, -1)
        return torch.cat([column, row], -1).flatten(0, 1)

    def forward(self, features: Tensor) -> Tensor:
        """B x C x H x W -> B x N x D."""
        if self.coordinates:
            places = coordinates(features).expand(len(features), -1, -1, -1)
            features = torch.cat([features, places], 1)  # B x (C+2) x H x W
        # a 1x1 convolution is a linear map of each cell; written so, a processor takes a third of the time
        cells = features.flatten(2).transpose(1, 2)  # B x N x C
        return F.linear(cells, self.project.weight.flatten(1), self.project.bias) + self.positions()


def coordinates(features: Tensor) -> Tensor:
    """2 x H x W for features B x C x H x W: x = 2j/W - 1, then y = 2i/H - 1."""
    H, W = features.shape[-2:]
    x = 2 * torch.arange(W, dtype=features.dtype, device=features.device) / W - 1
    y = 2 * torch.arange(H, dtype=features.dtype, device=features.device) / H - 1
    return torch.stack([x.expand(H, W), y[:, None].expand(H, W)])
