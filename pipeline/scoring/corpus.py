"""Score a corpus of captions, its subsets, and each pair; `score` is the entry point."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain, islice
from typing import Any

import numpy as np

from pipeline.io.errors import InputError, listed
from pipeline.scoring import conditions, java, meteor, metrics, repetition, spice, tokenizer
from pipeline.scoring.constant_baseline import BEST, BEST_CHANGED, best_of_references, lead
from pipeline.scoring.mean_metrics import MEANS
from pipeline.scoring.meteor import from_statistics
from pipeline.scoring.metric_names import TOTAL

Values = dict[str, float | None]


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
    _check_ids(captions, references)
    subsets = {TOTAL: list(references), **subsets}
    scorers = {
        "pycocoevalcap": version("pycocoevalcap"),
        "tokenizer": tokenizer.OF_SCORES[tokeniser][0],
        "METEOR": meteor.VERSION,
        "Java": java.version(meteor_timeout),
        "CIDEr-D document frequencies": "subset",
    }
    hashes = conditions.of_pairs(references)
    captions, references = _tokenized(captions, references, meteor_timeout, tokeniser)
    constants = _constants(references, subsets)
    with ThreadPoolExecutor(1) as thread:  # Java computes METEOR meanwhile
        computed = thread.submit(_python_scores, captions, references, subsets, constants)
        # in the main thread, so that Java is killed if the stage is stopped
        statistics, of_constants = _meteor(captions, references, constants, meteor_timeout)
        scored, pairs, constant_scores = computed.result()
    spices, scorers["SPICE"] = _spice(captions, references, meteor_timeout)
    for name, members in subsets.items():
        scored[name]["METEOR"] = float(from_statistics(np.sum([statistics[key] for key in members], 0)))
        scored[name]["SPICE"] = None if spices is None else _mean(np.array([spices[key] for key in members]))
    meteors = from_statistics(np.array([*statistics.values()])).tolist()
    for (key, counts), meteor_score in zip(statistics.items(), meteors, strict=True):
        pairs[key] |= {"METEOR": meteor_score, "SPICE": spices[key] if spices else None, "meteor": counts}
    warnings = [
        f"{name}: CIDEr-D is 0 by definition over fewer than 2 distinct sets of references"
        for name, members in subsets.items()
        if len({tuple(sorted(set(references[key]))) for key in members}) < 2
    ]
    if spices is None:
        warnings.append(f"SPICE: {scorers['SPICE']}")
    wording = {
        "exact_match": sum(text in references[key] for key, text in captions.items()) / len(captions),
        "distinct_captions": len(set(captions.values())),
        "mean_length": sum(len(text.split()) for text in captions.values()) / len(captions),
    }
    for name, values in constant_scores.items():
        values["METEOR"] = float(from_statistics(np.sum(of_constants[name], 0)))
    repeated = repetition.described(captions, subsets)
    return Scores(scored, pairs, wording, scorers, warnings, repeated, constant_scores, hashes)


@dataclass(frozen=True)
class _Constant:
    """The best constant caption of the references of the pairs `members`; tokenised."""

    caption: str
    members: list[str]

    @property
    def captions(self) -> dict[str, str]:
        return dict.fromkeys(self.members, self.caption)


def _constants(references: dict[str, list[str]], subsets: dict[str, list[str]]) -> dict[str, _Constant]:
    """Return key of metrics.json -> best constant caption, of all pairs and of the changed pairs.

    Changed pairs have one of their own only if there are unchanged pairs, too.
    """
    members = {BEST: [*references]}
    if {"change", "no_change"} <= subsets.keys():
        members[BEST_CHANGED] = subsets["change"]
    return {
        name: _Constant(best_of_references({key: references[key] for key in keys}), keys)
        for name, keys in members.items()
    }


def _meteor(
    captions: dict[str, str],
    references: dict[str, list[str]],
    constants: dict[str, _Constant],
    timeout: float,
) -> tuple[dict[str, list[float]], dict[str, list[list[float]]]]:
    """Return METEOR's statistics of each caption, and of each constant caption, in one run of Java."""
    texts = {("", key): text for key, text in captions.items()}
    texts |= {(name, key): one.caption for name, one in constants.items() for key in one.members}
    statistics = meteor.statistics(texts, {key: references[key[1]] for key in texts}, timeout)
    of_constants = {name: [statistics[name, key] for key in one.members] for name, one in constants.items()}
    return {key: statistics["", key] for key in captions}, of_constants


def _check_ids(captions: dict[str, str], references: dict[str, list[str]]) -> None:
    if not references:
        raise InputError("there is nothing to score: the set of references is empty")
    problems = [f"{key}: is predicted but has no references" for key in captions if key not in references]
    remedy = "add references, or leave these predictions out with --referenced-only"
    if missing := [f"{key}: has no prediction" for key in references if key not in captions]:
        problems = missing + problems
        remedy = "predict each id, or score only the predicted ids with --predicted-only"
    if problems:
        raise listed(problems, "predictions and references differ", remedy)


def _tokenized(
    captions: dict[str, str], references: dict[str, list[str]], timeout: float, tokeniser: str
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Tokenise captions and references, in the references' order; leave out references without a word."""
    sentences = [*chain.from_iterable(references.values()), *(captions[key] for key in references)]
    tokens = iter(tokenizer.OF_SCORES[tokeniser][1](sentences, timeout))
    words = {key: [text for text in islice(tokens, len(texts)) if text] for key, texts in references.items()}
    if empty := [key for key, texts in words.items() if not texts]:
        raise listed(
            empty,
            "no reference holds a word",
            "give each a reference, or leave them out with --referenced-only",
        )
    return dict(zip(references, tokens, strict=True)), words


def _python_scores(
    captions: dict[str, str],
    references: dict[str, list[str]],
    subsets: dict[str, list[str]],
    constants: dict[str, _Constant],
) -> tuple[dict[str, Values], dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return BLEU, ROUGE-L and CIDEr-D of each subset, of each pair, and of each constant caption.

    METEOR and SPICE are not computed here. Subsets and pairs have the key METEOR with the value None, and
    pairs also have the key SPICE with the value None. These keys only fix the order in which metrics are
    written.
    """
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


def _spice(
    captions: dict[str, str], references: dict[str, list[str]], timeout: float
) -> tuple[dict[str, float] | None, str]:
    """Return (id -> SPICE, SPICE's version), or (None, reason) if SPICE cannot be computed."""
    if reason := spice.unavailable(timeout):
        return None, f"unavailable ({reason})"
    try:
        return spice.scores(captions, references, timeout), spice.VERSION
    except InputError as error:
        return None, f"failed ({error})"


def _mean(values: np.ndarray) -> float:
    return float(values.mean())  # numpy's mean, as in the library: sum() adds in another order
