"""MEDIC (docs/methods.md, "MEDIC") by loops: a pair, a cell and a slot at a time, with gradients.

P: parameters by name; s: MEDIC's switches; a pair has the kind 0 to 4, or NONE. Without dropout.
"""

from dataclasses import replace

import torch

import models
from models.common.switches import PAPER, RELEASED, RELEASED_DIRL
from models.common.trainable import KINDS, Labels
from models.medic.switches import MedicSizes
from tests.random_models import randomise
from tests.reference import loops, transcription
from tests.reference.loops import cross_entropy, linear, log_softmax, norm, wave
from tests.reference.transcription import ALPHA, TAU

SIZES = MedicSizes(5, (2, 3), 9, 6, 8, 2, 2, 1, 4, router=4, slots=3)  # tests give transcription these sizes
NONE, CELLS = 5, 6
DIRL = replace(RELEASED_DIRL, coordinates=False)
ROUTING = "difference.routing"


def make(name="dirl_medic", variant="released", switches=None, kinds=KINDS):
    """All parameters random, by name; in float64. The change router finds about as many changes as not."""
    own = {"variant": variant, "switches": switches or {}, "dropout": 0.0, "temperature": TAU}
    own |= {"alpha": ALPHA} if name == "dirl_medic" else {}
    model = randomise(models.build(name, SIZES, own | {"kinds": [*kinds]}).double())
    waves = [wave(place, SIZES.word_width) for place in range(SIZES.longest)]
    model.decoder.positions = torch.nn.Buffer(torch.stack(waves), persistent=False)  # ours are in float32
    before, after, _, _ = batch()
    with torch.no_grad():
        z = model.encode(before, after).change_logits
        if NONE_NAME in kinds and model.difference.routing.switches.routers == "two":
            router = model.difference.routing.change_router[2]
            router.bias[1] -= (z[:, 1] - z[:, 0]).sort().values[4:6].mean()
    return model


NONE_NAME = KINDS[NONE]


def batch(count=10):
    """Features, captions and kinds: kinds 0, 2, 3 and none occur several times, 1 once, 4 never."""
    random = torch.Generator().manual_seed(2)
    before, after = torch.randn(2, count, 5, 2, 3, generator=random, dtype=torch.float64)
    captions = [[2, 4, 5, 3, 0], [2, 6, 3, 0, 0], [2, 4, 7, 8, 3], [2, 5, 3, 0, 0], [2, 8, 8, 7, 3]]
    tokens = torch.tensor([captions[row % len(captions)] for row in range(count)])
    return before, after, tokens, torch.tensor([0, 2, 3, 0, 2, 1, NONE, NONE, NONE, NONE][:count])


def labels(kinds):
    return Labels((kinds != NONE).long(), kinds=kinds)


def unit(x):
    return x / max(x.norm(), torch.tensor(1e-12, dtype=x.dtype))


def router(P, name, cells):
    """Two convolutions over the grid with a border of zeros, and the mean."""
    (H, W), maps = SIZES.grid, cells
    for layer in (0, 2):
        weight, bias, found = P[f"{name}.{layer}.weight"], P[f"{name}.{layer}.bias"], []
        for i in range(H):
            for j in range(W):
                x = bias
                for u in range(3):
                    for v in range(3):
                        row, column = i + u - 1, j + v - 1
                        if 0 <= row < H and 0 <= column < W:
                            x = x + weight[:, :, u, v] @ maps[row * W + column]
                found.append(x.clamp(min=0) if layer == 0 else x)
        maps = found
    return sum(maps) / len(maps)


def expert(P, kind, x):
    """E_k of a cell."""
    group, number = (f"{ROUTING}.no_change", 0) if kind == NONE else (f"{ROUTING}.change", kind)
    if f"{group}.first" in P:
        hidden = (P[f"{group}.first"][number] @ x + P[f"{group}.first_bias"][number, 0]).clamp(min=0)
        return P[f"{group}.second"][number] @ hidden + P[f"{group}.second_bias"][number, 0]
    keys, values = P[f"{group}.keys"][number], P[f"{group}.values"][number]
    alpha = torch.stack([unit(x) @ unit(key) / 0.1 for key in keys]).softmax(0)
    return sum(a * value for a, value in zip(alpha, values, strict=True))


def route(P, s, paired, kind, gated=None):
    """One pair: verdict, z, s, and the mixture of each cell. `gated`: a label that opens the gate."""
    if s.routers == "one":
        logits = router(P, f"{ROUTING}.kind_router", paired)
        shares = logits.softmax(0).detach()
        m = [sum(shares[k] * expert(P, k, x) for k in range(NONE + 1)) for x in paired]
        return kind != NONE, None, logits, m
    z = router(P, f"{ROUTING}.change_router", paired)
    kinds = router(P, f"{ROUTING}.kind_router", paired)
    r, p, q = bool(z[1] > z[0]), z.softmax(0).detach(), kinds.softmax(0).detach()
    if gated is not None and r != (gated != NONE):
        return r, z, kinds, [torch.zeros_like(x) for x in paired]
    if r:
        sure = p[1] if s.confidence else 1
        m = [sure * sum(q[k] * expert(P, k, x) for k in range(NONE)) for x in paired]
    else:
        m = [(p[0] if s.confidence else 1) * expert(P, NONE, x) for x in paired]
    return r, z, kinds, m


def mean(xs):
    return sum(xs) / len(xs)


def consistency(P, s, pairs):
    """L_con; pairs: (kind, verdict, paired features) of each."""
    counted = [(k, F) for k, r, F in pairs if s.consistency_pairs == "all" or r == (k != NONE)]
    alike = []
    for k, F in counted:
        D, each = len(F[0]) // 2, []
        for x in F:
            there, back = expert(P, k, x), expert(P, k, torch.cat([x[D:], x[:D]]))
            each.append(unit(there) @ unit(back))
        alike.append((k, mean(each)))
    by_kind = s.consistency_groups == "kinds"
    groups = [[k] for k in range(NONE + 1)] if by_kind else [[0, 1, 4, NONE], [2, 3]]
    total = torch.zeros((), dtype=torch.float64)
    for group in groups:
        own = [c for k, c in alike if k in group]
        if own:
            total = total + (1 + mean(own) if group[0] in (2, 3) else 1 - mean(own))
    return total


def disentangling(P, s, pairs):
    """L_dis; pairs: (kind, verdict, paired features, mixture) of each."""
    g = {}
    for k in range(NONE + 1):
        if s.prototypes == "experts":
            own = [mean([expert(P, k, x) for x in F]) for kind, _, F, _ in pairs if kind == k]
        elif k < NONE:
            own = [mean(m) for kind, r, _, m in pairs if r and kind == k]
        else:
            own = [mean(m) for _, r, _, m in pairs if not r]
        if own:
            g[k] = unit(mean(own))
    changes, zero = [k for k in g if k != NONE], torch.zeros((), dtype=torch.float64)
    couples = [(k, other) for k in changes for other in changes if k < other]
    inter = [(g[k] @ g[NONE] - 0.2).clamp(min=0) ** 2 for k in changes] if NONE in g else []
    intra = [(g[k] @ g[other] - 0.7).clamp(min=0) ** 2 for k, other in couples]
    by = {"experts": (NONE, NONE * (NONE - 1) / 2), "mixture": (len(changes), len(couples))}[s.prototypes]
    return sum(inter, zero) / max(by[0], 1) + sum(intra, zero) / max(by[1], 1)


def classified(s, kinds, verdicts, z, logits):
    """L_cls and L_type."""
    if s.routers == "one":
        return {"type": -mean([log_softmax(x, k) for k, x in zip(kinds, logits, strict=True)])}
    cls = -mean([log_softmax(x, int(k != NONE)) for k, x in zip(kinds, z, strict=True)])
    each = zip(kinds, verdicts, logits, strict=True)
    own = [-log_softmax(x, k) for k, r, x in each if k != NONE and (r or s.type_pairs == "all")]
    return {"cls": cls, "type": mean(own) if own else torch.zeros((), dtype=torch.float64)}


def dirl_pair(P, b, a):
    """Cells of both images -> the paired features of each cell."""
    b_shared, a_shared, _ = transcription.shared(P, DIRL, b, a, SIZES.layers)
    both = zip(b, b_shared, a, a_shared, strict=True)
    return [torch.cat([x - u, y - v]) for x, u, y, v in both]


def scorer_pair(scorer):
    def paired(P, b, a):
        b, a, _ = transcription.shared(P, scorer, b, a, SIZES.layers)
        return [torch.cat([x, y]) for x, y in zip(b, a, strict=True)]

    return paired


def encoded(P, images):
    return [transcription.encode(P, DIRL, X) for X in images]


def dirl_medic(P, s, inputs):
    """Losses of one call of the detector, and the intermediate values of each pair."""
    before, after, tokens, kinds = inputs
    words, kinds = P["decoder.embedding.weight"], kinds.tolist()
    P = P | {"decoder.embedding.weight": torch.cat([words[:1].detach(), words[1:]])}  # <NULL> does not learn
    b, a = encoded(P, before), encoded(P, after)
    found = routed(P, s, b, a, kinds, dirl_pair, True)
    read = [[*row, *[0] * (SIZES.longest + 1 - len(row))] for row in tokens.tolist()]
    decoded = [transcription.decode(P, DIRL, *each) for each in zip(read, found["memory"], strict=True)]
    hidden, layers = zip(*decoded, strict=True)
    logits = [[linear(P, "decoder.vocabulary", x) for x in xs] for xs in hidden]
    name = "regularisers.dirl.mlp"
    projected = [torch.stack([x for cells in each for x in loops.fed(P, name, cells)]) for each in (b, a)]
    losses = {
        "cap": cross_entropy(logits, read),
        "dirl": transcription.uncorrelated(transcription.correlated(*projected, True), "both"),
        "ccr": transcription.contrasted(DIRL, layers, [SIZES.longest] * len(kinds)),
    }
    return losses | medic_terms(P, s, kinds, found), found | {"logits": logits}


def routed(P, s, b, a, kinds, paired, normed):
    """Of each pair: paired features, verdict, z, s, mixture and memory."""
    features = [paired(P, *each) for each in zip(b, a, strict=True)]
    gates = kinds if s.gate == "label" else [None] * len(kinds)
    answers = [route(P, s, *each) for each in zip(features, kinds, gates, strict=True)]
    verdicts, z, logits, mixtures = zip(*answers, strict=True)
    memory = []
    for F, m in zip(features, mixtures, strict=True):
        cells = [linear(P, "difference.fuse.map", torch.cat(each)) for each in zip(F, m, strict=True)]
        cells = [norm(P, "difference.fuse.norm", x) for x in cells] if normed else cells
        memory.append([x.clamp(min=0) for x in cells])
    return {"F": features, "r": verdicts, "z": z, "s": logits, "m": mixtures, "memory": memory}


def medic_terms(P, s, kinds, found):
    pairs = list(zip(kinds, found["r"], found["F"], found["m"], strict=True))
    return classified(s, kinds, found["r"], found["z"], found["s"]) | {
        "con": consistency(P, s, [pair[:3] for pair in pairs]),
        "dis": disentangling(P, s, pairs),
    }


def scorer_medic(P, s, inputs):
    """MEDIC's terms behind SCORER, and the values of each pair."""
    before, after, _, kinds = inputs
    scorer = RELEASED if s.norm_epsilon == RELEASED.norm_epsilon else PAPER
    cells = [[transcription.encode(P, scorer, X) for X in images] for images in (before, after)]
    found = routed(P, s, *cells, kinds.tolist(), scorer_pair(scorer), False)
    return medic_terms(P, s, kinds.tolist(), found), found
