"""Compare our time for scoring 8,000 captions (6 references each) with pycocoevalcap's time.

The library's scorers are called one after the other, in the order of its class COCOEvalCap, without SPICE.
"""

import os
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from benchmarks.measures import Row, compare
from pipeline.config import params
from pipeline.scoring import java
from pipeline.scoring.corpus import score
from pipeline.tabletop import grammar, scene_sampling

IMAGES = 8000
TIMEOUT = 600.0  # seconds for a run of Java
OF_A_PAIR = ("BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D")  # metrics that are also computed for each pair
ROOT = Path(__file__).resolve().parent.parent
Values = tuple[dict[str, float], dict[str, list[float]]]  # metric -> value of the corpus, values of each pair


def rows() -> Iterator[Row]:
    """Yield the table's row, after a check that both sides give exactly the same numbers."""
    corpus = captions_of(IMAGES)
    assert ours(*corpus) == one_after_another(*corpus)
    our_call, reference_call = partial(ours, *corpus), partial(one_after_another, *corpus)
    yield compare(
        f"score {IMAGES:,} captions", our_call, reference_call, "pycocoevalcap, one after another", 3
    )


def captions_of(images: int) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return id -> caption and id -> 6 references, in the grammar of `tabletop`.

    There are `images` ids. Half of them have captions of changes, and half have captions of no change. Half
    of the captions of changes are true. The other half describe the change of the next scene.
    """
    captions, references = {}, {}
    settings = params.load(ROOT / "params.yaml").tabletop.of("tabletop")
    scenes = [
        scene_sampling.sample(settings, number, scene_sampling.generator(1, number))
        for number in range(images // 2 + 1)
    ]
    for number, (scene, after) in enumerate(pairwise(scenes)):
        rng = np.random.default_rng([1, number])
        described_scene = after if number % 2 else scene
        references[f"{number}"] = grammar.change_captions(scene, rng)
        captions[f"{number}"] = grammar.change_captions(described_scene, rng)[0]
        references[f"{number}_n"] = grammar.no_change_captions(rng)
        captions[f"{number}_n"] = grammar.no_change_captions(rng)[0]
    return captions, references


def one_after_another(captions: dict[str, str], references: dict[str, list[str]]) -> Values:
    """Return the scores that the library's scorers compute, run with our `java`."""
    path = [str(java.find().parent), *os.environ["PATH"].split(os.pathsep)]
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys(path))
    tokenizer = PTBTokenizer()
    texts = {
        key: [{"caption": text} for text in key_references] for key, key_references in references.items()
    }
    references = tokenizer.tokenize(texts)
    tokenized = tokenizer.tokenize({key: [{"caption": text}] for key, text in captions.items()})
    bleu, bleu_of_pairs = Bleu(4).compute_score(references, tokenized, verbose=0)
    scorers = {"METEOR": Meteor(), "ROUGE-L": Rouge(), "CIDEr-D": Cider()}
    scored = {name: scorer.compute_score(references, tokenized) for name, scorer in scorers.items()}
    corpus = {f"BLEU-{n}": value for n, value in enumerate(bleu, 1)}
    corpus |= {name: value for name, (value, _) in scored.items()}
    return corpus, {"BLEU-4": bleu_of_pairs[3]} | {
        name: list(pair_values) for name, (_, pair_values) in scored.items()
    }


def ours(captions: dict[str, str], references: dict[str, list[str]]) -> Values:
    """Return our scores in the same form as `one_after_another`."""
    scores = score(captions, references, {}, TIMEOUT)
    only_ours = {"CIDEr-D/corpus-df", "SPICE"}
    corpus = {name: value for name, value in scores.subsets["total"].items() if name not in only_ours}
    return corpus, {name: [pair_scores[name] for pair_scores in scores.pairs.values()] for name in OF_A_PAIR}
