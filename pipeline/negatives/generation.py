"""Six negatives of every pair of a split, the same for all its captions (IDC-PCL, fine-grained negatives).

Two of each kind: *retrieve*, captions alike of other pairs; *replace*, words exchanged for others;
*confuse*, the parts of the sentence exchanged. What a kind cannot give, replace gives, then retrieve.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice
from typing import Literal

import numpy as np

from pipeline.datasets.negatives import NEGATIVES, Kind, Negative, Negatives
from pipeline.datasets.schema import Pair, of_split
from pipeline.io.errors import InputError
from pipeline.negatives import birds, geometric
from pipeline.negatives.birds import Birds
from pipeline.negatives.geometric import Geometric
from pipeline.text import vocabularies

SPLITS = ("train", "val")
TRIES = 20  # candidates of one negative that are looked at
EACH = 2  # negatives of a kind
Grammar = Literal["geometric", "birds"]
Source = geometric.Source | birds.Source
"""Where the negatives of one pair come from: how many-th of its kind is wanted -> captions to try in
turn, None where nothing could be made this time. `certain`: some are always known to be wrong."""
GRAMMARS: dict[Grammar, type[Geometric] | type[Birds]] = {"geometric": Geometric, "birds": Birds}


def generate(grammar: Grammar, pairs: Sequence[Pair], seed: int) -> Iterator[Negatives]:
    """Of every pair of train and val, in order; each split from its own captions.

    Raises InputError naming a pair that too few captions contradict.
    """
    training = [caption for pair in of_split(pairs, "train") for caption in pair.captions]
    for split in SPLITS:
        own = of_split(pairs, split)
        captions = GRAMMARS[grammar](own, training, np.random.default_rng([seed]))
        for number, pair in enumerate(own):
            yield of_pair(captions, pair, np.random.default_rng([seed, number]))


def of_pair(captions: Geometric | Birds, pair: Pair, rng: np.random.Generator) -> Negatives:
    """The negatives of one pair, all drawn by `rng`."""
    references = [pair.captions[place] for place in rng.permutation(len(pair.captions))]
    source = captions.source(pair, references, rng)
    draft = _Draft(source, {_key(caption) for caption in references})
    for number in range(EACH):
        draft.take("retrieve", source.retrieve(number))
    for number in range(EACH):
        draft.take("replace", source.replace(number))
    for number in range(EACH):
        draft.take("confuse", source.confuse(number))
    more = count(EACH)
    while draft.lacking and draft.take("replace", source.replace(next(more))):
        pass
    # the last resort looks as far as there are captions
    for sure in (True,) if source.certain else (True, False):
        rest = chain.from_iterable(source.retrieve(number) for number in range(EACH, EACH + len(references)))
        while draft.lacking and draft.take("retrieve", rest, None, sure):
            pass
    if draft.lacking:
        raise InputError(
            f"only {len(draft.found)} of {NEGATIVES} negatives are known to be wrong of the pair "
            f"{pair.pair_id}; give the split {pair.split} more pairs, or pre-train without FDA"
        )
    return Negatives(pair.pair_id, pair.split, pair.captions, tuple(draft.found))


@dataclass
class _Draft:
    """What is found of one pair's negatives."""

    source: Source
    known: set[str]  # the references, and what was taken
    found: list[Negative] = field(default_factory=list)

    @property
    def lacking(self) -> bool:
        return len(self.found) < NEGATIVES

    def take(
        self, kind: Kind, candidates: Iterable[str | None], tries: int | None = TRIES, sure: bool = True
    ) -> bool:
        """The first of `tries` candidates that is new and (`sure`) wrong. Whether there was one."""
        for caption in islice(candidates, tries):
            new = caption is not None and _key(caption) not in self.known
            if caption is not None and new and (not sure or self.source.wrong(caption)):
                self.known.add(_key(caption))
                self.found.append(Negative(kind, caption))
                return True
        return False


def _key(caption: str) -> str:
    """A caption as it is compared."""
    return " ".join(vocabularies.tokenise(caption, lower_case=True))
