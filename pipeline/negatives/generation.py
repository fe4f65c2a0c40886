"""Generate six negatives for each pair of a split (fine-grained negatives of IDC-PCL).

There are three kinds of negatives, and two negatives of each kind:

- retrieve: similar captions of other pairs
- replace: captions of the pair with replaced words
- confuse: captions of the pair with two parts exchanged, such as subject and landmark

If a kind gives too few negatives, more negatives of the kind "replace" are added, and then of the kind
"retrieve".
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice
from typing import Literal, get_args

import numpy as np

from pipeline.datasets.negatives import NEGATIVES, Kind, Negative, PairNegatives
from pipeline.datasets.schema import Pair, of_split
from pipeline.io.errors import InputError
from pipeline.negatives import birds, geometric
from pipeline.negatives.birds import Birds
from pipeline.negatives.geometric import Geometric, plain

SPLITS = ("train", "val")
TRIES = 20  # candidates per negative
EACH = 2  # negatives per kind
Grammar = Literal["geometric", "birds"]
Source = geometric.GeometricSource | birds.BirdSource
"""Source of candidates for the negatives of one pair.

It has a method for each kind. The argument is the number of the negative within its kind, from 0. The method
yields captions, or None for a failed try. `certain` is True if every wrong caption can be recognised as
wrong.
"""
GRAMMARS: dict[Grammar, type[Geometric] | type[Birds]] = {"geometric": Geometric, "birds": Birds}


def generate(grammar: Grammar, pairs: Sequence[Pair], seed: int) -> Iterator[PairNegatives]:
    """Yield the negatives of each training and validation pair, made from captions of the pair's split.

    Raises InputError naming a pair for which fewer than NEGATIVES negatives were found.
    """
    training = [caption for pair in of_split(pairs, "train") for caption in pair.captions]
    for split in SPLITS:
        split_pairs = of_split(pairs, split)
        captions = GRAMMARS[grammar](split_pairs, training, np.random.default_rng([seed]))
        for number, pair in enumerate(split_pairs):
            yield _of_pair(captions, pair, np.random.default_rng([seed, number]))


def _of_pair(captions: Geometric | Birds, pair: Pair, rng: np.random.Generator) -> PairNegatives:
    references = [pair.captions[index] for index in rng.permutation(len(pair.captions))]
    source = captions.source(pair, references, rng)
    draft = _Draft(source, {plain(caption) for caption in references})
    for kind in get_args(Kind):
        for number in range(EACH):
            draft.take(kind, getattr(source, kind)(number))
    numbers = count(EACH)
    while draft.lacking and draft.take("replace", source.replace(next(numbers))):
        pass
    # at last, captions of other pairs are used without a limit of tries
    for strict in (True,) if source.certain else (True, False):
        texts = chain.from_iterable(source.retrieve(number) for number in range(EACH, EACH + len(references)))
        while draft.lacking and draft.take("retrieve", texts, None, strict):
            pass
    if draft.lacking:
        raise InputError(
            f"only {len(draft.found)} of {NEGATIVES} negatives were found for the pair "
            f"{pair.pair_id}; give the split {pair.split} more pairs, or pre-train without FDA"
        )
    return PairNegatives(pair.pair_id, pair.split, pair.captions, tuple(draft.found))


@dataclass
class _Draft:
    """The negatives of one pair that have been found so far."""

    source: Source
    known: set[str]  # references and accepted negatives
    found: list[Negative] = field(default_factory=list)

    @property
    def lacking(self) -> bool:
        return len(self.found) < NEGATIVES

    def take(
        self, kind: Kind, candidates: Iterable[str | None], tries: int | None = TRIES, strict: bool = True
    ) -> bool:
        """Accept the first new candidate among the first `tries`. Return False if there is none.

        A candidate None is a failed try. If `tries` is None, all candidates are tried. If `strict` is
        true, the candidate must also be wrong for the pair (Source.wrong). `kind` is stored with it.
        """
        for caption in islice(candidates, tries):
            if caption is None or (text := plain(caption)) in self.known:
                continue
            if not strict or self.source.wrong(caption):
                self.known.add(text)
                self.found.append(Negative(kind, caption))
                return True
        return False
