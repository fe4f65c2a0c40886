"""The one entry point: the scores of a corpus of captions, of its subsets, and of each pair."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain, islice

from pipeline.errors import InputError, listed
from pipeline.scoring import java, meteor, metrics, tokenizer

TOTAL = "total"


@dataclass(frozen=True)
class Scores:
    """Every score is a fraction: CIDEr-D 1.268 is what the papers print as 126.8."""

    subsets: dict[str, dict[str, float]]  # name -> BLEU-1 … BLEU-4, METEOR, ROUGE-L, CIDEr-D of the corpus
    pairs: dict[str, dict[str, float]]  # id -> BLEU-4, METEOR, ROUGE-L, CIDEr-D (frequencies of the total)
    scorers: dict[str, str]  # what computed them, and by which conventions
    warnings: list[str]


def score(
    captions: dict[str, str],
    references: dict[str, list[str]],
    subsets: dict[str, list[str]],
    meteor_timeout: float,
) -> Scores:
    """Score `captions` (id -> sentence, as written) against `references` (id -> sentences, as written).

    `subsets` (name -> ids, at least one) are scored as corpora of their own, beside "total". No run of
    Java takes more than `meteor_timeout` seconds. Raises InputError where the ids differ or are none,
    where an id has no reference with a word in it, and where Java is missing, dies or stalls.
    """
    _check_ids(captions, references)
    subsets = {TOTAL: list(references), **subsets}
    scorers = _scorers(java.version(meteor_timeout))
    # METEOR loads for seconds: it starts first and works while Python computes the others.
    # Leaving the block ends the JVM before the thread that waits for it.
    with ThreadPoolExecutor(1) as pool, meteor.start(meteor_timeout) as jvm:
        captions, references = _tokenized(captions, references, meteor_timeout)
        later = pool.submit(meteor.scores, jvm, captions, references, subsets)
        scored, pairs = _python_scores(captions, references, subsets)
        meteor_subsets, meteor_pairs = later.result()
    return Scores(
        {name: _in_order(values | {"METEOR": meteor_subsets[name]}) for name, values in scored.items()},
        {name: _in_order(values | {"METEOR": meteor_pairs[name]}) for name, values in pairs.items()},
        scorers,
        _warnings(references, subsets),
    )


def _check_ids(captions: dict[str, str], references: dict[str, list[str]]) -> None:
    if not references:
        raise InputError("there is nothing to score: the set of references is empty")
    problems = [f"{key}: has no prediction" for key in references if key not in captions]
    problems += [f"{key}: is predicted but has no references" for key in captions if key not in references]
    if problems:
        raise listed(problems, "predictions and references differ", "predict every id exactly once")


def _scorers(java_version: str) -> dict[str, str]:
    return {
        "pycocoevalcap": version("pycocoevalcap"),
        "tokenizer": tokenizer.NAME,
        "METEOR": meteor.VERSION,
        "Java": java_version,
        "CIDEr-D document frequencies": "subset",
    }


def _tokenized(
    captions: dict[str, str], references: dict[str, list[str]], timeout: float
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Tokens of both, in the references' order; references without a word are left out."""
    # the references first, so that their lines stand alike whatever model is scored
    sentences = [*chain.from_iterable(references.values()), *(captions[key] for key in references)]
    tokens = iter(tokenizer.tokenize(sentences, timeout))
    words = {key: [text for text in islice(tokens, len(texts)) if text] for key, texts in references.items()}
    if empty := [key for key, texts in words.items() if not texts]:
        raise listed(empty, "no reference holds a word", "give each a reference, or leave it out")
    return dict(zip(references, tokens, strict=True)), words


def _python_scores(
    captions: dict[str, str], references: dict[str, list[str]], subsets: dict[str, list[str]]
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    rouge = dict(zip(references, metrics.rouge_l(captions, references), strict=True))
    scored, pairs = {}, {}
    for name, members in subsets.items():
        own = {key: references[key] for key in members}
        bleu, bleu_4 = metrics.bleu(captions, own)
        cider = metrics.cider_d_each(captions, own)
        scored[name] = {f"BLEU-{n}": value for n, value in enumerate(bleu, 1)}
        scored[name] |= {"ROUGE-L": _mean([rouge[key] for key in members]), "CIDEr-D": _mean(cider)}
        if name == TOTAL:
            each = zip(members, bleu_4, cider, strict=True)
            pairs = {key: {"BLEU-4": b, "ROUGE-L": rouge[key], "CIDEr-D": c} for key, b, c in each}
    return scored, pairs


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _in_order(values: dict[str, float]) -> dict[str, float]:
    order = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D")
    return {name: values[name] for name in order if name in values}


def _warnings(references: dict[str, list[str]], subsets: dict[str, list[str]]) -> list[str]:
    return [
        f"{name}: CIDEr-D is 0 by definition over fewer than 2 distinct sets of references"
        for name, members in subsets.items()
        if len({tuple(sorted(set(references[key]))) for key in members}) < 2
    ]
