"""A prepared dataset that may be published: pairs, images with their hashes, card and licence."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pipeline.config import params
from pipeline.config.dataset_params import Prepare
from pipeline.datasets import cards, checking, manifest, readers
from pipeline.datasets.cards import Card, Licence
from pipeline.datasets.images import Indexed, read_index
from pipeline.datasets.manifest import Manifest
from pipeline.datasets.schema import SPLITS, Pair, of_split
from pipeline.io.errors import InputError
from pipeline.tabletop import dataset_card

FOLDERS = {"train": "train", "val": "validation", "test": "test"}
"""Split -> its name in other tools, which is also the name of its folder."""
RENDERED = Licence(name="mit", copying=True, terms="rendered by this program; the terms of its LICENSE apply")
EXAMPLE = "licence: {name: cc-by-4.0, copying: true, terms: 'our own images and captions'}"


@dataclass(frozen=True)
class PublishedDataset:
    """A prepared dataset whose licence allows copies."""

    name: str
    root: Path  # folder of the images
    pairs: Sequence[Pair]
    images: dict[str, Indexed]  # name relative to `root` -> image
    manifest: Manifest
    card: Card
    licence: Licence
    seed: int | None  # seed of a rendered dataset; None for other datasets
    prepare_again: str  # advice at the end of a message about changed files
    languages: tuple[str, ...] = ()  # codes of the captions' languages; () if the card does not state them

    @cached_property
    def splits(self) -> dict[str, list[Pair]]:
        """Pairs by the split's name in other tools, such as "validation", without empty splits."""
        splits = {FOLDERS[split]: of_split(self.pairs, split) for split in SPLITS}
        return {name: pairs for name, pairs in splits.items() if pairs}


def load(name: str) -> PublishedDataset:
    """Load a prepared dataset of the current folder whose licence allows copies, and which is up to date."""
    all_settings = params.load()
    settings = all_settings.of(name).prepare
    rendered = name in all_settings.tabletop.viewpoint
    path = cards.path_of(name)
    if not path.exists() and not rendered:
        raise InputError(f"{path} is missing, and a dataset without a card has no licence; write a card")
    card = cards.load(path)
    licence = _permitting(path, card, rendered)
    root, pairs, index = Path(settings.root), Path(f"data/pairs/{name}.jsonl"), f"data/images/{name}.jsonl"
    record = manifest.path_of(pairs)
    add = "" if name in all_settings.datasets else f"add {name} to `datasets` of params.yaml, and "
    prepare = f"{add}run `dvc repro prepare@{name}`"
    if record is None:
        raise InputError(f"{name} is not prepared; {prepare}")
    prepare_again = f"{prepare} (if that changes nothing, with --force --single-item)"
    prepared = manifest.read(record)
    manifest.check_files(record, prepared, pairs, index)
    _check_annotations(prepared, settings, prepare_again)
    seed = None
    if rendered:
        rendering = all_settings.tabletop.of(name)
        facts, seed = dataset_card.facts(root, rendering), rendering.seed
        if list(card.notes[: len(facts)]) != facts:
            raise InputError(
                f"params.yaml: tabletop differs from the settings that {root} was rendered with; {prepare}"
            )
    images = {image.name: image for image in read_index(index)}
    read = manifest.read_pairs(pairs)
    languages = ("en",) if rendered else _languages(card)
    return PublishedDataset(name, root, read, images, prepared, card, licence, seed, prepare_again, languages)


def _languages(card: Card) -> tuple[str, ...]:
    return (card.language,) if isinstance(card.language, str) else tuple(card.language or ())


def _check_annotations(prepared: Manifest, settings: Prepare, prepare_again: str) -> None:
    """Raise InputError if an annotation file changed since the dataset was prepared."""
    root = Path(settings.root)
    files = checking.hashes(root, readers.annotation_files(settings.reader, root))
    if changes := checking.differences("annotation files", prepared.files, files):
        raise InputError(f"{root}: since it was prepared, {changes[0]}; {prepare_again}")


def _permitting(path: Path, card: Card, rendered: bool) -> Licence:
    licence = RENDERED if rendered else card.licence
    if licence is None:
        raise InputError(
            f"{path} names no licence, and nobody may copy images without one; if they are yours to give, "
            f"add a line such as {EXAMPLE}"
        )
    if not licence.copying:
        raise InputError(
            f"{card.name} is not published: its licence ({licence.name}) allows no copies: {licence.terms}; "
            f"with a permission, name it as `licence` in {path}"
        )
    return licence
