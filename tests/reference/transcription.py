"""SCORER, DIRL and their losses (docs/methods.md, "Methods") by loops.

P: parameters by name; s: switches; without dropout. A test may exchange SIZES.
"""

import math

import torch

from models import Sizes
from tests.own_settings import VALUES
from tests.reference import loops
from tests.reference.loops import contrast, cross_entropy, gelu, linear, norm, transposed, vector, wave

SIZES = Sizes(
    channels=5,
    grid=(2, 3),
    vocabulary=9,
    longest=7,
    width=8,
    heads=2,
    layers=2,
    decoder_layers=2,
    word_width=4,
)
TAU, ALPHA = 0.3, VALUES["alpha"]


def attend(P, name, xs, memory, output, **more):
    return loops.attend(P, name, xs, memory, SIZES.heads, output=output, **more)


def encode(P, s, X):
    """Section 1: one image C x H x W -> its cells, row by row."""
    (H, W), cells = SIZES.grid, []
    for i in range(H):
        for j in range(W):
            x = torch.cat([X[:, i, j], vector([2 * j / W - 1, 2 * i / H - 1] if s.coordinates else [])])
            place = torch.cat([P["encoding.column.weight"][j], P["encoding.row.weight"][i]])
            weight = P["encoding.project.weight"][:, :, 0, 0]
            cells.append(weight @ x + P["encoding.project.bias"] + place)
    return cells


def shared(P, s, b, a, layers, normed=True):
    """Section 2: both images' cells after the layers, and the last layer's queries and keys."""
    for layer in range(layers):
        name, ln = f"difference.attentions.{layer}", f"difference.norms.{layer}"
        projected = {
            (image, kind): [linear(P, f"{name}.{kind}", x) for x in cells]
            for image, cells in (("b", b), ("a", a))
            for kind in ("query", "key")
        }
        from_a = attend(P, name, b, a, s.attention_output)
        from_b = attend(P, name, a, b, s.attention_output)
        if normed:
            from_a = loops.added(P, ln, b, from_a, s.norm_epsilon)
            from_b = loops.added(P, ln, a, from_b, s.norm_epsilon)
        b, a = from_a, from_b
    return b, a, projected


def reconstruct(P, s, b, a):
    """SCORER: both images' cells -> the memory, and the operands of the matching."""
    b, a, projected = shared(P, s, b, a, SIZES.layers)
    if s.fusion == "respective":
        return [*b, *a], projected
    join = {"cat": lambda x, y: torch.cat([x, y]), "sum": torch.add, "hadamard": torch.mul}[s.fusion]
    fused = [linear(P, "difference.fuse", join(x, y)) for x, y in zip(b, a, strict=True)]
    return [x.clamp(min=0) for x in fused], projected


def interact(P, s, b, a):
    """DIRL: both images' cells -> the memory."""
    layered = s.shared == "layers"
    b_shared, a_shared, _ = shared(P, s, b, a, SIZES.layers if layered else 1, layered)
    memory = []
    for x, x_shared, y, y_shared in zip(b, b_shared, a, a_shared, strict=True):
        fused = linear(P, "difference.fuse", torch.cat([x - x_shared, y - y_shared]))
        memory.append((norm(P, "difference.norm", fused) if s.fusion_norm else fused).clamp(min=0))
    return memory


def look(P, s, name, xs, memory):
    """Cross-attention; with `respective` to each image separately, and one map of both results."""
    if s.fusion != "respective":
        return attend(P, name, xs, memory, s.attention_output)
    half = len(memory) // 2
    from_b, from_a = (attend(P, f"{name}.each", xs, m, output=False) for m in (memory[:half], memory[half:]))
    return [linear(P, f"{name}.output", torch.cat([x, y])) for x, y in zip(from_b, from_a, strict=True)]


def decode(P, s, tokens, memory):
    """Section 3: one caption's hidden states, and of each layer the four streams of States."""
    xs, real, layers = [], [token != 0 for token in tokens[:-1]], []
    for position, token in enumerate(tokens[:-1]):
        word = P["decoder.embedding.weight"][token] + wave(position, SIZES.word_width)
        xs.append(norm(P, "decoder.norm", linear(P, "decoder.project", word), s.norm_epsilon))
    for layer in range(SIZES.decoder_layers):
        name = f"decoder.layers.{layer}"
        own = attend(P, f"{name}.self_attention", xs, xs, s.attention_output, causal=True, keys=real)
        heard = loops.added(P, f"{name}.norms.0", xs, own, s.norm_epsilon)
        seen = look(P, s, f"{name}.cross_attention", heard, memory)
        xs = loops.added(P, f"{name}.norms.1", heard, seen, s.norm_epsilon)
        layers.append((own, heard, seen, list(xs)))
        for i, x in enumerate(xs):
            first = linear(P, f"{name}.feed_forward.0", x)
            if s.feed_forward == "wide":
                rest = x + linear(P, f"{name}.feed_forward.3", first.clamp(min=0))
            else:
                rest = linear(P, f"{name}.feed_forward.2", gelu(first)) + gelu(first)
            xs[i] = norm(P, f"{name}.norms.2", rest, s.norm_epsilon)
    return xs, layers


def predicted(P, hidden, tokens):
    """Each caption's logits, 0 where the word to predict is padding."""
    return [
        torch.stack(
            [linear(P, "decoder.vocabulary", x) * (word != 0) for x, word in zip(xs, row[1:], strict=False)]
        )
        for xs, row in zip(hidden, tokens, strict=True)
    ]


def cosine(x, y):
    return (x @ y) / (x.norm() * y.norm())


def tm(q, k, alike):
    e = torch.stack([torch.stack([alike(x, y) for y in k]) for x in q])
    return (e.amax(1).mean() + e.amax(0).mean()) / 2


def mtm(s, q, k, alike=torch.dot):
    if s.mtm in ("summed", "single_head"):  # one dot product over all heads and channels
        return tm(q, k, alike)
    if s.mtm in ("mean_pool", "max_pool"):  # by channel
        pool = torch.amax if s.mtm == "max_pool" else torch.mean
        return alike(*(pool(torch.stack(list(x)), 0) for x in (q, k)))
    d = SIZES.width // SIZES.heads
    parts = [slice(head * d, (head + 1) * d) for head in range(SIZES.heads)]
    return sum(tm([x[part] for x in q], [x[part] for x in k], alike) for part in parts) / SIZES.heads


def both_ways(P, s, name, S, back):
    """The contrast of two directions' similarities, B x B each."""
    learned = s.temperature == "learned"
    scale = P[f"regularisers.{name}.contrast.s"].exp() if learned else 1 / TAU
    ways = [[[scale * value for value in row] for row in way] for way in (S, back)]
    return sum(map(contrast, ways)) / 2


def reason(P, s, cells, hidden, length):
    """Section 4: the imagined after cells, of a caption with so many words to predict.

    The states of a `padded` sentence are one more, because <END> is read, too.
    """
    name = "regularisers.cbr"
    mean, padded = sum(hidden[:length]) / length, sum(hidden[: length + 1]) / SIZES.longest
    sentence = padded if s.sentence == "padded" else mean
    joined = [linear(P, f"{name}.join", torch.cat([x, sentence])) for x in cells]
    attended = attend(P, f"{name}.attention", joined, joined, output=True, bias=s.cbr_bias)
    return [linear(P, f"{name}.imagine", x) for x in attended]


def prepared(model, s, inputs, difference, longest):
    """Parameters, cells of both images, results of `difference`, captions' lengths and decoded captions.

    Captions are read with padding up to `longest` tokens.
    """
    P = {name: value.double() for name, value in model.state_dict().items()}
    b, a = ([encode(P, s, X) for X in images.double()] for images in inputs[:2])
    tokens = inputs[2].tolist()
    lengths = [sum(token != 0 for token in row[1:]) for row in tokens]
    compared = [difference(P, s, *cells) for cells in zip(b, a, strict=True)]
    memory = [each[0] if isinstance(each, tuple) else each for each in compared]
    read = [row + [0] * (longest - len(row)) for row in tokens]
    hidden, layers = zip(*(decode(P, s, *each) for each in zip(read, memory, strict=True)), strict=True)
    logits = predicted(P, hidden, tokens)
    found = {
        "memory": torch.stack([torch.stack(cells) for cells in memory]),
        "logits": torch.stack(logits),
        "cap": cross_entropy(logits, tokens),
    }
    return P, b, a, compared, lengths, hidden, layers, found


@torch.no_grad()
def scorer(model, s, inputs):
    """SCORER's memory, logits and loss terms."""
    longest = inputs[2].shape[1] + 1  # <END> is read everywhere
    P, b, a, compared, lengths, hidden, _, found = prepared(model, s, inputs, reconstruct, longest)
    projected, B = [each[1] for each in compared], range(len(lengths))
    alike = cosine if s.contrast == "distance" else torch.dot
    b2a = [[mtm(s, projected[k]["b", "query"], projected[r]["a", "key"], alike) for r in B] for k in B]
    a2b = [[mtm(s, projected[k]["a", "query"], projected[r]["b", "key"], alike) for r in B] for k in B]
    if s.contrast == "distance":
        found["cv"] = sum(1 - (b2a[k][k] + a2b[k][k]) / 2 for k in B) / len(B)
    else:
        found["cv"] = both_ways(P, s, "cv", b2a, a2b)
    imagined = [reason(P, s, b[k], hidden[k], lengths[k]) for k in B]

    def own(kind, images):
        return [[linear(P, f"regularisers.cbr.match.{kind}", x) for x in cells] for cells in images]

    h2a = [[mtm(s, q, k) for k in own("key", a)] for q in own("query", imagined)]
    a2h = [[mtm(s, q, k) for k in own("key", imagined)] for q in own("query", a)]
    found["cbr"] = both_ways(P, s, "cbr", h2a, a2h if s.reverse == "own" else transposed(h2a))
    return {name: value.numpy() for name, value in found.items()}


def correlated(b, a, center):
    """Correlation of all channels of both images over the tokens of a batch: D x D."""
    (n, D), C = b.shape, torch.zeros(b.shape[1], b.shape[1], dtype=torch.float64)
    for i in range(D):
        for j in range(D):
            x, y = b[:, i], a[:, j]
            if center:
                x, y = ((u - u.sum() / n) / (((u - u.sum() / n) ** 2).sum() / (n - 1)) ** 0.5 for u in (x, y))
                C[i, j] = (x * y).sum() / n
            else:
                C[i, j] = (x * y).sum() / math.sqrt((x * x).sum() * (y * y).sum())
    return C


def uncorrelated(C, terms):
    """DIRL Eq. 4."""
    places = [(i, j) for i in range(len(C)) for j in range(len(C))]
    alike = sum((1 - C[i, j]) ** 2 for i, j in places if i == j)
    others = sum(ALPHA * C[i, j] ** 2 for i, j in places if i != j)
    return {"both": alike + others, "non_perturbation": alike, "discrimination": others}[terms]


def contrasted(s, layers, lengths):
    """L_ccr; `layers`: for each caption, of each layer, its four streams of word vectors."""
    B, losses = range(len(layers)), []
    for layer in range(SIZES.decoder_layers):
        text, visual = [], []
        for k in B:
            own, own_normed, seen, seen_normed = layers[k][layer]
            e, v = (own, seen) if s.streams == "attended" else (own_normed, seen_normed)
            words = lengths[k] if s.pooled == "real" else len(e)
            text.append(sum(e[:words]) / words)
            visual.append(sum(v[:words]) / words)
        S = [[text[k] @ visual[r] / TAU for r in B] for k in B]
        if s.directions == "each":
            losses.append((contrast(S) + contrast(transposed(S))) / 2)
        else:
            losses.append(contrast([[(S[k][r] + S[r][k]) / 2 for r in B] for k in B]))
    return losses[-1] if s.ccr_layers == "last" else sum(losses) / len(losses)


@torch.no_grad()
def dirl(model, s, inputs):
    """DIRL's memory, logits and loss terms."""
    longest = SIZES.longest + 1 if s.pooled == "all" else inputs[2].shape[1]
    P, b, a, _, lengths, _, layers, found = prepared(model, s, inputs, interact, longest)
    name = "regularisers.dirl.mlp"
    projected = (torch.stack([x for cells in images for x in loops.fed(P, name, cells)]) for images in (b, a))
    found["dirl"] = uncorrelated(correlated(*projected, s.center), s.terms)
    found["ccr"] = contrasted(s, layers, lengths)
    return {name: value.numpy() for name, value in found.items()}
