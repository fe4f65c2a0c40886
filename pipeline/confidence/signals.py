"""Signals of a caption. The probability that the caption is correct is computed from them.

B: pairs; L: tokens of the longest caption; V: size of the vocabulary; S: number of signals, len(NAMES).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np
import torch
from torch import Tensor

from models.common.captioner import Captioner, Difference
from pipeline.datasets.schema import CHANGE, NO_CHANGE
from pipeline.decoding.beam_search import Candidate, n_best
from pipeline.decoding.decode_split import Search
from pipeline.judging.no_change import says_no_change
from pipeline.judging.references import JointClaims, contradicts, joint
from pipeline.judging.strict import Sentence
from pipeline.scoring.reversal import agreement, reverse
from pipeline.text.vocabularies import END, START, Vocabulary

BEAM = 4  # width of the beams from which `alternatives` is computed
RARE = -20.0  # log-probability of a group of captions if none of them is in the beam


@dataclass(frozen=True)
class Signals:
    """Numbers that are computed from a caption, and that predict whether the caption is correct.

    The model also writes a second caption, for the same images in exchanged order (after, before).
    Signals named "exchanged_…" are computed for the exchanged images. Three signals compare the first
    caption with the second, whose claims are reversed before. `kind`: both report the same kind of
    change. `object`: both name an object, and no attribute of it differs. `exact`: `kind` and `object`
    hold, and no old or new value differs. Without a grammar, or if a caption reports no change, all
    three say only whether both captions, or none, report a change.
    """

    log_probability: float  # natural logarithm, over all tokens with <END>
    mean: float  # mean log-probability of the tokens
    least: float  # log-probability of the least likely token
    margin: float  # minimum lead of a token over the best other token, in log-probability
    exchanged_log_probability: float
    exchanged_least: float
    kind: bool  # agreement of both captions, as in scoring/reversal.py
    object: bool
    exact: bool
    alternatives: float  # log-odds, in a beam, of the captions that do not contradict the caption
    exchanged_alternatives: float  # like alternatives, for the exchanged images and the reversed caption
    # norms of the tokens in the decoder's memory, which encodes the difference of the images
    memory_greatest: float
    memory_mean: float
    memory_deviation: float
    exchanged_memory_greatest: float
    exchanged_memory_deviation: float


NAMES = tuple(field.name for field in fields(Signals))


@dataclass(frozen=True)
class Signalled:
    """A caption with its signals: numbers that predict whether the caption is correct.

    `exchanged` is the model's caption for the same images in exchanged order, (after, before).
    """

    caption: str
    exchanged: str  # caption of the exchanged images
    reports_change: bool
    signals: Signals

    @property
    def numbers(self) -> np.ndarray:
        return np.array(astuple(self.signals), dtype=float)


@dataclass(frozen=True)
class _Side:
    """A caption for one order of a pair's images, and numbers that the model computed for this order.

    The order is (before, after) or (after, before). `norms` has the maximum, mean and standard
    deviation of the norms of the decoder's memory tokens.
    """

    caption: str
    scores: np.ndarray  # log-probability of each token up to <END>
    leads: np.ndarray  # lead of each token over the best other token
    beam: Sequence[Candidate]
    norms: Sequence[float]  # from memory_norms


@dataclass(frozen=True)
class Reader:
    """Captioner that computes the signals of each caption, too.

    Some signals compare the caption with another caption that the model writes for the same pair. If
    `grammar` is True, captions follow the grammar of coloured solids, and all their claims are compared.
    Otherwise, the comparison is only whether both captions report a change. `own` has the sentences of the
    dataset that report no change (no_change.sentences_of).
    """

    model: Captioner
    vocabulary: Vocabulary
    search: Search
    grammar: bool = True
    own: Collection[str] = ()

    def captions(self, before: Tensor, after: Tensor) -> list[Signalled]:
        """Write the captions of B pairs. `before` and `after` are feature grids or pixels, (B, C, H, W)."""
        device = next(self.model.parameters()).device
        first, second = (images.to(device).float() for images in (before, after))
        with torch.inference_mode():
            both = self.model.encode(first, second), self.model.encode(second, first)
            return self.signalled(self.search(self.model, both[0]).words, *both)

    @torch.inference_mode()
    def signalled(self, words: Tensor, difference: Difference, exchanged: Difference) -> list[Signalled]:
        """Return the captions `words`, (B, L), with signals that need the encoding of both image orders.

        This method also decodes captions of the pairs with before and after `exchanged`.
        """
        exchanged_words = self.search(self.model, exchanged).words
        sides = self._sides(difference, words), self._sides(exchanged, exchanged_words)
        return [
            Signalled(
                side.caption,
                exchanged_side.caption,
                not says_no_change(side.caption, self.own),
                self._signals(side, exchanged_side),
            )
            for side, exchanged_side in zip(*sides, strict=True)
        ]

    def _sides(self, difference: Difference, words: Tensor) -> Iterator[_Side]:
        captions = [self.vocabulary.decode(row) for row in words.tolist()]
        scores, leads = token_scores(self.model, difference, words)
        beams = n_best(self.model, difference, BEAM, BEAM)
        yield from map(_Side, captions, scores, leads, beams, memory_norms(difference))

    def _signals(self, side: _Side, exchanged: _Side) -> Signals:
        agreed = agreement(side.caption, exchanged.caption, self.grammar, self.own)
        kind, same_object, exact = (
            agreed.change if value is None else value for value in (agreed.kind, agreed.object, agreed.exact)
        )
        claims = self._claims(side.caption)
        return Signals(
            log_probability=float(side.scores.sum()),
            mean=float(side.scores.mean()),
            least=float(side.scores.min()),
            margin=float(side.leads.min()),
            exchanged_log_probability=float(exchanged.scores.sum()),
            exchanged_least=float(exchanged.scores.min()),
            kind=kind,
            object=same_object,
            exact=exact,
            alternatives=self._odds(side, claims),
            exchanged_alternatives=self._odds(exchanged, reverse(claims)),
            memory_greatest=side.norms[0],
            memory_mean=side.norms[1],
            memory_deviation=side.norms[2],
            exchanged_memory_greatest=exchanged.norms[0],
            exchanged_memory_deviation=exchanged.norms[2],
        )

    def _odds(self, side: _Side, claims: JointClaims) -> float:
        """Return the log-odds, over the captions of a beam, that a caption does not contradict `claims`."""
        groups: tuple[list[float], list[float]] = ([RARE], [RARE])
        for candidate in side.beam:
            candidate_claims = self._claims(self.vocabulary.decode(candidate.tokens))
            groups[contradicts(candidate_claims, claims)].append(candidate.log_probability)
        agreeing, contradicting = (float(np.logaddexp.reduce(group)) for group in groups)
        return agreeing - contradicting

    def _claims(self, caption: str) -> JointClaims:
        """Return a caption's claims about the change; without grammar, only CHANGE or NO_CHANGE."""
        reports_none = says_no_change(caption, self.own)
        if reports_none or not self.grammar:
            return JointClaims(frozenset([NO_CHANGE if reports_none else CHANGE]), {}, {})
        return joint([Sentence.of(caption).claim])


def token_scores(
    model: Captioner, difference: Difference, words: Tensor
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return each caption's tokens' log-probabilities, to <END>, and leads over the best other token.

    `words` are token ids, (B, L).
    """
    state = model.decoder.begin(difference)
    token, chosen_scores, leads = torch.full_like(words[:, 0], START), [], []
    for position in range(words.shape[1]):
        scores = model.decoder.step(token, position, state).logits.double().log_softmax(-1)
        scores[:, list(model.never)] = -torch.inf  # after the softmax, as in beam_search.py
        token = words[:, position]
        chosen = scores.gather(1, token[:, None])[:, 0]
        chosen_scores.append(chosen)
        leads.append(chosen - scores.scatter(1, token[:, None], -torch.inf).amax(1))
    lengths = [row.index(END) + 1 if END in row else len(row) for row in words.tolist()]
    score_rows, lead_rows = (
        [row[:length] for row, length in zip(torch.stack(columns, 1).cpu().numpy(), lengths, strict=True)]
        for columns in (chosen_scores, leads)
    )
    return score_rows, lead_rows


def memory_norms(difference: Difference) -> list[list[float]]:
    """Return maximum, mean and standard deviation of the norms of the decoder's memory tokens, per pair."""
    norms = difference.memory.float().norm(dim=-1).flatten(1)
    numbers = torch.stack([norms.amax(1), norms.mean(1), norms.std(1, correction=0)], 1)
    return [row.tolist() for row in numbers]
