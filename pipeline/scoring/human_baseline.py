"""The human baseline: one annotator's caption of each pair, scored against the other annotators' captions.

The best constant caption is scored against the same references, so that the two can be compared.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pipeline.datasets.schema import Pair
from pipeline.scoring.constant_baseline import BEST, CONSTANT, LEAD, MARGIN
from pipeline.scoring.corpus import Corpus, Scores
from pipeline.scoring.metric_names import TOTAL
from pipeline.scoring.reference_files import has_word

SEED = 0


def annotators(pairs: Sequence[Pair]) -> dict[str, list[tuple[str, ...]]]:
    """Return id -> sentences of each annotator, for the pairs that several annotators describe.

    If there are pairs of the same two images, each of them has the sentences of one annotator (protocol
    per_entry of Spot-the-Diff), and other pairs have one annotator. Otherwise each reference counts as an
    annotator's.
    """
    by_images: dict[tuple[str, str, str], list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_images[pair.scene_id, pair.before, pair.after].append(pair)
    are_entries = any(len(same) > 1 for same in by_images.values())
    found = {}
    for same in by_images.values():
        each = [pair.captions for pair in same] if are_entries else [(text,) for text in same[0].captions]
        sentences = [tuple(text for text in texts if has_word([text])) for texts in each]
        if len(sentences := [texts for texts in sentences if texts]) > 1:
            found[same[0].pair_id] = sentences
    return found


def one_against_others(pairs: Sequence[Pair]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return id -> a sentence of one annotator, and id -> the sentences of the other annotators.

    The annotator and the sentence are drawn with a fixed seed. Pairs with one annotator are left out.
    """
    captions, references = {}, {}
    for key, sentences in annotators(pairs).items():
        draw = random.Random(f"{SEED} {key}")
        chosen = draw.randrange(len(sentences))
        captions[key] = draw.choice(sentences[chosen])
        others = [texts for number, texts in enumerate(sentences) if number != chosen]
        references[key] = [text for texts in others for text in texts]
    return captions, references


def corpora(pairs: Sequence[Pair]) -> list[Corpus]:
    """Return the corpus of `one_against_others`; [] if no pair has several annotators."""
    captions, references = one_against_others(pairs)
    return [Corpus(captions, references, {})] if captions else []


def entry(scored: Scores) -> dict[str, Any]:
    """Return the entry `human` of metrics.json: the scores of one annotator, and of the best constant."""
    constant = {key: value for key, value in scored.constants[BEST].items() if key not in (LEAD, MARGIN)}
    own = {name: value for name, value in scored.subsets[TOTAL].items() if name != "CIDEr-D/corpus-df"}
    return {"pairs": len(scored.pairs), **own, CONSTANT: constant}
