"""Score edited captions with every metric: metric -> score of each caption.

Each metric that is a Java program runs once, for all captions. Outside metrics are read from files.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from pipeline.datasets.schema import Pair
from pipeline.free_english.judging import FREE
from pipeline.io.errors import InputError
from pipeline.judging.strict import STRICT
from pipeline.judging.verdicts import Verdict
from pipeline.scoring import accuracy, meteor, metrics, spice, tokenizer
from pipeline.scoring.caption_files import read_scores
from pipeline.scoring.mean_metrics import MEANS
from pipeline.scoring.meteor import from_statistics
from pipeline.scoring.metric_names import BLEU_4, CIDER, METEOR, SPICE
from pipeline.sensitivity.edited_captions import EditedCaptions

EXACT, CHANGE = "exact match", "change accuracy"
STRICT_AGREES, FREE_AGREES = "agrees, grammar", "agrees, free English"
STRICT_TRUE, FREE_TRUE = "truth, grammar", "truth, free English"
Scores = dict[str, np.ndarray]
"""Metric -> scores of all captions, in the order of EditedCaptions.scored, (captions,)."""


def scores(captions: EditedCaptions, timeout: float, with_spice: bool) -> tuple[Scores, str | None]:
    """Return the scores of all installed metrics, and the reason why SPICE is missing, or None.

    A run of Java may take `timeout` seconds. Document frequencies are those of all scored captions'
    references. BLEU is that of a single caption. Truth needs scenes, and change accuracy needs to know which
    pairs have a change.
    """
    texts = {key: scored.caption for key, scored in captions.scored.items()}
    sentences = dict.fromkeys(chain(texts.values(), *(each.references for each in captions.scored.values())))
    tokens = dict(zip(sentences, tokenizer.tokenize([*sentences], timeout), strict=True))
    tokenized = {key: tokens[text] for key, text in texts.items()}
    references = {
        key: [tokens[text] for text in each.references if tokens[text]]
        for key, each in captions.scored.items()
    }
    if empty := next((key for key, own in references.items() if not own), None):
        raise InputError(f"{empty.rpartition('/')[0]}: no reference holds a word; give the pair a reference")
    with ThreadPoolExecutor(1) as thread:  # Java computes METEOR meanwhile
        by_words = thread.submit(_of_words, tokenized, references)
        statistics = meteor.statistics(tokenized, references, timeout)
        found = by_words.result()
    found[METEOR] = from_statistics(np.array([*statistics.values()]))
    reason = spice.unavailable(timeout) if with_spice else "left out"
    if reason is None:
        found[SPICE] = np.array([*spice.scores(tokenized, references, timeout).values()])
    order = ("BLEU-1", BLEU_4, METEOR, "ROUGE-L", CIDER, SPICE, EXACT)
    return {name: found[name] for name in order if name in found} | _of_meaning(captions), reason


def of_file(captions: EditedCaptions, path: Path, key: str | None) -> np.ndarray:
    """Return the scores of an outside metric, which the file `path` has for each caption, by id."""
    pairs = [Pair(name, name, "test", "", "", ()) for name in captions.scored]
    return np.array([*read_scores(path, pairs, key).values()])


def _of_words(captions: dict[str, str], references: dict[str, list[str]]) -> Scores:
    grams = metrics.counted(captions, references)
    counts = metrics.bleu_counts(captions, references, grams)
    bleu = np.array([metrics.bleu(row) for row in counts])
    exact = np.array([float(text in references[key]) for key, text in captions.items()])
    means = {name: of_captions(captions, references) for name, of_captions in MEANS.items()}
    cider = metrics.CiderD(captions, references, grams).scores(range(len(references)))
    return {"BLEU-1": bleu[:, 0], BLEU_4: bleu[:, 3], EXACT: exact, CIDER: cider, **means}


def _of_meaning(captions: EditedCaptions) -> Scores:
    """Return change accuracy, truth by the scene, and agreement with the references, where they are known."""
    scored = [*captions.scored.values()]
    found: Scores = {}
    if all(each.pair.changed is not None for each in scored):
        right = [accuracy.right(each.caption, each.pair.changed) for each in scored]
        found[CHANGE] = np.array(right, float)
    judges: dict[str, Callable[[str, Pair], Verdict | None]] = {
        STRICT_AGREES: STRICT[1],
        FREE_AGREES: FREE[1],
        STRICT_TRUE: STRICT[0],
        FREE_TRUE: FREE[0],
    }
    for name, judge in judges.items():
        verdicts: list[Verdict | None] = []
        for each in scored:
            verdicts.append(judge(each.caption, replace(each.pair, captions=each.references)))
            if verdicts[-1] is None:
                break
        else:
            found[name] = np.array([float(verdict.true) for verdict in verdicts if verdict])
    return found
