"""Score a corpus of captions, its subsets, and each pair; `score` is the entry point."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from pipeline.io.errors import InputError, listed
from pipeline.scoring import conditions, java, meteor, metrics, repetition, spice, tokenizer
from pipeline.scoring.constant_baseline import BEST, BEST_CHANGED, best_of_references, lead
from pipeline.scoring.mean_metrics import MEANS
from pipeline.scoring.meteor import from_statistics
from pipeline.scoring.metric_names import TOTAL

Values = dict[str, float | None]
PythonScores = tuple[dict[str, Values], dict[str, dict[str, Any]], dict[str, dict[str, Any]]]
Counts = dict[str, list[float]]  # id -> METEOR's counts


@dataclass(frozen=True)
class Scores:
    """Scores of a corpus, its subsets and its pairs, as fractions: CIDEr-D 1.268 is the papers' 126.8.

    The metric CIDEr-D of a subset uses the document frequencies of this subset. The metric
    CIDEr-D/corpus-df of a subset, and CIDEr-D of a pair, use the document frequencies of all pairs. The
    entries `bleu` and `meteor` of a pair are counts; the corpus's scores are computed from their sums over
    the pairs. SPICE is None if it is unavailable; then `scorers` has the reason.
    """

    subsets: dict[str, Values]  # "total" or name of a subset -> metric -> score
    pairs: dict[str, dict[str, Any]]  # id -> metric -> score
    wording: dict[str, float]  # exact_match (share), distinct_captions, mean_length (tokens)
    scorers: dict[str, str]  # the programs and conventions that computed the scores
    warnings: list[str]
    repetition: dict[str, Any]  # see repetition.described
    constants: dict[str, Any]  # the best constant captions of the references: key of metrics.json -> scores
    references: dict[str, str]  # id -> hash of the references (conditions.of_pairs)


class Corpus(NamedTuple):
    """Captions (id -> sentence), references (id -> sentences) and subsets (name -> ids, at least one)."""

    captions: dict[str, str]
    references: dict[str, list[str]]
    subsets: dict[str, list[str]]


def score(
    captions: dict[str, str],
    references: dict[str, list[str]],
    subsets: dict[str, list[str]],
    meteor_timeout: float,
    tokeniser: str = "ptb",
) -> Scores:
    """Score `captions` (id -> sentence) against `references` (id -> sentences), both untokenised.

    `subsets` (name -> ids, at least one) are scored as separate corpora, in addition to "total". Each run of
    Java may take `meteor_timeout` seconds. `tokeniser` is a key of tokenizer.OF_SCORES. Raises InputError if
    the ids differ, if an id has no reference with a word in it, or if Java fails.
    """
    return score_each([Corpus(captions, references, subsets)], meteor_timeout, tokeniser)[0]


def score_each(corpora: Sequence[Corpus], meteor_timeout: float, tokeniser: str = "ptb") -> list[Scores]:
    """Score each corpus as `score` does, but start METEOR only once: its start takes seconds."""
    for corpus in corpora:
        _check_ids(corpus)
    scorers = {
        "pycocoevalcap": version("pycocoevalcap"),
        "tokenizer": tokenizer.OF_SCORES[tokeniser][0],
        "METEOR": meteor.VERSION,
        "Java": java.version(meteor_timeout),
        "CIDEr-D document frequencies": "subset",
    }
    hashes = [conditions.of_pairs(corpus.references) for corpus in corpora]
    corpora = [_tokenized(corpus, meteor_timeout, tokeniser) for corpus in corpora]
    constants = [_constants(corpus) for corpus in corpora]
    with ThreadPoolExecutor(1) as thread:  # Java computes METEOR meanwhile
        computed = thread.map(_python_scores, corpora, constants)
        # in the main thread, so that Java is killed if the stage is stopped
        meteors = _meteor(corpora, constants, meteor_timeout)
        python_scores = [*computed]
    spices = [_spice(corpus, meteor_timeout) for corpus in corpora]
    parts = zip(corpora, python_scores, meteors, spices, hashes, strict=True)
    return [_scores(*of_corpus, scorers) for of_corpus in parts]


def _scores(
    corpus: Corpus,
    python_scores: PythonScores,
    meteors: tuple[Counts, dict[str, list[list[float]]]],
    spices_and_version: tuple[dict[str, float] | None, str],
    hashes: dict[str, str],
    scorers: dict[str, str],
) -> Scores:
    """Return the scores of one tokenised corpus, from the results of its metrics."""
    captions, references, subsets = corpus
    scored, pairs, constant_scores = python_scores
    statistics, of_constants = meteors
    spices, spice_version = spices_and_version
    for name, members in subsets.items():
        scored[name]["METEOR"] = float(from_statistics(np.sum([statistics[key] for key in members], 0)))
        scored[name]["SPICE"] = None if spices is None else _mean(np.array([spices[key] for key in members]))
    meteor_scores = from_statistics(np.array([*statistics.values()])).tolist()
    for (key, counts), of_pair in zip(statistics.items(), meteor_scores, strict=True):
        pairs[key] |= {"METEOR": of_pair, "SPICE": spices[key] if spices else None, "meteor": counts}
    warnings = [
        f"{name}: CIDEr-D is 0 by definition over fewer than 2 distinct sets of references"
        for name, members in subsets.items()
        if len({tuple(sorted(set(references[key]))) for key in members}) < 2
    ]
    if spices is None:
        warnings.append(f"SPICE: {spice_version}")
    wording = {
        "exact_match": sum(text in references[key] for key, text in captions.items()) / len(captions),
        "distinct_captions": len(set(captions.values())),
        "mean_length": sum(len(text.split()) for text in captions.values()) / len(captions),
    }
    for name, values in constant_scores.items():
        values["METEOR"] = float(from_statistics(np.sum(of_constants[name], 0)))
    repeated = repetition.described(captions, subsets)
    scorers = {**scorers, "SPICE": spice_version}
    return Scores(scored, pairs, wording, scorers, warnings, repeated, constant_scores, hashes)


@dataclass(frozen=True)
class _Constant:
    """The best constant caption of the references of the pairs `members`; tokenised."""

    caption: str
    members: list[str]

    @property
    def captions(self) -> dict[str, str]:
        return dict.fromkeys(self.members, self.caption)


def _constants(corpus: Corpus) -> dict[str, _Constant]:
    """Return key of metrics.json -> best constant caption, of all pairs and of the changed pairs.

    Changed pairs have one of their own only if there are unchanged pairs, too.
    """
    members = {BEST: [*corpus.references]}
    if {"change", "no_change"} <= corpus.subsets.keys():
        members[BEST_CHANGED] = corpus.subsets["change"]
    return {
        name: _Constant(best_of_references({key: corpus.references[key] for key in keys}), keys)
        for name, keys in members.items()
    }


def _meteor(
    corpora: Sequence[Corpus], constants: Sequence[dict[str, _Constant]], timeout: float
) -> list[tuple[Counts, dict[str, list[list[float]]]]]:
    """Return METEOR's counts of each corpus: of each caption, and of each constant caption. Run Java once."""
    texts: dict[tuple[int, str, str], str] = {}  # (corpus, "" or the constant's name, id) -> caption
    for number, (corpus, own) in enumerate(zip(corpora, constants, strict=True)):
        texts |= {(number, "", key): text for key, text in corpus.captions.items()}
        texts |= {(number, name, key): one.caption for name, one in own.items() for key in one.members}
    references = {place: corpora[place[0]].references[place[2]] for place in texts}
    counts = meteor.statistics(texts, references, timeout)
    return [
        (
            {key: counts[number, "", key] for key in corpus.captions},
            {name: [counts[number, name, key] for key in one.members] for name, one in own.items()},
        )
        for number, (corpus, own) in enumerate(zip(corpora, constants, strict=True))
    ]


def _check_ids(corpus: Corpus) -> None:
    captions, references, _ = corpus
    if not references:
        raise InputError("there is nothing to score: the set of references is empty")
    problems = [f"{key}: is predicted but has no references" for key in captions if key not in references]
    remedy = "add references, or leave these predictions out with --referenced-only"
    if missing := [f"{key}: has no prediction" for key in references if key not in captions]:
        problems = missing + problems
        remedy = "predict each id, or score only the predicted ids with --predicted-only"
    if problems:
        raise listed(problems, "predictions and references differ", remedy)


def _tokenized(corpus: Corpus, timeout: float, tokeniser: str) -> Corpus:
    """Tokenise a corpus, in the references' order. Leave out references without a word; add subset total."""
    captions, references, subsets = corpus
    sentences = [*chain.from_iterable(references.values()), *(captions[key] for key in references)]
    tokens = iter(tokenizer.OF_SCORES[tokeniser][1](sentences, timeout))
    words = {key: [text for text in islice(tokens, len(texts)) if text] for key, texts in references.items()}
    if empty := [key for key, texts in words.items() if not texts]:
        raise listed(
            empty,
            "no reference holds a word",
            "give each a reference, or leave them out with --referenced-only",
        )
    return Corpus(dict(zip(references, tokens, strict=True)), words, {TOTAL: [*references], **subsets})


def _python_scores(corpus: Corpus, constants: dict[str, _Constant]) -> PythonScores:
    """Return BLEU, ROUGE-L and CIDEr-D of each subset, of each pair, and of each constant caption.

    METEOR and SPICE are not computed here. Subsets and pairs have the key METEOR with the value None, and
    pairs also have the key SPICE with the value None. These keys only fix the order in which metrics are
    written.
    """
    captions, references, subsets = corpus
    grams = metrics.counted(captions, references)
    counts = metrics.bleu_counts(captions, references, grams)
    means = {name: of_pairs(captions, references) for name, of_pairs in MEANS.items()}
    cider = metrics.CiderD(captions, references, grams)
    of_total = cider.scores(range(len(references)))
    rows = {key: row for row, key in enumerate(references)}
    scored: dict[str, Values] = {}
    ciders: dict[str, np.ndarray] = {}
    for name, members in subsets.items():
        subset = [rows[key] for key in members]
        of_subset = ciders[name] = of_total if name == TOTAL else cider.scores(subset)
        scored[name] = {f"BLEU-{n}": value for n, value in enumerate(metrics.bleu(counts[subset].sum(0)), 1)}
        scored[name] |= {"METEOR": None}
        scored[name] |= {metric: _mean(values[subset]) for metric, values in means.items()}
        scored[name] |= {"CIDEr-D": _mean(of_subset), "CIDEr-D/corpus-df": _mean(of_total[subset])}
    pairs: dict[str, dict[str, Any]] = {
        key: {
            "BLEU-4": metrics.bleu(counts[row])[3],
            "METEOR": None,
            **{name: float(values[row]) for name, values in means.items()},
            "CIDEr-D": float(of_total[row]),
            "SPICE": None,
            "bleu": _bleu_counts(counts[row].tolist()),
        }
        for key, row in rows.items()
    }
    constant_scores: dict[str, dict[str, Any]] = {}
    for name, constant in constants.items():
        cider.set_captions(dict.fromkeys(references, constant.caption))
        own_references = {key: references[key] for key in constant.members}
        sums = metrics.bleu_counts(constant.captions, own_references, grams).sum(0)
        of_constant = cider.scores([rows[key] for key in constant.members])
        constant_scores[name] = {
            "caption": constant.caption,
            **{f"BLEU-{n}": value for n, value in enumerate(metrics.bleu(sums), 1)},
            **{
                metric: _mean(of_pairs(constant.captions, own_references))
                for metric, of_pairs in MEANS.items()
            },
            "CIDEr-D": _mean(of_constant),
            **lead(ciders[TOTAL if name == BEST else "change"], of_constant),
        }
    return scored, pairs, constant_scores


def _bleu_counts(counts: list[int]) -> dict[str, Any]:
    *gram_counts, words, closest = counts
    matches, guesses = gram_counts[: metrics.LONGEST], gram_counts[metrics.LONGEST :]
    return {"matches": matches, "guesses": guesses, "length": words, "reference_length": closest}


def _spice(corpus: Corpus, timeout: float) -> tuple[dict[str, float] | None, str]:
    """Return (id -> SPICE, SPICE's version), or (None, reason) if SPICE cannot be computed."""
    if reason := spice.unavailable(timeout):
        return None, f"unavailable ({reason})"
    try:
        return spice.scores(corpus.captions, corpus.references, timeout), spice.VERSION
    except InputError as error:
        return None, f"failed ({error})"


def _mean(values: np.ndarray) -> float:
    return float(values.mean())  # numpy's mean, as in the library: sum() adds in another order
