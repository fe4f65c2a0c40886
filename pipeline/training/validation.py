"""Scores of captions, of retrieval and of pretraining tasks on the validation split."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, Protocol, TypeVar

import torch

from models.common.captioner import Captioner
from models.common.trainable import Retrieves, Trainable
from pipeline.datasets.schema import Pair
from pipeline.decoding.greedy import captions
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.judging.strict import judge
from pipeline.scoring.metrics import cider_d, cider_is_zero, rouge_l
from pipeline.scoring.retrieval import ranks, retrievable, similarities
from pipeline.text.vocabularies import Vocabulary
from pipeline.training.sampling import Batch, assembled
from pipeline.training.task_sampling import CLASS_PAIRS, ClassItems, captions_of, check_negatives

Text = TypeVar("Text", str, list[str])
BATCH = 256  # number of pairs that are decoded at once
TASK_BATCH = 50  # number of pairs in a batch of a pretraining task; in fda a pair has seven captions


CIDER, CHANGES, ROUGE = "CIDEr-D", "CIDEr-D/change", "ROUGE-L"
DISTINCT = "distinct"  # number of different captions
TRUE, TRUE_CHANGED, TRUE_BOTH = "true", "true/changed", "true/both"
COLUMNS = {"truth": TRUE_BOTH, "last": CIDER}  # value of train.select -> name of the score, where they differ


class Validator(Protocol):
    """Function that computes the validation scores of a model.

    If the score that chooses the snapshot is the same for every model, `constant` says why; else None.
    """

    constant: str | None

    def __call__(self, model: Any) -> float | dict[str, float]: ...


class Validation:
    """Function that computes the validation scores of a captioner.

    The scores include CIDEr-D over all pairs, as a fraction, the number of distinct captions, and the score
    that `select` names. If the scenes of all pairs are known, three shares of true captions are added: over
    all pairs (`true`), over changed pairs (`true/changed`), and the geometric mean of the shares over changed
    and over unchanged pairs (`true/both`; Kubat and Matwin, ICML 1997). `select: truth` chooses snapshots by
    this mean, which is 0 for a model that captions every pair as unchanged.

    Raises InputError if `select` needs scenes or changed pairs, but there are none.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        store: FeatureStore,
        vocabulary: Vocabulary,
        tokenize: Callable[[list[str]], list[str]],
        select: str = CIDER,
    ):
        self.select = select
        self.pairs, self.store, self.vocabulary, self.tokenize = pairs, store, vocabulary, tokenize
        self.changes = [pair.pair_id for pair in pairs if pair.changed]
        self.has_scenes = all(pair.scene is not None for pair in pairs)
        missing = {
            "truth": not self.has_scenes and "scenes",
            CHANGES: not self.changes and "a pair with a change",
        }
        if need := missing.get(select):
            raise InputError(
                f"train.select: {select} needs {need}, but the validation pairs have none; set it to {CIDER}"
            )
        sentences = iter(self.tokenize([caption for pair in pairs for caption in pair.captions]))
        self.references = {pair.pair_id: [next(sentences) for _ in pair.captions] for pair in pairs}
        selecting = {CIDER: self.references, CHANGES: self._changed(self.references)}.get(select)
        self.constant: str | None = None
        if selecting is not None and cider_is_zero(selecting):
            self.constant = f"{select} is 0 by definition over fewer than 2 distinct sets of references"

    def _changed(self, texts: Mapping[str, Text]) -> dict[str, Text]:
        return {key: texts[key] for key in self.changes}

    def __call__(self, model: Captioner) -> dict[str, float]:
        decoded = captions(model, self.pairs, self.store, self.vocabulary, BATCH)
        tokenised = dict(zip(decoded, self.tokenize(list(decoded.values())), strict=True))
        scores = {CIDER: cider_d(tokenised, self.references), DISTINCT: float(len(set(decoded.values())))}
        if self.select == CHANGES:
            scores[CHANGES] = cider_d(self._changed(tokenised), self._changed(self.references))
        if self.select == ROUGE:
            scores[ROUGE] = float(rouge_l(tokenised, self.references).mean())
        return scores | (self._true_shares(decoded) if self.has_scenes else {})

    def _true_shares(self, decoded: Mapping[str, str]) -> dict[str, float]:
        verdicts = {pair.pair_id: judge(decoded[pair.pair_id], pair) for pair in self.pairs}
        is_true = {key: float(verdict is not None and verdict.true) for key, verdict in verdicts.items()}
        changed = [is_true.pop(key) for key in self.changes]
        unchanged = [*is_true.values()]
        scores = {TRUE: fmean([*changed, *unchanged])}
        if changed:
            scores[TRUE_CHANGED] = fmean(changed)
        shares = [fmean(group) for group in (changed, unchanged) if group]
        return scores | {TRUE_BOTH: math.prod(shares) ** (1 / len(shares))}


class RetrievalValidation:
    """Function that computes R@1 of a retrieval model: the share of captions whose pair is ranked first."""

    def __init__(self, pairs: Sequence[Pair], store: FeatureStore, vocabulary: Vocabulary):
        self.pairs, self.store, self.vocabulary = retrievable(pairs), store, vocabulary
        self.constant = "R@1 is 1 by definition with a single pair" if len(self.pairs) == 1 else None

    def __call__(self, model: Retrieves) -> float:
        similarity = similarities(model, self.pairs, self.store, self.vocabulary, BATCH).numpy()
        return float((ranks(similarity, [pair.captions for pair in self.pairs]).text_to_pair <= 1).mean())


class TaskValidation:
    """Function that computes the mean losses and measures of a model in the pre-training tasks `tasks`.

    `negatives` maps pair ids to wrong captions, for the task "fda". `classes` has the image pairs of
    the task "class_pairs"; None without this task.
    """

    constant: str | None = None

    def __init__(
        self,
        pairs: Sequence[Pair],
        store: FeatureStore,
        vocabulary: Vocabulary,
        tasks: Sequence[str],
        negatives: Mapping[str, Sequence[str]],
        classes: ClassItems | None = None,
    ):
        self.pairs, self.store, self.vocabulary = pairs, store, vocabulary
        self.tasks, self.negatives, self.classes = tasks, negatives, classes
        if "fda" in tasks:
            check_negatives(pairs, negatives)

    @torch.no_grad()
    def __call__(self, model: Trainable) -> dict[str, float]:
        training = model.training
        model.eval()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            rows = [measured(model, batch) for task in self.tasks for batch in self._batches(task)]
        model.train(training)
        names = dict.fromkeys((*model.measures, *model.terms))
        values = {name: [row[name] for row in rows if name in row] for name in names}
        # a loss is defined in every batch of its task, so a NaN of a loss is shown
        return {name: mean(values[name], skip_nan=name not in model.terms) for name in names}

    def _batches(self, task: str) -> Iterator[Batch]:
        if task == CLASS_PAIRS:
            yield from self._class_batches()
            return
        for start in range(0, len(self.pairs), TASK_BATCH):
            pairs = self.pairs[start : start + TASK_BATCH]
            texts = [[captions_of(pair, task, self.negatives)] for pair in pairs]
            yield assembled([(pair,) for pair in pairs], texts, self.store, self.vocabulary, {}, task)

    def _class_batches(self) -> Iterator[Batch]:
        """Yield every k-th pair of NABirds, at most as many pairs as the other tasks have."""
        assert self.classes is not None
        pairs = self.classes.pairs[:: -(-len(self.classes.pairs) // len(self.pairs))]
        for start in range(0, len(pairs), TASK_BATCH):
            yield self.classes.batch(pairs[start : start + TASK_BATCH])


def measured(model: Trainable, batch: Batch) -> dict[str, float]:
    """Return the losses and measures of a batch, as floats by name."""
    device = next(model.parameters()).device
    encoded = model.encoding(batch.images.to(device).float())
    tokens, labels = batch.tokens.to(device), batch.labels(device)
    values = model.losses_of(encoded[batch.before], encoded[batch.after], tokens, labels=labels)
    return {name: float(value) for name, value in values.items()}


def mean(values: list[float], skip_nan: bool) -> float:
    """Return the mean of the values, or NaN if there are none. With `skip_nan`, it leaves out NaN."""
    defined = [value for value in values if not (skip_nan and math.isnan(value))]
    return sum(defined) / len(defined) if defined else math.nan
