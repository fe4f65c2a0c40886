"""Compare our time for scoring 8,000 captions (6 references each) with pycocoevalcap's time.

For the comparison, the library's scorers are called one after the other, in the order of its class
COCOEvalCap, but without SPICE.
"""

import os
from dataclasses import replace
from itertools import pairwise

import numpy as np
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from pipeline.scoring import java
from pipeline.scoring.corpus import score
from pipeline.tabletop import changes, grammar, scene_sampling, scenes
from pipeline.tabletop.scenes import Scene, Thing, View

IMAGES = 8000
TIMEOUT = 600.0  # seconds for a run of Java
OF_A_PAIR = ("BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D")  # metrics that are also computed for each pair
Values = tuple[dict[str, float], dict[str, list[float]]]  # metric -> value of the corpus, values of each pair


def captions_of(images: int = IMAGES) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return id -> caption and id -> 6 references, in the grammar of `tabletop`.

    There are `images` ids. Half of them have captions of changes, and half have captions of no change. Half
    of the captions of changes are true. The other half describe the change of the next scene.
    """
    captions, references = {}, {}
    drawn = [_scene(number) for number in range(images // 2 + 1)]
    for number, (scene, after) in enumerate(pairwise(drawn)):
        rng = np.random.default_rng([1, number])
        told = after if number % 2 else scene
        references[f"{number}"] = grammar.change_captions(scene, rng)
        captions[f"{number}"] = grammar.change_captions(told, rng)[0]
        references[f"{number}_n"] = grammar.no_change_captions(rng)
        captions[f"{number}_n"] = grammar.no_change_captions(rng)[0]
    return captions, references


def _scene(number: int) -> Scene:
    """Return a random scene of 3 to 10 objects, only for making captions.

    It has no boxes and no margins between objects.
    """
    rng = scene_sampling.generator(1, number)
    looks = rng.permutation(len(scenes.COLORS) * 12)[: rng.integers(3, 11)]
    before = tuple(_thing(place, int(look), rng) for place, look in enumerate(looks))
    thing, kind = before[0], changes.CHANGE_TYPES[number % 5]
    others = before[1:]
    after = {
        "color": (replace(thing, color="red"), *others),
        "material": (replace(thing, material="metal"), *others),
        "add": before,
        "drop": others,
        "move": (replace(thing, x=-thing.x), *others),
    }[kind]
    view = View(scenes.CAMERA, scenes.LIGHTS)
    return Scene(number, kind, 0, others if kind == "add" else before, after, view, view, view)


def _thing(number: int, look: int, rng: np.random.Generator) -> Thing:
    """Return an object at a random place of the table. `look` encodes its four attributes as digits."""
    look, color = divmod(look, len(scenes.COLORS))
    look, material = divmod(look, len(scenes.MATERIALS))
    size, shape = divmod(look, len(scenes.SHAPES))
    x, y = rng.uniform(-changes.ARENA, changes.ARENA, 2)
    return Thing(
        number,
        tuple(scenes.RADII)[size],
        tuple(scenes.COLORS)[color],
        scenes.MATERIALS[material],
        scenes.SHAPES[shape],
        float(x),
        float(y),
        0.0,
    )


def one_after_another(captions: dict[str, str], references: dict[str, list[str]]) -> Values:
    """Return the scores that the library's scorers compute, run with our `java`."""
    path = [str(java.find().parent), *os.environ["PATH"].split(os.pathsep)]
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys(path))
    tokenizer = PTBTokenizer()
    texts = {key: [{"caption": text} for text in own] for key, own in references.items()}
    references = tokenizer.tokenize(texts)
    found = tokenizer.tokenize({key: [{"caption": text}] for key, text in captions.items()})
    bleu, bleu_each = Bleu(4).compute_score(references, found, verbose=0)
    scorers = {"METEOR": Meteor(), "ROUGE-L": Rouge(), "CIDEr-D": Cider()}
    scored = {name: scorer.compute_score(references, found) for name, scorer in scorers.items()}
    corpus = {f"BLEU-{n}": value for n, value in enumerate(bleu, 1)}
    corpus |= {name: value for name, (value, _) in scored.items()}
    return corpus, {"BLEU-4": bleu_each[3]} | {name: list(each) for name, (_, each) in scored.items()}


def ours(captions: dict[str, str], references: dict[str, list[str]]) -> Values:
    """Return our scores in the same form as `one_after_another`."""
    scores = score(captions, references, {}, TIMEOUT)
    beyond = {"CIDEr-D/corpus-df", "SPICE"}
    corpus = {name: value for name, value in scores.subsets["total"].items() if name not in beyond}
    return corpus, {name: [own[name] for own in scores.pairs.values()] for name in OF_A_PAIR}


def check(captions: dict[str, str], references: dict[str, list[str]]) -> None:
    """Check that `ours` and `one_after_another` give exactly the same numbers."""
    assert ours(captions, references) == one_after_another(captions, references)
