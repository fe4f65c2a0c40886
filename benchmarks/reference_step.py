"""Reference implementation of SCORER+CBR's training step.

It follows the equations of Tu et al. (ICCV 2023), with the paper's switches and `mtm: per_head` or `summed`.
Like the released programs, it has no optimisations. Both images of every pair are encoded. The changed and
the unchanged pair of a scene are processed separately. All similarities of a batch exist at once in every
layer. Attention weights are stored. Adam updates one parameter at a time. Everything is in float32. The
module uses only torch's operations, and the weights of a model of models/.

B: pairs; C: feature channels; H x W: grid; N = H*W: cells; D: width; h: heads; d = D/h; L: words; e: word
width; V: size of the vocabulary.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from models.common.captioner import Captioner
from pipeline.text.vocabularies import NULL

# features of the before and of the after images, (B, C, H, W) each, and tokens of captions, (B, L+1)
Part = tuple[Tensor, Tensor, Tensor]


class Step:
    """Training step: a forward pass, a backward pass and Adam. It changes the parameters of `model`."""

    def __init__(self, model: Captioner, loss: dict[str, float], rate: float, mtm: str, dropout: float):
        self.weights = dict(model.named_parameters())
        self.sizes, self.loss, self.mtm, self.dropout = model.sizes, loss, mtm, dropout
        self.device = self.weights["decoder.embedding.weight"].device
        self.temperature = model.regularisers["cv"].contrast.fixed
        self.epsilon = 1e-5
        self.optimiser = torch.optim.Adam(self.weights.values(), lr=rate, foreach=False, fused=False)

    def __call__(self, parts: Sequence[Part]) -> Tensor:
        """Take a step; return the losses `cap`, `cv` and `cbr` before the step, as means over the parts."""
        terms = torch.stack([self.terms(*part) for part in parts]).mean(0)  # all graphs exist at once
        weights = terms.new_tensor([1.0, self.loss["cv"], self.loss["cbr"]])
        self.optimiser.zero_grad()
        (weights * terms).sum().backward()  # Eq. 13
        self.optimiser.step()
        return terms.detach()

    def terms(self, before: Tensor, after: Tensor, tokens: Tensor) -> Tensor:
        """Return the losses `cap`, `cv` and `cbr` of one part."""
        before, after, tokens = (x.to(self.device) for x in (before, after, tokens))
        before, after = self.encoded(before), self.encoded(after)
        memory, cv = self.reconstructed(before, after)
        logits, hidden = self.decoded(tokens[:, :-1], memory)
        cap = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=NULL)  # Eq. 12
        return torch.stack([cap, cv, self.reasoned(before, after, self.sentence(hidden, tokens))])

    # --- the parts ---

    def encoded(self, features: Tensor) -> Tensor:
        """Encode the cells of images, (B, C, H, W), as (B, N, D) (Eq. 1)."""
        weights, (H, W) = self.weights, self.sizes.grid
        cells = F.conv2d(features, weights["encoding.project.weight"], weights["encoding.project.bias"])
        column = weights["encoding.column.weight"][None].expand(H, W, -1)  # (H, W, D/2)
        row = weights["encoding.row.weight"][:, None].expand(H, W, -1)
        positions = torch.cat([column, row], -1).permute(2, 0, 1)  # (D, H, W)
        return (cells + positions).flatten(2).transpose(1, 2)

    def reconstructed(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """Reconstruct each image from the other; return the memory, (B, N, D), and the last layer's L_cv.

        `before` and `after` are the images' encodings, (B, N, D) each (Eq. 2-7).
        """
        b, a = before, after
        for layer in range(self.sizes.layers):
            prefix = f"difference.attentions.{layer}"
            qb, kb, vb = (self.heads(f"{prefix}.{name}", b) for name in ("query", "key", "value"))
            qa, ka, va = (self.heads(f"{prefix}.{name}", a) for name in ("query", "key", "value"))
            cv = self.contrast("cv", self.matched(qb, ka), self.matched(qa, kb))  # the last is returned
            from_after = self.joined(prefix, self.exchanged(qb, ka, va))  # Eq. 5
            from_before = self.joined(prefix, self.exchanged(qa, kb, vb))
            b, a = (self.norm(f"difference.norms.{layer}", x) for x in (b + from_after, a + from_before))
        return self.fused(b, a), cv

    def exchanged(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Let the cells of an image attend to the cells of the other image; return (B, N, D).

        q: the first image's queries; k, v: the other image's keys and values; (B, h, N, d) each
        """
        return self.attended(q, k, v)

    def fused(self, before: Tensor, after: Tensor) -> Tensor:
        """Fuse both reconstructed images (Eq. 7)."""
        return torch.relu(self.linear("difference.fuse", torch.cat([before, after], -1)))

    def decoded(self, tokens: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits, (B, L, V), and the last states, (B, L, D), for words, (B, L) (Eq. 8)."""
        words = F.embedding(tokens, self.weights["decoder.embedding.weight"], padding_idx=NULL)  # (B, L, e)
        placed = words + sinusoids(tokens.shape[1], words.shape[-1]).to(words)
        x = self.norm("decoder.norm", self.drop(self.linear("decoder.project", placed)))
        for layer in range(self.sizes.decoder_layers):
            prefix = f"decoder.layers.{layer}"
            self_attended = self.attention(f"{prefix}.self_attention", x, x, causal=True)
            x = self.norm(f"{prefix}.norms.0", x + self.drop(self_attended))
            cross_attended = self.attention(f"{prefix}.cross_attention", x, memory)
            x = self.norm(f"{prefix}.norms.1", x + self.drop(cross_attended))
            x = self.norm(f"{prefix}.norms.2", self.fed_forward(f"{prefix}.feed_forward", x))
        return self.linear("decoder.vocabulary", x), x

    def fed_forward(self, name: str, x: Tensor) -> Tensor:
        """Apply the feed-forward layer with its residual."""
        wide = self.drop(torch.relu(self.linear(f"{name}.0", x)))  # (B, L, 4D)
        return x + self.drop(self.linear(f"{name}.3", wide))

    def sentence(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """Return one vector per caption, (B, D): the mean of its last-layer states, (B, L, D).

        States that predict padding are left out.
        """
        is_word = (tokens[:, 1:] != NULL)[..., None].float()  # (B, L, 1)
        return (hidden * is_word).sum(1) / is_word.sum(1)

    def reasoned(self, before: Tensor, after: Tensor, sentence: Tensor) -> Tensor:
        """Return L_cm, the loss of backward reasoning (Eq. 9-11).

        before, after: both images' encodings, (B, N, D) each
        sentence: vectors of the captions, (B, D)
        """
        prefix = "regularisers.cbr"
        joined = torch.cat([before, sentence[:, None].expand_as(before)], -1)  # (B, N, 2D)
        joined = self.linear(f"{prefix}.join", joined)  # Eq. 9
        attended = self.attention(f"{prefix}.attention", joined, joined, dropped=False)
        imagined = self.linear(f"{prefix}.imagine", attended)  # Eq. 10
        to_after = self.compared(imagined, after)
        return self.contrast("cbr", to_after, self.back(to_after, imagined, after))

    def compared(self, first: Tensor, second: Tensor) -> Tensor:
        """Match all images of two batches, (B, N, D) each, as backward reasoning does; return (B, B)."""
        prefix = "regularisers.cbr.match"
        return self.matched(self.heads(f"{prefix}.query", first), self.heads(f"{prefix}.key", second))

    def back(self, to_after: Tensor, imagined: Tensor, after: Tensor) -> Tensor:
        """Return the matching of the real "after" images with the imagined images, (B, B).

        imagined, after: cells of the images, (B, N, D) each
        to_after: matching of the imagined images with the real images, (B, B)
        """
        return self.compared(after, imagined)

    # --- functions that several parts use ---

    def matched(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the matching, (B, B), of queries and keys, (B, h, N, d) each (Eq. 2-3)."""
        if self.mtm == "summed":
            q, k = (x.transpose(1, 2).flatten(2)[:, None] for x in (q, k))  # (B, 1, N, D)
        return matching(q, k).mean(-1)

    def contrast(self, term: str, one_way: Tensor, other_way: Tensor) -> Tensor:
        """Return the contrastive loss of a loss term, as the mean of both directions (Eq. 4 and 11)."""
        partner = torch.arange(len(one_way), device=one_way.device)
        one_way_loss, other_way_loss = (
            F.cross_entropy(s * self.scale(term), partner) for s in (one_way, other_way)
        )
        return (one_way_loss + other_way_loss) / 2

    def scale(self, term: str) -> float | Tensor:
        """Return the factor by which the similarities of a loss term are multiplied."""
        return 1 / self.temperature

    def attention(
        self, name: str, x: Tensor, memory: Tensor, causal: bool = False, dropped: bool = True
    ) -> Tensor:
        q = self.heads(f"{name}.query", x)
        k, v = (self.heads(f"{name}.{projection}", memory) for projection in ("key", "value"))
        attended = self.attended(q, k, v, causal, self.dropout if dropped else 0.0)
        return self.joined(name, attended)

    def joined(self, name: str, attended: Tensor) -> Tensor:
        """Apply the projection W^O to the concatenated results of the heads."""
        return self.linear(f"{name}.output", attended)

    def attended(self, q: Tensor, k: Tensor, v: Tensor, causal: bool = False, dropout: float = 0.0) -> Tensor:
        """Return softmax(q k^T / sqrt(d)) v of each head, concatenated, (B, L, D), for q (B, h, L, d)."""
        scores = torch.einsum("bhld,bhmd->bhlm", q, k) / math.sqrt(q.shape[-1])
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
        weights = F.dropout(scores.softmax(-1), dropout)
        return torch.einsum("bhlm,bhmd->bhld", weights, v).transpose(1, 2).flatten(2)

    def heads(self, name: str, x: Tensor) -> Tensor:
        """Apply the linear map at `name` to x, (B, L, D), and split the result into heads, (B, h, L, d)."""
        return self.linear(name, x).unflatten(-1, (self.sizes.heads, -1)).transpose(1, 2)

    def linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def norm(self, name: str, x: Tensor) -> Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return F.layer_norm(x, x.shape[-1:], weight, bias, self.epsilon)

    def drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout)


def matching(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the token-wise matching TM (SCORER Eq. 2), (B, A, h), of B images with A images in h heads.

    Queries are (B, h, N, d), and keys (A, h, M, d). All similarities exist in memory at once.
    """
    e = torch.einsum("bhnd,ahmd->bahnm", queries, keys)
    return (e.amax(-1).mean(-1) + e.amax(-2).mean(-1)) / 2


def sinusoids(length: int, width: int) -> Tensor:
    """Return fixed position embeddings, (length, width).

    The channels 2i and 2i + 1 are the sine and the cosine of position / 10000^(2i/width).
    """
    angle = torch.arange(length)[:, None] * 10_000.0 ** (-torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
