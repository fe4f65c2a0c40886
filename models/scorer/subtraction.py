"""Subtraction: the baseline of SCORER's tables (Tables 6, 7, 10-12)."""

import torch
from torch import Tensor, nn

from models.common.captioner import Captioner, Difference, Sizes
from models.common.entry import Entry
from models.common.switches import DECODER, RELEASED, Switches


class Subtraction(nn.Module):
    """X_c = ReLU(fc(X_aft - X_bef)): cell against cell, blind to a moved camera."""

    def __init__(self, width: int):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, before: Tensor, after: Tensor) -> Difference:
        """(B, N, D) each."""
        return Difference(torch.relu(self.fc(after - before)), before, after)


def subtraction(sizes: Sizes, switches: Switches, *, dropout: float) -> Captioner:
    """Subtraction and the shared decoder; no loss but the caption's."""
    return Captioner(sizes, Subtraction(sizes.width), {}, dropout, switches)


SUBTRACTION = Entry(subtraction, RELEASED, DECODER)
