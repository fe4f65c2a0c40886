"""The dynamic speaker of DUDA and VARD: at each word it weighs before, the difference and after anew.

Park et al., ICCV 2019; Tu et al., TIP 2023. Equations: docs/methods.md, "DUDA".
B pairs, k captions of each, R = B*k rows, L words, V vocabulary, N cells an image, K width of a cell, M
channels behind a map, H states, e word width.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.captioner import NEVER, Captioner, Difference, caption_loss, split
from models.common.decoder import NULL
from models.common.decoder_protocol import Exchange, NextWord, Words
from models.common.distributed_batch import total
from models.common.grid_embedding import DataSizes, pointwise
from models.common.trainable import Labels

CHANNELS_A_GROUP = 4  # of the maps' group norm
Pooled = Literal["sum", "mean"]


@dataclass(frozen=True)
class SpeakerSwitches:
    """The defaults are the papers'; what is the training loop's is not here (docs/methods.md, "DUDA")."""

    # cells: two channels more, x = 2j/W - 1 and y = 2i/H - 1
    coordinates: bool = False
    # an attended vector: the sum over cells | divided by the map's sum, which is ours: a sum saturates the
    # LSTMs on standardised features, and fades where the map goes dark
    pooled: Pooled = "sum"
    # decoding never writes <NULL>, <UNK> and <START> | may write any token
    barred: Literal["marks", "none"] = "marks"
    # torch's, as the programs have | those, but an image's map begins where the images differ; ours, for few
    # pairs
    first_weights: Literal["program", "differing"] = "program"


RELEASED = SpeakerSwitches(coordinates=True, barred="none")


@dataclass(frozen=True)
class SpeakerSizes(DataSizes):
    """Widths of the speaker, and of the maps that it listens to."""

    maps: int  # M
    hidden: int  # H
    word_width: int  # e

    def __post_init__(self) -> None:
        """Raises ValueError where they make no model."""
        if self.maps % CHANNELS_A_GROUP:
            raise ValueError(f"maps {self.maps} is not a multiple of {CHANNELS_A_GROUP}, a group's channels")


@dataclass
class Attended(Difference):
    """The memory is (B, 3, K): what the pair shows before, its difference, and what it shows after."""

    maps: Tensor  # (B, 2, N), before and after: a map is their sigmoid


@dataclass
class Weighed(Words):
    """The words, and the weights of before, difference and after at each."""

    weights: Tensor = field(kw_only=True)  # (R, L, 3), summing to 1


class CellMap(nn.Module):
    """An image's map: of each cell, beside the difference there, a number whose sigmoid is its weight."""

    def __init__(self, width: int, channels: int, dropout: float):
        super().__init__()
        self.embed = nn.Conv2d(width, channels, 1)
        self.norm = nn.GroupNorm(channels // CHANNELS_A_GROUP, channels)
        self.dropout = nn.Dropout(dropout)
        self.weigh = nn.Conv2d(channels, 1, 1)

    def forward(self, cells: Tensor, difference: Tensor) -> Tensor:
        """(B, N, K) each (or other widths) -> (B, N)."""
        x = pointwise(self.embed, torch.cat([cells, difference], -1)).transpose(1, 2)  # (B, M, N)
        x = torch.relu(self.dropout(self.norm(x))).transpose(1, 2)
        return pointwise(self.weigh, x)[..., 0]

    @torch.no_grad()
    def begin(self, steepness: float, least: float) -> None:
        """First weights: the number is `steepness` times what the M channels' mean is above `least`."""
        for bias, value in ((self.embed.bias, 0.0), (self.weigh.bias, -steepness * least)):
            assert bias is not None
            bias.fill_(value)
        self.weigh.weight.fill_(steepness / self.weigh.in_channels)


def shares(maps: Tensor) -> Tensor:
    """sigmoid(map) / its sum over the cells, also of maps that went dark: (..., N)."""
    return F.logsigmoid(maps).softmax(-1)


def attended(maps: Tensor, cells: Tensor, pooled: Pooled) -> Tensor:
    """l = sum of sigmoid(map) X over the cells, or divided by the map's sum: (B, N), (B, N, K) -> (B, K)."""
    weights = maps.sigmoid() if pooled == "sum" else shares(maps)
    return (weights[:, None] @ cells)[:, 0]


@dataclass
class SpeakerState:
    """What the speaker keeps of a batch."""

    looking: Tensor  # (R, H), of the memory: the same at each word
    heard: Tensor  # (R, 3, 4H), what each vector of the memory says to the gates of LSTM_c
    weighing: tuple[Tensor, Tensor]  # h_d, c_d, (R, H) each
    speaking: tuple[Tensor, Tensor]  # h_c, c_c
    maps: Tensor  # (B, 2, N), as pairs stood in `begin`
    beam: int

    def follow(self, parents: Tensor) -> None:
        """Each caption goes on from that of the row which `parents` (R) names, which is of the same pair."""
        (h_d, c_d), (h_c, c_c) = self.weighing, self.speaking
        self.weighing, self.speaking = (h_d[parents], c_d[parents]), (h_c[parents], c_c[parents])

    def leave(self, ended: Tensor) -> None:
        """Without the pairs for which `ended` (left) is true."""
        places = Exchange(ended)

        def kept(rows: Tensor) -> Tensor:
            return places.kept(rows.unflatten(0, (-1, self.beam))).flatten(0, 1)

        (h_d, c_d), (h_c, c_c) = self.weighing, self.speaking
        self.looking, self.heard = kept(self.looking), kept(self.heard)
        self.weighing, self.speaking = (kept(h_d), kept(c_d)), (kept(h_c), kept(c_c))


class DynamicSpeaker(nn.Module):
    """Two LSTMs: one weighs the three vectors of the memory, the other one says the next word."""

    compiles = False  # a loop over words
    weighed: tuple[str, ...] = ("before", "difference", "after")

    def __init__(self, sizes: SpeakerSizes, width: int, dropout: float):
        """`width`: K, of an attended vector."""
        super().__init__()
        H, e = sizes.hidden, sizes.word_width
        self.words = nn.Embedding(sizes.vocabulary, e)
        self.look = nn.Linear(3 * width, H)
        self.weighing = nn.LSTMCell(2 * H, H)
        self.weights = nn.Linear(H, 3)
        self.speaking = nn.LSTMCell(e + width, H)
        self.vocabulary = nn.Linear(H, sizes.vocabulary)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, tokens: Tensor, difference: Difference, keep_layers: bool = False, padding_is_key: bool = True
    ) -> Weighed:
        """Captions (R, L+1) with both marks, k of each pair one after another: predict words 1..L."""
        state = self.begin(difference, len(tokens) // len(difference.memory))
        said = [self._advance(word, state) for word in tokens[:, :-1].unbind(1)]
        hidden, weights = (torch.stack(each, 1) for each in zip(*said, strict=True))
        read = tokens[:, :-1] != NULL
        return Weighed(self.vocabulary(hidden), hidden, tokens[:, 1:] != NULL, read, weights=weights)

    def begin(self, difference: Difference, beam: int = 1) -> SpeakerState:
        """What `step` keeps of a batch, to write `beam` captions of each pair."""
        assert isinstance(difference, Attended)
        looking = torch.relu(self.look(difference.memory.flatten(1)))  # bef, diff, aft
        # W l_dyn is the weighted sum of W l_bef, W l_diff, W l_aft: no step multiplies K by 4H
        heard = F.linear(difference.memory, self.speaking.weight_ih[:, self.words.embedding_dim :])
        looking, heard = (each.repeat_interleave(beam, 0) for each in (looking, heard))
        zero = torch.zeros_like(looking)
        return SpeakerState(looking, heard, (zero, zero), (zero, zero), difference.maps, beam)

    def step(self, tokens: Tensor, position: int, state: SpeakerState) -> NextWord:
        """The word after `tokens` (R); beside it the three weights that it was said with."""
        hidden, weights = self._advance(tokens, state)
        return NextWord(self.vocabulary(hidden), weights)

    def _advance(self, words: Tensor, state: SpeakerState) -> tuple[Tensor, Tensor]:
        """R words -> (R, H), which the next ones are read off, and the weights, (R, 3)."""
        v = self.dropout(state.looking)  # drawn anew at each word
        state.weighing = self.weighing(torch.cat([v, state.speaking[0]], 1), state.weighing)
        weights = self.weights(state.weighing[0]).softmax(-1)
        heard = (weights[:, None] @ state.heard)[:, 0]  # (R, 4H), of l_dyn
        x = self.dropout(torch.relu(self.words(words)))
        state.speaking = self._speak(x, heard, *state.speaking)
        return self.dropout(state.speaking[0]), weights

    def _speak(self, x: Tensor, heard: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """LSTM_c on [x ; l_dyn], of which `heard` is the product with its weights."""
        cell = self.speaking
        said = F.linear(x, cell.weight_ih[:, : x.shape[1]], cell.bias_ih)
        i, f, g, o = (heard + said + F.linear(h, cell.weight_hh, cell.bias_hh)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def maps(self, looked: Tensor | None, state: SpeakerState) -> Tensor:
        """The maps of both images, each divided by its sum, the same for every word: (B, L, 2, N)."""
        assert looked is not None  # each step gives its weights, (B, L, 3)
        return shares(state.maps)[:, None].expand(-1, looked.shape[1], -1, -1)

    def word_weights(self, looked: Tensor | None) -> Tensor | None:
        """alpha of each word, (B, L, 3): what the steps gave, as it is."""
        return looked


class DynamicCaptioner(Captioner):
    """A model of the dynamic speaker. Its two terms see pairs with a change alone, where that is known."""

    terms = ("cap", "maps", "entropy")
    decoder: DynamicSpeaker

    def __init__(
        self,
        sizes: SpeakerSizes,
        width: int,
        switches: SpeakerSwitches,
        dropout: float,
        encoding: nn.Module,
        difference: nn.Module,
    ):
        """`difference` gives Attended vectors of that width."""
        speaker = DynamicSpeaker(sizes, width, dropout)
        super().__init__(sizes, difference, {}, dropout, encoding=encoding, decoder=speaker)
        self.never = NEVER if switches.barred == "marks" else ()

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Labels | None = None
    ) -> dict[str, Tensor]:
        """The terms of B encoded pairs; `tokens`: k captions of each, one after another, NULL-padded.

        cap: the mean of the parts' cross-entropies, a token mean each. maps, entropy: `map_size` and
        `negative_entropy`. Where processes share a batch each returns its share.
        """
        difference = self.difference(before, after)
        words: Weighed = self.decoder(tokens, difference)
        each = zip(split(words, parts), tokens.chunk(parts), strict=True)
        changed = torch.ones_like(before[:, 0, 0]) if labels is None else (labels.changed != 0).to(before)
        return {
            "cap": torch.stack([caption_loss(*part) for part in each]).mean(),
            "maps": map_size(difference, changed),
            "entropy": negative_entropy(words, changed),
        }


LOSS = {"maps": 2.5e-3, "entropy": 1e-4}  # the terms' weights


def map_size(difference: Attended, changed: Tensor) -> Tensor:
    """Both images' maps, summed over cells: their mean over the pairs of which `changed` (B) is 1."""
    sizes = difference.maps.float().sigmoid().sum(-1).mean(-1)  # B
    return (changed * sizes).sum() / total(changed.sum()).clamp(min=1)


def negative_entropy(words: Weighed, changed: Tensor) -> Tensor:
    """Minus the entropy of a word's three weights in nats, summed over a caption's words with <END>.

    The mean over the captions of the pairs of which `changed` (B) is 1.
    """
    weights = words.weights.float()
    entropies = -(weights * weights.clamp(min=1e-38).log()).sum(-1)  # (R, L)
    told = changed.repeat_interleave(len(weights) // len(changed))  # R
    return -(told * (words.real * entropies).sum(-1)).sum() / total(told.sum()).clamp(min=1)
