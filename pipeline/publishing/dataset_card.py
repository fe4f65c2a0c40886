"""The card of a published dataset: front matter for hubs, and the text of dataset_card.j2."""

from pathlib import Path

import jinja2

from pipeline.io import front_matter
from pipeline.publishing import conversations, metadata, shards
from pipeline.publishing.dataset import FOLDERS, Published

TEMPLATE = Path(__file__).with_name("dataset_card.j2")
TAGS = ["change-captioning", "image-difference", "croissant"]
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def text(dataset: Published, with_shards: bool) -> str:
    """Render the card as Markdown."""
    count = len(dataset.pairs)
    values = front_matter.licence(dataset.licence.name) | {
        "pretty_name": dataset.card.name,
        "language": ["en"],
        "task_categories": ["image-to-text"],
        "tags": TAGS,
        "size_categories": [next((name for most, name in SIZES if count < most), "n>1M")],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": split, "path": f"{split}/**"} for split in dataset.splits],
            }
        ],
    }
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    body = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        dataset=dataset,
        counts=dataset.manifest.counts,
        folders=FOLDERS,
        metadata=metadata.NAME,
        conversations=conversations.FOLDER,
        shards=shards.FOLDER if with_shards else None,
    )
    return front_matter.text(values) + "\n" + body
