"""SCORER and its decoder (docs/methods.md, "Methods") by loops.

Vectors one at a time, P the parameters by name, s the switches. Without dropout, and for the
sizes below, which a test may exchange.
"""

import math

import numpy as np

from models import Sizes

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
TAU = 0.3


def linear(P, name, x, bias=True):
    return P[f"{name}.weight"] @ x + (P[f"{name}.bias"] if bias else 0)


def norm(P, name, x, epsilon=1e-5):
    middle = sum(x) / len(x)
    variance = sum((value - middle) ** 2 for value in x) / len(x)
    return P[f"{name}.weight"] * (x - middle) / math.sqrt(variance + epsilon) + P[f"{name}.bias"]


def gelu(x):
    return np.array([value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in x])


def attend(P, name, xs, memory, output, bias=True, causal=False, keys=None):
    """Each x over the memory's vectors: of a causal one up to its own place, and where `keys` are true."""
    q = [linear(P, f"{name}.query", x, bias) for x in xs]
    k = [linear(P, f"{name}.key", x, bias) for x in memory]
    v = [linear(P, f"{name}.value", x, bias) for x in memory]
    d = SIZES.width // SIZES.heads
    results = []
    for i in range(len(xs)):
        seen = [j for j in range(i + 1 if causal else len(memory)) if keys is None or keys[j]]
        joined = []
        for head in range(SIZES.heads):
            part = slice(head * d, (head + 1) * d)
            powers = [math.exp(sum(q[i][part] * k[j][part]) / math.sqrt(d)) for j in seen]
            joined.append(sum(p * v[j][part] for p, j in zip(powers, seen, strict=True)) / sum(powers))
        whole = np.concatenate(joined)
        results.append(linear(P, f"{name}.output", whole, bias) if output else whole)
    return results


def encode(P, s, X):
    """Section 1: one image C x H x W -> its cells, row by row."""
    H, W = SIZES.grid
    cells = []
    for i in range(H):
        for j in range(W):
            x = X[:, i, j]
            if s.coordinates:
                x = np.append(x, [2 * j / W - 1, 2 * i / H - 1])
            place = np.append(P["encoding.column.weight"][j], P["encoding.row.weight"][i])
            weight = P["encoding.project.weight"][:, :, 0, 0]
            cells.append(weight @ x + P["encoding.project.bias"] + place)
    return cells


def reconstruct(P, s, b, a):
    """Section 2: both images' cells -> the memory's, and what the last layer's matching compares."""
    for layer in range(SIZES.layers):
        name, ln = f"difference.attentions.{layer}", f"difference.norms.{layer}"
        projected = {
            (image, kind): [linear(P, f"{name}.{kind}", x) for x in cells]
            for image, cells in (("b", b), ("a", a))
            for kind in ("query", "key")
        }
        b_from, a_from = (
            attend(P, name, b, a, s.attention_output),
            attend(P, name, a, b, s.attention_output),
        )
        b = [norm(P, ln, x + u, s.norm_epsilon) for x, u in zip(b, b_from, strict=True)]
        a = [norm(P, ln, x + u, s.norm_epsilon) for x, u in zip(a, a_from, strict=True)]
    if s.fusion == "respective":
        return [*b, *a], projected
    joined = {"cat": np.append, "sum": np.add, "hadamard": np.multiply}[s.fusion]
    fused = [linear(P, "difference.fuse", joined(x, y)) for x, y in zip(b, a, strict=True)]
    return [np.maximum(x, 0) for x in fused], projected


def look(P, s, name, xs, memory):
    """Cross-attention; of `respective` to each image by itself, the results side by side through one map."""
    if s.fusion != "respective":
        return attend(P, name, xs, memory, s.attention_output)
    half = len(memory) // 2
    from_b, from_a = (attend(P, f"{name}.each", xs, m, output=False) for m in (memory[:half], memory[half:]))
    return [linear(P, f"{name}.output", np.append(x, y)) for x, y in zip(from_b, from_a, strict=True)]


def decode(P, s, tokens, memory, layers=None):
    """Section 3: one caption's hidden states, which the logits are a linear map of.

    `layers` gets each layer's attended and normed words, of self-attention and of cross-attention.
    """
    layers = [] if layers is None else layers
    xs, real = [], [token != 0 for token in tokens[:-1]]
    for position, token in enumerate(tokens[:-1]):
        angles = [position / 10_000 ** (2 * (i // 2) / SIZES.word_width) for i in range(SIZES.word_width)]
        wave = [math.cos(angle) if i % 2 else math.sin(angle) for i, angle in enumerate(angles)]
        word = P["decoder.embedding.weight"][token] + wave
        xs.append(norm(P, "decoder.norm", linear(P, "decoder.project", word), s.norm_epsilon))
    for layer in range(SIZES.decoder_layers):
        name = f"decoder.layers.{layer}"
        own = attend(P, f"{name}.self_attention", xs, xs, s.attention_output, causal=True, keys=real)
        heard = xs = [norm(P, f"{name}.norms.0", x + u, s.norm_epsilon) for x, u in zip(xs, own, strict=True)]
        seen = look(P, s, f"{name}.cross_attention", xs, memory)
        xs = [norm(P, f"{name}.norms.1", x + u, s.norm_epsilon) for x, u in zip(xs, seen, strict=True)]
        layers.append((own, heard, seen, list(xs)))
        for i, x in enumerate(xs):
            first = linear(P, f"{name}.feed_forward.0", x)
            if s.feed_forward == "wide":
                rest = x + linear(P, f"{name}.feed_forward.3", np.maximum(first, 0))
            else:
                u = gelu(first)
                rest = linear(P, f"{name}.feed_forward.2", u) + u
            xs[i] = norm(P, f"{name}.norms.2", rest, s.norm_epsilon)
    return xs


def predicted(P, hidden, tokens):
    """Each caption's logits, 0 where the word to predict is padding."""
    return [
        [linear(P, "decoder.vocabulary", x) * (word != 0) for x, word in zip(xs, row[1:], strict=False)]
        for xs, row in zip(hidden, tokens, strict=True)
    ]


def cosine(x, y):
    return np.dot(x, y) / math.sqrt(np.dot(x, x) * np.dot(y, y))


def tm(q, k, alike):
    e = [[alike(x, y) for y in k] for x in q]
    rows = sum(max(row) for row in e) / len(q)
    return (rows + sum(max(column) for column in zip(*e, strict=True)) / len(k)) / 2


def mtm(s, q, k, alike=np.dot):
    if s.mtm in ("summed", "single_head"):  # one dot product over all heads and channels
        return tm(q, k, alike)
    if s.mtm in ("mean_pool", "max_pool"):  # by channel
        pool = max if s.mtm == "max_pool" else lambda values: sum(values) / len(values)
        return alike(*([pool(channel) for channel in zip(*x, strict=True)] for x in (q, k)))
    d = SIZES.width // SIZES.heads
    parts = [slice(head * d, (head + 1) * d) for head in range(SIZES.heads)]
    return sum(tm([x[part] for x in q], [x[part] for x in k], alike) for part in parts) / SIZES.heads


def contrast(P, s, name, S):
    if name == "cv" and s.contrast == "distance":
        return sum(1 - S[k][k] for k in range(len(S))) / len(S)
    scale = math.exp(P[f"regularisers.{name}.contrast.s"]) if s.temperature == "learned" else 1 / TAU
    rows = [[scale * value for value in row] for row in S]
    return -sum(row[k] - np.logaddexp.reduce(row) for k, row in enumerate(rows)) / len(rows)


def reason(P, s, cells, hidden, length):
    """Section 4: the imagined after cells, of a caption with so many words to predict.

    Its `length` words and <START> are read before <END>, which the states of a `padded` sentence hold too.
    """
    name = "regularisers.cbr"
    mean, padded = sum(hidden[:length]) / length, sum(hidden[: length + 1]) / SIZES.longest
    sentence = padded if s.sentence == "padded" else mean
    joined = [linear(P, f"{name}.join", np.append(x, sentence)) for x in cells]
    attended = attend(P, f"{name}.attention", joined, joined, output=True, bias=s.cbr_bias)
    return [linear(P, f"{name}.imagine", x) for x in attended]


def transcription(model, s, inputs):
    P = {name: value.double().numpy() for name, value in model.state_dict().items()}
    before, after = (x.double().numpy() for x in inputs[:2])
    tokens = inputs[2].tolist()
    B, lengths = range(len(tokens)), [sum(token != 0 for token in row[1:]) for row in tokens]
    b, a = [encode(P, s, X) for X in before], [encode(P, s, X) for X in after]
    memory, projected = zip(*(reconstruct(P, s, *cells) for cells in zip(b, a, strict=True)), strict=True)
    read = [[*row, 0] for row in tokens]  # <END> is read everywhere
    hidden = [decode(P, s, row, cells) for row, cells in zip(read, memory, strict=True)]
    logits = predicted(P, hidden, tokens)
    cap = [
        np.logaddexp.reduce(logits[k][t]) - logits[k][t][tokens[k][t + 1]]
        for k in B
        for t in range(lengths[k])
    ]
    alike = cosine if s.contrast == "distance" else np.dot
    b2a = [[mtm(s, projected[k]["b", "query"], projected[r]["a", "key"], alike) for r in B] for k in B]
    a2b = [[mtm(s, projected[k]["a", "query"], projected[r]["b", "key"], alike) for r in B] for k in B]
    imagined = [reason(P, s, b[k], hidden[k], lengths[k]) for k in B]

    def own(kind, images):
        return [[linear(P, f"regularisers.cbr.match.{kind}", x) for x in cells] for cells in images]

    h2a = [[mtm(s, q, k) for k in own("key", a)] for q in own("query", imagined)]
    a2h = [[mtm(s, q, k) for k in own("key", imagined)] for q in own("query", a)]
    a2h = a2h if s.reverse == "own" else list(zip(*h2a, strict=True))
    return {
        "memory": np.array(memory),
        "logits": np.array(logits),
        "cap": sum(cap) / len(cap),
        "cv": (contrast(P, s, "cv", b2a) + contrast(P, s, "cv", a2b)) / 2,
        "cbr": (contrast(P, s, "cbr", h2a) + contrast(P, s, "cbr", a2h)) / 2,
    }
