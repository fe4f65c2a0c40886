"""What IDC-PCL hides of captions and of images, drawn from torch's generator.

B captions or pairs, L words, N cells an image.
"""

import torch
from torch import Tensor

from models.common.decoder import NULL

START, END = 2, 3  # marks of a caption
MASKED, RANDOM = 0.8, 0.1  # of chosen words: [MASK]; any token at all; the others stay


def masked_words(tokens: Tensor, share: float, mask: int) -> tuple[Tensor, Tensor]:
    """Captions (B, L), with both marks, NULL-padded -> the tokens to read, and which words are to be named.

    Each word is chosen with probability `share`; where none is, the first one, as [MASK]. Of the chosen, 8 of
    10 become [MASK], 1 of 10 any token (from 0 to [CLS], `mask` + 1), 1 of 10 stays. <END> is chosen by
    itself, with the same probability, always as [MASK]; <START> and padding never.
    """
    drawn, kind = (
        torch.rand(tokens.shape, device=tokens.device),
        torch.rand(tokens.shape, device=tokens.device),
    )
    anything = torch.randint(mask + 2, tokens.shape, device=tokens.device)
    word = (tokens != NULL) & (tokens != START) & (tokens != END)
    chosen = word & (drawn < share)
    first = word & (word.cumsum(1) == 1) & ~chosen.any(1, keepdim=True)
    end = (tokens == END) & (drawn < share)
    hidden = (chosen & (kind < MASKED)) | first | end
    exchanged = chosen & (kind >= MASKED) & (kind < MASKED + RANDOM)
    read = torch.where(exchanged, anything, tokens).masked_fill(hidden, mask)
    return read, chosen | first | end


def masked_cells(shape: torch.Size, share: float, device: torch.device) -> Tensor:
    """Which cells of B pairs (or single images) are hidden; `shape`: (B, I, N), I = 2 or 1.

    Of one image of each pair, by a fair coin, each cell with probability `share`, and at least one.
    """
    pairs, images, cells = shape
    drawn = torch.rand(pairs, cells, device=device)
    side = torch.randint(images, (pairs, 1, 1), device=device)
    hidden = (drawn < share) | (drawn == drawn.min(1, keepdim=True).values)
    return hidden[:, None] & (torch.arange(images, device=device)[:, None] == side)
