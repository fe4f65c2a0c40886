"""The dynamic speaker, the caption decoder of DUDA and VARD.

The memory of a pair has three vectors: before image, difference, after image. At each word, one LSTM
computes three weights for these vectors, and another LSTM predicts the word (Park et al., ICCV 2019; Tu
et al., TIP 2023). Symbols and equations: docs/methods.md, "DUDA".
B: pairs; k: captions per pair; R = B*k: captions; L: words; V: size of the vocabulary; N: cells of an
image; K: width of a cell; M: channels from which an attention map is computed; H: width of the LSTM
states; e: word width; l_dyn: weighted sum of the memory's three vectors at a word.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.captioner import NEVER, Captioner, Difference, caption_loss, split
from models.common.decoder_protocol import Exchange, NextWord, Words
from models.common.distributed_batch import total
from models.common.grid_embedding import DataSizes, Multiples, pointwise
from models.common.packing import of_captions
from models.common.trainable import Labels

CHANNELS_A_GROUP = 4  # channels in a group of the maps' group norm
Pooled = Literal["sum", "mean"]


@dataclass(frozen=True)
class SpeakerSwitches:
    """Switches of DUDA and VARD. The defaults follow the papers.

    The comment above a field explains its values. They are separated by |, in the order of the type.
    """

    # true: a cell has two more channels, its position x = 2j/W - 1 and y = 2i/H - 1 (row i, column j)
    coordinates: bool = False
    # attended vector of an image: weighted sum of its cells | this sum divided by the sum of the weights. The
    # mean is not published. The sum saturates the LSTMs on standardised features, and vanishes if the map is
    # near 0
    pooled: Pooled = "sum"
    # decoding never writes <NULL>, <UNK> and <START> | may write any token
    barred: Literal["marks", "none"] = "marks"
    # initial weights: torch's, as in the authors' programs | the same, but the attention maps are high where
    # the images differ (not published, for training on few pairs)
    first_weights: Literal["program", "differing"] = "program"


RELEASED = SpeakerSwitches(coordinates=True, barred="none")


@dataclass(frozen=True)
class SpeakerSizes(DataSizes):
    """Sizes of the dynamic speaker and of the layers that compute the attention maps."""

    multiples: ClassVar[Multiples] = (("maps", CHANNELS_A_GROUP),)

    maps: int  # M, channels from which a map is computed
    hidden: int  # H, width of the LSTM states
    word_width: int  # e


@dataclass
class AttendedDifference(Difference):
    """Comparison of B pairs; `memory`, (B, 3, K), has 3 vectors: before image, difference, after image."""

    maps: Tensor  # (B, 2, N), logits of the attention maps on both images


@dataclass
class Weighed(Words):
    """Predicted words, with three weights for each word: before image, difference, and after image."""

    weights: Tensor = field(kw_only=True)  # (R, L, 3); the three weights sum to 1


class AttentionMap(nn.Module):
    """Module that computes the attention map of an image: a logit for each cell."""

    def __init__(self, width: int, channels: int, dropout: float):
        super().__init__()
        self.embed = nn.Conv2d(width, channels, 1)
        self.norm = nn.GroupNorm(channels // CHANNELS_A_GROUP, channels)
        self.dropout = nn.Dropout(dropout)
        self.weigh = nn.Conv2d(channels, 1, 1)

    def forward(self, cells: Tensor, difference: Tensor) -> Tensor:
        """Return the logits of one image's map, (B, N), from its cells and the difference, (B, N, K) each."""
        x = pointwise(self.embed, torch.cat([cells, difference], -1)).transpose(1, 2)  # (B, M, N)
        x = torch.relu(self.dropout(self.norm(x))).transpose(1, 2)
        return pointwise(self.weigh, x)[..., 0]

    @torch.no_grad()
    def initialise(self, steepness: float, least: float) -> None:
        """Make a cell's logit `steepness` * (m - `least`), where m is the mean of its M channels."""
        nn.init.zeros_(self.embed.get_parameter("bias"))
        nn.init.constant_(self.weigh.get_parameter("bias"), -steepness * least)
        self.weigh.weight.fill_(steepness / self.weigh.in_channels)


def shares(maps: Tensor) -> Tensor:
    return F.logsigmoid(maps).softmax(-1)  # exact even if all sigmoids are near 0


def attended(maps: Tensor, cells: Tensor, pooled: Pooled) -> Tensor:
    """Return the sum or mean, (B, K), of the cells (B, N, K), weighted by sigmoid(`maps`), (B, N)."""
    weights = maps.sigmoid() if pooled == "sum" else shares(maps)
    return (weights[:, None] @ cells)[:, 0]


@dataclass
class SpeakerState:
    """Search state (decoder_protocol.State) of the speaker."""

    memory: Tensor  # (R, H), projected memory, which is the same at each word
    memory_gates: Tensor  # (R, 3, 4H), contribution of each vector of the memory to the gates of LSTM_c
    weighing: tuple[Tensor, Tensor]  # state of LSTM_d: h_d and c_d, (R, H) each
    speaking: tuple[Tensor, Tensor]  # state of LSTM_c: h_c and c_c, (R, H) each
    maps: Tensor  # (B, 2, N), logits of the attention maps, in the order of the pairs given to `begin`
    beam: int  # k

    def follow(self, parents: Tensor) -> None:
        """Give each caption r the state of caption parents[r] of the same pair; `parents`: (captions,)."""
        (h_d, c_d), (h_c, c_c) = self.weighing, self.speaking
        self.weighing, self.speaking = (h_d[parents], c_d[parents]), (h_c[parents], c_c[parents])

    def leave(self, ended: Tensor) -> None:
        exchange = Exchange(ended)

        def remaining(rows: Tensor) -> Tensor:
            return exchange.remaining(rows.unflatten(0, (-1, self.beam))).flatten(0, 1)

        (h_d, c_d), (h_c, c_c) = self.weighing, self.speaking
        self.memory, self.memory_gates = remaining(self.memory), remaining(self.memory_gates)
        self.weighing, self.speaking = (remaining(h_d), remaining(c_d)), (remaining(h_c), remaining(c_c))


class DynamicSpeaker(nn.Module):
    """Decoder of two LSTMs: LSTM_d weights the three vectors of the memory, LSTM_c predicts the next word."""

    compiles = False  # a loop over words
    weighed: tuple[str, ...] = ("before", "difference", "after")

    def __init__(self, sizes: SpeakerSizes, width: int, dropout: float):
        """Build the decoder; `width` is K, the width of the memory's vectors."""
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
        """Predict each word of captions, (R, L+1), from the words before it; the options have no effect."""
        state = self.begin(difference, len(tokens) // len(difference.memory))
        steps = [self._advance(word, state) for word in tokens[:, :-1].unbind(1)]
        hidden, weights = (torch.stack(outputs, 1) for outputs in zip(*steps, strict=True))
        real, read = of_captions(tokens[:, 1:]), of_captions(tokens[:, :-1])
        return Weighed(self.vocabulary(hidden), hidden, real, read, weights=weights)

    def begin(self, difference: Any, beam: int = 1) -> SpeakerState:
        """Return the state of the search before the first word, with `beam` captions per pair.

        `difference` is an AttendedDifference: the encoded pairs with their attention maps.
        """
        memory = torch.relu(self.look(difference.memory.flatten(1)))
        # W l_dyn is the weighted sum of W l_bef, W l_diff and W l_aft, which are the same at each word
        gates = F.linear(difference.memory, self.speaking.weight_ih[:, self.words.embedding_dim :])
        memory, gates = (x.repeat_interleave(beam, 0) for x in (memory, gates))
        zero = torch.zeros_like(memory)
        return SpeakerState(memory, gates, (zero, zero), (zero, zero), difference.maps, beam)

    def step(self, tokens: Tensor, position: int, state: SpeakerState) -> NextWord:
        """Predict the next word after `tokens`, (R,), and weigh before, difference and after, (R, 3)."""
        hidden, weights = self._advance(tokens, state)
        return NextWord(self.vocabulary(hidden), weights)

    def _advance(self, words: Tensor, state: SpeakerState) -> tuple[Tensor, Tensor]:
        """Run both LSTMs for `words`, (R,). Return LSTM_c's output, (R, H), and memory weights, (R, 3)."""
        v = self.dropout(state.memory)  # another mask at each word
        state.weighing = self.weighing(torch.cat([v, state.speaking[0]], 1), state.weighing)
        weights = self.weights(state.weighing[0]).softmax(-1)
        memory_gates = (weights[:, None] @ state.memory_gates)[:, 0]  # W l_dyn, (R, 4H)
        x = self.dropout(torch.relu(self.words(words)))
        # LSTM_c with the input [x ; l_dyn]; W l_dyn is already computed, with the part W of the input weights
        (h, c), cell = state.speaking, self.speaking
        word_gates = F.linear(x, cell.weight_ih[:, : x.shape[1]], cell.bias_ih)
        i, f, g, o = (memory_gates + word_gates + F.linear(h, cell.weight_hh, cell.bias_hh)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        state.speaking = h, c
        return self.dropout(h), weights

    def maps(self, trace: Any, state: SpeakerState) -> Tensor:
        return shares(state.maps)[:, None].expand(-1, trace.shape[1], -1, -1)

    def word_weights(self, trace: Tensor | None) -> Tensor | None:
        return trace


class DynamicCaptioner(Captioner):
    """Captioner with the dynamic speaker, and with the loss terms `cap`, `maps` and `entropy`.

    `cap` is the cross-entropy of the captions of all pairs. `maps` is the sum of an attention map over
    the cells; it penalises large maps. `entropy` is the negative entropy of a word's three weights; it
    penalises unequal weights. `maps` and `entropy` are computed for the changed pairs only.
    """

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
        """Build the captioner; `width` is K of the memory, (B, 3, K), that `difference` computes."""
        speaker = DynamicSpeaker(sizes, width, dropout)
        super().__init__(sizes, difference, {}, dropout, encoding=encoding, decoder=speaker)
        self.never = NEVER if switches.barred == "marks" else ()

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Labels | None = None
    ) -> dict[str, Tensor]:
        """Return the loss terms of a batch, name -> scalar, or this process's share of each.

        before, after: encodings of the images of B pairs, (B, N, K) each
        parts: equal parts of the batch; `cap` is the mean over them of their mean cross-entropy per word
        labels: they tell which pairs are changed; None: all pairs are changed
        """
        difference = self.difference(before, after)
        words: Weighed = self.decoder(tokens, difference)
        batches = zip(split(words, parts), tokens.chunk(parts), strict=True)
        changed = torch.ones_like(before[:, 0, 0]) if labels is None else (labels.changed != 0).to(before)
        return {
            "cap": torch.stack([caption_loss(*batch) for batch in batches]).mean(),
            "maps": map_size(difference, changed),
            "entropy": negative_entropy(words, changed),
        }


LOSS = {"lambda_maps": 2.5e-3, "lambda_entropy": 1e-4}  # weights of the loss terms


def map_size(difference: AttendedDifference, changed: Tensor) -> Tensor:
    """Return sigmoid(map), summed over cells and averaged over images of pairs with `changed`, (B,), = 1."""
    sizes = difference.maps.float().sigmoid().sum(-1).mean(-1)  # B
    return (changed * sizes).sum() / total(changed.sum()).clamp(min=1)


def negative_entropy(words: Weighed, changed: Tensor) -> Tensor:
    """Return the negative entropy of the words' weights, nats per caption of pairs with `changed` 1."""
    weights = words.weights.float()
    entropies = -(weights * weights.clamp(min=1e-38).log()).sum(-1)  # (R, L)
    counted = changed.repeat_interleave(len(weights) // len(changed))  # (R)
    return -(counted * (words.real * entropies).sum(-1)).sum() / total(counted.sum()).clamp(min=1)
