"""Read what is scored: captions with the references of the same ids, or captions of prepared pairs.

Lines about ids that differ in spelling, and about what is left out, are printed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError, printable
from pipeline.scoring import scored_ids
from pipeline.scoring.answer_text import answer_of
from pipeline.scoring.caption_files import read_answers, read_predictions, read_results
from pipeline.scoring.reference_files import has_word, read_references
from pipeline.scoring.scored_ids import KnownIds
from pipeline.text import caption_text


@dataclass(frozen=True)
class ScoredTexts:
    """Captions and references of the ids that are scored. `pairs` is empty if there are no prepared pairs."""

    captions: dict[str, str]
    references: dict[str, list[str]]
    pairs: list[Pair] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)  # reason -> number of pairs or ids

    def warnings(self) -> list[str]:
        """Return warnings about captions, and references in a file of their own, that a program wrote."""
        lines = caption_text.warnings(self.captions.items())
        if self.pairs:  # `prepare` has warned of their references
            return lines
        sentences = ((key, text) for key, texts in self.references.items() for text in texts)
        return lines + caption_text.warnings(sentences, "references")


def of_pairs(
    captions: Path,
    pairs: Sequence[Pair],
    source: Path,
    left_out: Mapping[str, Sequence[str]],
    other_splits: Collection[str],
    key: str | None,
    free: bool,
    referenced_only: bool,
) -> ScoredTexts:
    """Read the captions of prepared pairs from the file `captions`.

    source: the file of the pairs, for messages
    left_out: id -> images of the pairs of the split that `prepare` left out; their captions are left out
    other_splits: ids of the pairs of other splits; their captions are left out
    key: name of the key of the captions; None: the file has only one
    free: True for answers of a language model in free English; thoughts and wrappers are removed
    referenced_only: True to leave out captions of unknown ids, and pairs without a word in their references
    """
    scored = [pair for pair in pairs if has_word(pair.captions)] if referenced_only else [*pairs]
    if not scored:
        raise InputError(f"{source}: no pair of the split has a reference with a word; name another file")
    known = scored_ids.of_pairs(scored, source, left_out, other_splits)
    read = read_answers if free else read_predictions
    texts = read(captions, scored, key, known, referenced_only)
    if free:
        texts = {pair_id: answer_of(text) for pair_id, text in texts.items()}
    references = {pair.pair_id: [*pair.captions] for pair in scored}
    without = len(left_out) + len(pairs) - len(scored)
    return ScoredTexts(texts, references, scored, {scored_ids.WITHOUT_REFERENCE: without})


def of_references(
    captions: Path, references: Path, key: str | None, predicted_only: bool, referenced_only: bool
) -> ScoredTexts:
    """Read captions and references from two files. Their ids may differ in leading zeros and file endings.

    key: name of the key of the captions; None: the file has only one
    predicted_only: True to leave out ids without a caption
    referenced_only: True to leave out ids whose references hold no word, and captions without references
    """
    texts, sentences = read_results(captions, key=key), read_references(references)
    matched = scored_ids.match(texts, KnownIds(references, sentences), captions)
    for line in matched.spellings(captions):
        print(printable(line))
    texts = {matched.ids.get(name, name): text for name, text in texts.items()}
    left_out = {}
    if referenced_only:
        kept = {name: lines for name, lines in sentences.items() if has_word(lines)}
        surplus = [name for name in texts if name not in sentences]
        print(
            f"left out: {len(sentences) - len(kept):,} ids whose references hold no word, and "
            f"{len(surplus):,} captions without references"
        )
        left_out[scored_ids.WITHOUT_REFERENCE] = len(sentences) - len(kept) + len(surplus)
        sentences, texts = kept, {name: text for name, text in texts.items() if name in kept}
    if predicted_only:
        predicted = {name: lines for name, lines in sentences.items() if name in texts}
        rest = len(sentences) - len(predicted)
        print(f"{len(predicted):,} ids are predicted and scored; {rest:,} of the references are not")
        left_out[scored_ids.WITHOUT_CAPTION], sentences = rest, predicted
    return ScoredTexts(texts, sentences, [], left_out)
