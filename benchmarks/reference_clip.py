"""Reference implementation of CLIP4IDC's captioning step, for `clip_step`.

It follows the equations (docs/methods.md, "CLIP4IDC"; the paper's switches) without optimisations. Both
images of every pair are encoded. Attention weights are stored. Changed and unchanged pairs are separate
batches. Adam updates one parameter at a time. Everything is in float32. It uses only torch's operations, and
the weights of a model of models/.

B: pairs; H x W: pixels of an image; n: patches of an image; t = n + 1: tokens of an image; D: width of the
image encoder; E: width of the captioner; L: words; V: size of the vocabulary.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from models.clip4idc.encoders import ClipSizes
from models.common.captioner import Captioner

# pixels of the before and of the after images, (B, 3, H, W) each, and tokens of captions, (B, L+1)
Part = tuple[Tensor, Tensor, Tensor]
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
NULL = 0  # padding
EPSILON, CAPTION_EPSILON = 1e-5, 1e-12  # epsilon of CLIP's layer norms, and of the captioner's


class Step:
    """Training step: a forward pass, a backward pass and Adam. It changes the parameters of `model`.

    All parameters have the same learning rate.
    """

    def __init__(self, model: Captioner, rate: float, dropout: float):
        assert isinstance(model.sizes, ClipSizes)
        self.weights = dict(model.named_parameters())
        self.sizes, self.dropout = model.sizes, dropout
        self.optimiser = torch.optim.Adam(self.weights.values(), lr=rate, foreach=False, fused=False)

    def __call__(self, parts: Sequence[Part]) -> Tensor:
        """Take a step; return the loss before the step, the sum of the cross-entropies of all parts."""
        loss = torch.stack([self.loss(*part) for part in parts]).sum()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.detach()

    def loss(self, before: Tensor, after: Tensor, tokens: Tensor) -> Tensor:
        """Return the cross-entropy of the captions of one part."""
        memory = self.encoder(self.joint(self.image(before), self.image(after)))
        logits = self.decoder(tokens[:, :-1], memory)
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=NULL)

    # --- the images ---

    def image(self, pixels: Tensor) -> Tensor:
        """Encode images, (B, 3, H, W), as tokens, (B, t, D) (Eq. 1-3)."""
        mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
        own, normed = "encoding.patches", (pixels.float() / 255 - mean) / std
        patches = F.conv2d(normed, self.weights[f"{own}.project.weight"], stride=self.sizes.patch)
        token = self.weights[f"{own}.token"].expand(len(pixels), 1, -1)
        x = torch.cat([token, patches.flatten(2).transpose(1, 2)], 1) + self.weights[f"{own}.positions"]
        x = self.norm(f"{own}.norm", x)
        for number in range(self.sizes.intra):
            x = self.block(f"encoding.blocks.{number}", x)
        return x

    def joint(self, before: Tensor, after: Tensor) -> Tensor:
        """Encode the tokens of both images, (B, t, D) each, as F', (B, 2t, E) (Eq. 4-5)."""
        own = "difference.inter"
        e, p = self.weights[f"{own}.images"], self.weights[f"{own}.positions"]
        x = torch.cat([before + e[0], after + e[1]], 1) + p
        for number in range(self.sizes.intra, self.sizes.intra + self.sizes.inter):
            x = self.block(f"{own}.blocks.{number}", x)
        return self.linear(f"{own}.project.map", self.norm(f"{own}.project.norm", x))

    def block(self, name: str, x: Tensor) -> Tensor:
        """Apply CLIP's transformer block: pre-LN, with the activation z sigmoid(1.702 z)."""
        y = self.norm(f"{name}.norm_1", x)
        x = x + self.attention(f"{name}.attention", y, y, self.sizes.heads)
        z = self.linear(f"{name}.mlp.0", self.norm(f"{name}.norm_2", x))
        return x + self.linear(f"{name}.mlp.2", z * torch.sigmoid(1.702 * z))

    # --- the captioner ---

    def encoder(self, x: Tensor) -> Tensor:
        """Apply the captioner's encoder to F'; return the decoder's memory, (B, 2t, E)."""
        for number in range(self.sizes.caption_layers):
            own = f"difference.memories.layers.{number}"
            x = self.added(f"{own}.norms.0", x, self.attention(f"{own}.attention", x, x))
            x = self.added(f"{own}.norms.1", x, self.fed_forward(f"{own}.feed_forward", x))
        return x

    def decoder(self, words: Tensor, memory: Tensor) -> Tensor:
        """Return the logits, (B, L, V), of the words after `words`, (B, L).

        The output layer uses the weights of the word embedding.
        """
        table = self.weights["decoder.tables.tokens.weight"]
        placed = F.embedding(words, table) + self.weights["decoder.tables.positions"][: words.shape[1]]
        x = self.drop(self.norm("decoder.norm", placed, CAPTION_EPSILON))
        for number in range(self.sizes.caption_layers):
            own = f"decoder.layers.{number}"
            x = self.added(f"{own}.norms.0", x, self.attention(f"{own}.self_attention", x, x, causal=True))
            x = self.added(f"{own}.norms.1", x, self.attention(f"{own}.cross_attention", x, memory))
            x = self.added(f"{own}.norms.2", x, self.fed_forward(f"{own}.feed_forward", x))
        hidden = F.gelu(self.linear("decoder.head.0", x))
        hidden = self.norm("decoder.head_norm", hidden, CAPTION_EPSILON)
        return F.linear(hidden, table, self.weights["decoder.bias"])

    def fed_forward(self, name: str, x: Tensor) -> Tensor:
        return self.linear(f"{name}.2", F.gelu(self.linear(f"{name}.0", x)))

    def added(self, name: str, x: Tensor, more: Tensor) -> Tensor:
        """Return LN(x + drop(more)), because the captioner is post-LN."""
        return self.norm(name, x + self.drop(more), CAPTION_EPSILON)

    # --- both ---

    def attention(
        self, name: str, x: Tensor, memory: Tensor, heads: int | None = None, causal: bool = False
    ) -> Tensor:
        """Let x attend to `memory`, with the attention whose parameters have names that begin with `name`.

        With `heads`, there is no dropout (image encoder). Without `heads`, the captioner's number of heads
        and its dropout are used.
        """
        h = heads or self.sizes.caption_heads
        q, k, v = (
            self.linear(f"{name}.{own}", y).unflatten(-1, (h, -1)).transpose(1, 2)
            for own, y in (("query", x), ("key", memory), ("value", memory))
        )
        scores = torch.einsum("bhld,bhmd->bhlm", q, k) / math.sqrt(q.shape[-1])
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
        weights = scores.softmax(-1) if heads else self.drop(scores.softmax(-1))
        attended = torch.einsum("bhlm,bhmd->bhld", weights, v).transpose(1, 2).flatten(2)
        return self.linear(f"{name}.output", attended)

    def linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def norm(self, name: str, x: Tensor, epsilon: float = EPSILON) -> Tensor:
        return F.layer_norm(
            x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], epsilon
        )

    def drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout)
