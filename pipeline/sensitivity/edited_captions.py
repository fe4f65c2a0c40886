"""Make the captions to score: for each pair and each edit, a right caption and the edited caption.

Both captions are scored against the same references. Equal captions of a pair with equal references are
scored once.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from pipeline.datasets.schema import CHANGE_TYPES, NO_CHANGE, Pair
from pipeline.io.errors import InputError
from pipeline.judging.strict import judge
from pipeline.sensitivity import text_edits
from pipeline.sensitivity.grammar_edits import EDITS, NOTHING_SAID, Edit, EditSource, Said

SEED = 1
Against = Literal["others", "itself"]
AGAINST: tuple[Against, ...] = get_args(Against)


@dataclass(frozen=True)
class ScoredCaption:
    """A caption to score, its references, and its pair."""

    caption: str
    references: tuple[str, ...]
    pair: Pair


@dataclass(frozen=True)
class Case:
    """An edit of a caption: ids of the right caption and of the edited caption."""

    edit: str
    is_wrong: bool
    kinds: tuple[str, str]  # kinds of change that the two captions state; ("", "") for other edits
    scene_id: str
    right: str
    edited: str


@dataclass
class EditedCaptions:
    """All captions to score, id -> caption, and the edits."""

    scored: dict[str, ScoredCaption] = field(default_factory=dict)
    cases: list[Case] = field(default_factory=list)
    scenes: int = 0
    _ids: dict[tuple[str, str, tuple[str, ...]], str] = field(default_factory=dict)

    def add(self, pair: Pair, caption: str, references: tuple[str, ...]) -> str:
        """Add a caption, if it is new. Return its id."""
        key = pair.pair_id, caption, references
        if key not in self._ids:
            self._ids[key] = f"{pair.pair_id}/{len(self.scored)}"
            self.scored[self._ids[key]] = ScoredCaption(caption, references, pair)
        return self._ids[key]


def of_pairs(pairs: Sequence[Pair], scenes: int, against: Against) -> EditedCaptions:
    """Edit captions of at most `scenes` scenes, by the grammar of coloured solids or word by word.

    `against` says which references the captions are scored against: the pair's others, or the right caption
    itself.
    """
    names = [*dict.fromkeys(pair.scene_id for pair in pairs)]
    drawn = {*random.Random(SEED).sample(names, min(scenes, len(names)))}
    pairs = [pair for pair in pairs if pair.scene_id in drawn]
    if any(pair.change_type in CHANGE_TYPES for pair in pairs):
        captions = _of_grammar(pairs, against)
    else:
        captions = _of_texts(pairs, against)
    captions.scenes = len({case.scene_id for case in captions.cases})
    if not captions.cases:
        needs = "several references, or --against itself" if against == "others" else "captions with words"
        raise InputError(f"no caption of these pairs can be edited; name pairs with {needs}")
    return captions


def _of_grammar(pairs: Sequence[Pair], against: Against) -> EditedCaptions:
    captions = EditedCaptions()
    by_kind: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_kind[str(pair.change_type)].append(pair)
    for pair in pairs:
        draw = random.Random(f"{SEED} {pair.pair_id}")
        others = by_kind[str(pair.change_type)]
        elsewhere = [text for _ in range(5) for text in draw.choice(others).captions[:1]]
        for edit in EDITS:
            is_of_pair = edit.of_changed == (pair.change_type != NO_CHANGE)
            if is_of_pair and (pair.scene or not edit.needs_scene):
                _add_first(captions, pair, edit, _possible(pair, edit, elsewhere, draw, against))
    return captions


def _possible(
    pair: Pair, edit: Edit, elsewhere: Sequence[str], draw: random.Random, against: Against
) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Yield the caption, the kind of change that it states, the edited caption, and their references."""
    for number, caption in enumerate(pair.captions):
        others = tuple(text for text in pair.captions if text != caption)
        said = Said.of(caption) if edit.of_changed else NOTHING_SAID
        if said is None or said.kind != pair.change_type:
            continue
        rotated = [*pair.captions[number + 1 :], *pair.captions[:number]]
        source = EditSource(pair, caption, rotated, elsewhere, draw)
        for text in edit.make(source, said):
            rest = tuple(other for other in others if other != text)
            if references := (rest if against == "others" else (caption,)):
                yield caption, said.kind, text, references


def _add_first(
    captions: EditedCaptions,
    pair: Pair,
    edit: Edit,
    possible: Iterable[tuple[str, str, str, tuple[str, ...]]],
) -> None:
    """Add the first possible caption that is wrong, or right, in the way that the edit intends."""
    for caption, kind, text, references in possible:
        if edit.faults is None or _has_faults(text, pair, edit.faults):
            kinds = (kind, edit.to_kind) if edit.to_kind else ("", "")
            right, edited = (captions.add(pair, each, references) for each in (caption, text))
            captions.cases.append(Case(edit.name, edit.is_wrong, kinds, pair.scene_id, right, edited))
            return


def _has_faults(text: str, pair: Pair, faults: frozenset[str]) -> bool:
    """Return True if the caption is false by the scene and has these faults only. True without a scene."""
    verdict = judge(text, pair)
    return verdict is None or (not verdict.true and {*verdict.faults} <= faults)


def _of_texts(pairs: Sequence[Pair], against: Against) -> EditedCaptions:
    captions = EditedCaptions()
    for pair in pairs:
        elsewhere = random.Random(f"{SEED} {pair.pair_id}").choice(pairs).captions[0]
        for edit in text_edits.EDITS:
            for caption in pair.captions:
                text = edit.make(caption, pair.captions, elsewhere)
                rest = tuple(other for other in pair.captions if other not in (caption, text))
                references = rest if against == "others" else (caption,)
                if text is not None and references:
                    right, edited = (captions.add(pair, each, references) for each in (caption, text))
                    case = Case(edit.name, edit.is_wrong, ("", ""), pair.scene_id, right, edited)
                    captions.cases.append(case)
                    break
    return captions


def lines(captions: EditedCaptions) -> Iterator[Mapping[str, object]]:
    """Yield a JSON line for each caption, for programs that score captions."""
    for key, scored in captions.scored.items():
        yield {"id": key, "caption": scored.caption, "references": scored.references}
