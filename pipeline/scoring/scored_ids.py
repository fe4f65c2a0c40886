"""Find the pair or image that each id in a file of captions means.

An id is compared as it is written. If a file lacks it, an id that differs only in leading zeros, in the
ending of an image file or in ".0" is used, or the pair that has an image of this name, if only one fits.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pipeline.datasets.checking import IMAGES
from pipeline.datasets.schema import Pair, images_of
from pipeline.io.errors import InputError, listed
from pipeline.text.caption_text import normalised

WITHOUT_CAPTION, WITHOUT_REFERENCE = "without a caption", "without a reference"
_ENDING = re.compile("(?:" + "|".join(map(re.escape, sorted(IMAGES))) + ")$", re.IGNORECASE)
_WHOLE = re.compile(r"(\d+)\.0+")  # a whole number that a program wrote as a fraction
_ZEROS = re.compile(r"(?<![\d.])0+(?=\d)")


@dataclass(frozen=True)
class KnownIds:
    """The ids that a file of captions may name: the ids of pairs, or of images with references."""

    source: str | Path  # file of the pairs or references, for messages
    ids: Collection[str]
    images: Mapping[str, Collection[str]] = field(default_factory=dict)  # name of an image -> its ids
    left_out: Collection[str] = ()  # ids and images that `prepare` left out, because they have no reference
    other_splits: Collection[str] = ()  # ids of pairs of the same file that are not scored


@dataclass(frozen=True)
class Matched:
    """The meaning of the ids of a file of captions."""

    ids: dict[str, str]  # id in the file -> known id
    left_out: list[str]  # ids in the file that `prepare` left out
    other_splits: list[str]  # ids in the file of pairs of other splits
    unknown: list[str]  # ids in the file that are not known
    known: KnownIds

    def check(self, path: str | Path) -> None:
        """Raise InputError that names the unknown ids, of the file `path`, if there are any."""
        if self.unknown:
            problems = [f"{key[:80]!r} is no pair of this split" for key in self.unknown]
            remedy = (
                "use the ids of the pairs, check --split, or remove them (stages.score: --referenced-only)"
            )
            raise listed(problems, f"{path} has unknown ids", remedy)

    def spellings(self, path: str | Path) -> list[str]:
        """Return a line about the ids of the file `path` that differ in spelling from the known ids."""
        different = [(key, meaning) for key, meaning in self.ids.items() if key != meaning]
        if not different:
            return []
        key, meaning = different[0]
        return [
            f"{len(different):,} of {len(self.ids):,} ids of {path} are matched with {self.known.source} by "
            f"names of images, or without leading zeros and endings: {key[:80]!r} is {meaning[:80]!r}"
        ]

    def notes(self, path: str | Path) -> list[str]:
        """Return lines about ids of the file `path` that differ in spelling, or that are left out."""
        reasons = {
            "`prepare` found no reference of these pairs": self.left_out,
            "pairs of other splits": self.other_splits,
            "unknown ids": self.unknown,
        }
        return self.spellings(path) + [
            f"{len(keys):,} captions of {path} are left out: {reason} ({', '.join(keys[:3])[:80]})"
            for reason, keys in reasons.items()
            if keys
        ]


def of_pairs(
    pairs: Sequence[Pair],
    source: str | Path,
    left_out: Mapping[str, Sequence[str]] | None = None,
    other_splits: Collection[str] = (),
) -> KnownIds:
    """Return the ids of pairs. The name of an image, with or without its folders, also names its pairs.

    left_out: id -> images of the pairs that `prepare` left out
    other_splits: ids of the pairs of other splits, whose captions are left out
    """
    images: dict[str, list[str]] = {}
    for pair in pairs:
        for name in dict.fromkeys(key for path in images_of([pair]) for key in (path, _file(path))):
            images.setdefault(name, []).append(pair.pair_id)
    without = {name for key, paths in (left_out or {}).items() for name in (key, *paths, *map(_file, paths))}
    return KnownIds(source, [pair.pair_id for pair in pairs], images, without, other_splits)


def match(written: Iterable[str], known: KnownIds, path: str | Path) -> Matched:
    """Return the meaning of the ids `written` in the file `path`.

    Raises InputError if no id is known, if an id fits several known ids, or if two ids mean the same.
    """
    written, exact = list(dict.fromkeys(written)), {*known.ids}
    if exact.issuperset(written):
        return Matched({key: key for key in written}, [], [], [], known)
    forms, images = _by_form(known.ids), _by_form(known.images)
    left_out_forms = {_form(key) for key in known.left_out}
    ids, left_out, other_splits, unknown = dict[str, str](), list[str](), list[str](), list[str]()
    for key in written:
        form = _form(key)
        names = [key] if key in known.images else images.get(form, ())
        candidates = forms.get(form) or [*dict.fromkeys(one for name in names for one in known.images[name])]
        if key in exact:
            ids[key] = key
        elif key in known.left_out:
            left_out.append(key)
        elif key in known.other_splits:
            other_splits.append(key)
        elif len(candidates) > 1:
            means = " and ".join(map(repr, candidates[:3]))
            raise InputError(
                f"{path}: the id {key[:80]!r} fits {means} of {known.source}; use one of these ids"
            )
        elif candidates:
            ids[key] = candidates[0]
        else:
            (left_out if form in left_out_forms else unknown).append(key)
    if unknown and not ids and not left_out:
        both = f"{unknown[0][:80]!r}, {next(iter(known.ids), '')[:80]!r}"
        raise InputError(f"no id of {path} is in {known.source}: {both}; use the ids of this file")
    _check_distinct(ids, path)
    return Matched(ids, left_out, other_splits, unknown, known)


def _check_distinct(ids: Mapping[str, str], path: str | Path) -> None:
    first_of: dict[str, str] = {}
    for key, meaning in ids.items():
        if (first := first_of.setdefault(meaning, key)) != key:
            raise InputError(
                f"{path}: {first[:80]!r} and {key[:80]!r} both mean {meaning!r}; keep one of them"
            )


def _file(path: str) -> str:
    return PurePosixPath(path).name


def _by_form(keys: Iterable[str]) -> dict[str, list[str]]:
    forms: dict[str, list[str]] = {}
    for key in keys:
        forms.setdefault(_form(key), []).append(key)
    return forms


def _form(key: str) -> str:
    """Return an id without leading zeros, without the ending of an image file, and without ".0"."""
    text = _ENDING.sub("", normalised(key.strip()))
    return _ZEROS.sub("", _WHOLE.sub(r"\1", text) if _WHOLE.fullmatch(text) else text)
