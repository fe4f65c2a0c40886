"""Licences of datasets to publish: the licence in a dataset's card, or RENDERED for rendered datasets."""

from pathlib import Path

from pipeline.datasets.cards import Card, Licence
from pipeline.io.errors import InputError

RENDERED = Licence(name="mit", copying=True, terms="rendered by this program; the terms of its LICENSE apply")
EXAMPLE = "licence: {name: cc-by-4.0, copying: true, terms: 'our own images and captions'}"


def permitting(path: Path, card: Card, rendered: bool) -> Licence:
    """Return the licence of the dataset whose card is at `path`.

    Raises InputError if copies may not be published. The message gives the reason.
    """
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
