"""A decoder that is no transformer: an LSTM, whose state is two vectors (decoder_protocol.py)."""

from dataclasses import dataclass

import torch
from torch import nn

from models.common.decoder_protocol import Exchange, NextWord, Unweighed, Words
from models.common.packing import of_captions


@dataclass
class Vectors:
    """State of the search: each image's cells, R x 2 x N x D, and the LSTM's two vectors, R x D each."""

    images: torch.Tensor
    h: torch.Tensor
    c: torch.Tensor
    beam: int

    def follow(self, parents):
        self.h, self.c = self.h[parents], self.c[parents]

    def leave(self, ended):
        remaining = Exchange(ended).remaining
        self.images, self.h, self.c = (
            remaining(x.unflatten(0, (-1, self.beam))).flatten(0, 1) for x in (self.images, self.h, self.c)
        )


class Speaker(Unweighed, nn.Module):
    """LSTM that attends to each image separately, or sees only the mean of the cells."""

    compiles = False

    def __init__(self, sizes, attends):
        super().__init__()
        D = sizes.width
        self.attends = attends
        self.words, self.query = nn.Embedding(sizes.vocabulary, D), nn.Linear(D, D)
        self.cell, self.vocabulary = nn.LSTMCell(3 * D, D), nn.Linear(D, sizes.vocabulary)

    def forward(self, tokens, difference, keep_layers=False, padding_is_key=True):
        state = self.begin(difference, len(tokens) // len(difference.before))
        found = [
            (self.step(tokens[:, place], place, state).logits, state.h)
            for place in range(tokens.shape[1] - 1)
        ]
        logits, hidden = (torch.stack(each, 1) for each in zip(*found, strict=True))
        return Words(logits, hidden, of_captions(tokens[:, 1:]), of_captions(tokens[:, :-1]))

    def begin(self, difference, beam=1):
        images = torch.stack([difference.before, difference.after], 1).repeat_interleave(beam, 0)
        h = difference.memory.mean(1).repeat_interleave(beam, 0)
        return Vectors(images, h, torch.zeros_like(h), beam)

    def step(self, tokens, position, state):
        shares = (state.images @ self.query(state.h)[:, None, :, None])[..., 0].softmax(-1)  # R x 2 x N
        shares = shares if self.attends else torch.full_like(shares, 1 / shares.shape[-1])
        seen = (shares[..., None] * state.images).sum(2).flatten(1)  # R x 2D
        state.h, state.c = self.cell(torch.cat([self.words(tokens), seen], 1), (state.h, state.c))
        return NextWord(self.vocabulary(state.h), shares if self.attends else None)

    def maps(self, trace, state):
        return trace
