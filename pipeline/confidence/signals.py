"""Signals of a caption from which the probability that it is correct is computed.

B: pairs; L: tokens of the longest caption; V: size of the vocabulary; S: number of signals, len(NAMES).
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np
import torch
from torch import Tensor

from models.common.captioner import Captioner, Difference
from pipeline.decoding.beam_search import Candidate, n_best
from pipeline.decoding.decode_split import Search
from pipeline.scoring.accuracy import PHRASES, says_no_change
from pipeline.scoring.reversal import agreement, reverse
from pipeline.scoring.sentences import Claims, Sentence, contradicts
from pipeline.text.vocabularies import END, START, Vocabulary

BEAM = 4  # captions of the beams that give `alternatives`
RARE = -20.0  # log-probability of a group of captions of which the beam has none


@dataclass(frozen=True)
class Signals:
    """Numbers of one caption. `exchanged`: of the caption of the exchanged images, (after, before)."""

    log_probability: float  # natural logarithm, over all tokens with <END>
    mean: float  # log-probability of a token
    least: float  # log-probability of the least likely token
    margin: float  # least lead of a token over the best other token, in log-probability
    exchanged_log_probability: float
    exchanged_least: float
    kind: bool  # agreement of both captions, as in scoring/reversal.py
    object: bool
    exact: bool
    alternatives: float  # log-odds, in a beam, of the captions that do not contradict the caption
    exchanged_alternatives: float  # the same, of the exchanged images against the reversed caption


NAMES = tuple(each.name for each in fields(Signals))


@dataclass(frozen=True)
class Signalled:
    """A caption with its signals."""

    caption: str
    exchanged: str  # caption of the exchanged images
    reports_change: bool
    signals: Signals

    @property
    def numbers(self) -> np.ndarray:
        """The signals as an array (S,)."""
        return np.array(astuple(self.signals), dtype=float)


@torch.inference_mode()
def signalled(
    model: Captioner,
    vocabulary: Vocabulary,
    search: Search,
    words: Tensor,
    difference: Difference,
    exchanged: Difference,
    grammar: bool = True,
    phrases: Sequence[str] = PHRASES,
) -> list[Signalled]:
    """Return the captions `words`, token ids (B, L), with their signals.

    `difference` is the encoded batch, `exchanged` the batch with exchanged images, which `search` captions.
    `grammar`: captions follow the grammar of coloured solids; else only change or no change is compared.
    """
    back = search(model, exchanged).words
    sides = [
        zip(*token_scores(model, each, ids), n_best(model, each, BEAM, BEAM), strict=True)
        for each, ids in ((difference, words), (exchanged, back))
    ]
    captions = [[vocabulary.decode(row) for row in ids.tolist()] for ids in (words, back)]
    found = []
    for caption, other, own, reverse_own in zip(*captions, *sides, strict=True):
        agreed = agreement(caption, other, grammar, phrases)
        said = _claims(caption, grammar, phrases)
        odds = [
            _odds(each[2], vocabulary, wanted, grammar, phrases)
            for each, wanted in ((own, said), (reverse_own, reverse(said)))
        ]
        kinds = [
            agreed.change if each is None else each for each in (agreed.kind, agreed.object, agreed.exact)
        ]
        (log, margin), (log_back, _) = own[:2], reverse_own[:2]
        numbers = Signals(
            float(log.sum()),
            float(log.mean()),
            float(log.min()),
            float(margin.min()),
            float(log_back.sum()),
            float(log_back.min()),
            *kinds,
            *odds,
        )
        found.append(Signalled(caption, other, not says_no_change(caption, phrases), numbers))
    return found


def token_scores(
    model: Captioner, difference: Difference, words: Tensor
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return, for each caption of `words` (B, L), log-probabilities and leads of its tokens up to <END>.

    A lead is the log-probability minus that of the best other token.
    """
    state = model.decoder.begin(difference)
    token, own, lead = torch.full_like(words[:, 0], START), [], []
    for position in range(words.shape[1]):
        scores = model.decoder.step(token, position, state).logits.double().log_softmax(-1)
        scores[:, list(model.never)] = -torch.inf  # after the softmax, as in beam_search.py
        token = words[:, position]
        chosen = scores.gather(1, token[:, None])[:, 0]
        own.append(chosen)
        lead.append(chosen - scores.scatter(1, token[:, None], -torch.inf).amax(1))
    lengths = [row.index(END) + 1 if END in row else len(row) for row in words.tolist()]
    tables = [torch.stack(each, 1).cpu().numpy() for each in (own, lead)]
    first, second = ([row[:length] for row, length in zip(each, lengths, strict=True)] for each in tables)
    return first, second


def _odds(
    candidates: Sequence[Candidate],
    vocabulary: Vocabulary,
    said: Claims,
    grammar: bool,
    phrases: Sequence[str],
) -> float:
    """Return log p(captions that do not contradict `said`) - log p(captions that do), over a beam."""
    groups: tuple[list[float], list[float]] = ([RARE], [RARE])
    for each in candidates:
        claims = _claims(vocabulary.decode(each.tokens), grammar, phrases)
        groups[contradicts(claims, said)].append(each.log_probability)
    agreeing, contradicting = (float(np.logaddexp.reduce(group)) for group in groups)
    return agreeing - contradicting


def _claims(caption: str, grammar: bool, phrases: Sequence[str]) -> Claims:
    """Return a caption's claims; without a grammar only change (`change`) or no change (`none`)."""
    none = says_no_change(caption, phrases)
    if none or not grammar:
        return Claims(frozenset(["none" if none else "change"]), {}, {})
    return Sentence.of(caption).claims
