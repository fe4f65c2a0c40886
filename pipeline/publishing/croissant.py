"""croissant.json: a description of the dataset for search engines, in the format Croissant 1.0.

docs.mlcommons.org/croissant describes the format. The file lists each metadata.parquet and each shard with
its hash, and the images as file sets. For each split, it lists the columns whose type Croissant can express.
"""

import mimetypes
from pathlib import Path
from typing import Any

from pipeline.io.content_hashes import sha256
from pipeline.io.inputs import read_json
from pipeline.publishing import rows
from pipeline.publishing.dataset import PublishedDataset

NAME = "croissant.json"
CONTEXT = Path(__file__).with_name("croissant_context.json")
PARQUET, TAR = "application/x-parquet", "application/x-tar"
# column -> type, and whether it is a list
COLUMNS = {
    "before_file_name": ("sc:Text", False),
    "after_file_name": ("sc:Text", False),
    "pair_id": ("sc:Text", False),
    "scene_id": ("sc:Text", False),
    "captions": ("sc:Text", True),
    "change_type": ("sc:Text", False),
    "viewpoint_iou": ("sc:Float", False),
    "seed": ("sc:Integer", False),
    "licence": ("sc:Text", False),
}


def record(dataset: PublishedDataset, folder: Path) -> dict[str, Any]:
    """Return the content of croissant.json for the files in `folder`."""
    files = [_file(folder, f"{split}/{rows.NAME}", PARQUET) for split in dataset.splits]
    tars = sorted(folder.glob("*/*.tar"))
    files += [_file(folder, tar.relative_to(folder).as_posix(), TAR) for tar in tars]
    return {
        "@context": read_json(CONTEXT, "restore it with git"),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": dataset.name,
        "description": f"Image pairs of {dataset.card.name} with captions of the change between them.",
        "citeAs": dataset.card.citation,
        "license": dataset.licence.name,
        **({"url": dataset.card.source} if dataset.card.source.startswith("http") else {}),
        "version": "1.0.0",
        "distribution": [*files, *(_images(dataset, split) for split in dataset.splits)],
        "recordSet": [_records(split) for split in dataset.splits],
    }


def _file(folder: Path, name: str, kind: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "contentSize": f"{(folder / name).stat().st_size} B",
        "encodingFormat": kind,
        "sha256": sha256(folder / name),
    }


def _images(dataset: PublishedDataset, split: str) -> dict[str, Any]:
    """Return the file set of a split's images: one file pattern for each extension."""
    names = [name for pair in dataset.splits[split] for name in (pair.before, pair.after)]
    ends = sorted({Path(name).suffix for name in names})
    kinds = sorted({mimetypes.guess_type(f"image{end}")[0] or "application/octet-stream" for end in ends})
    return {
        "@type": "cr:FileSet",
        "@id": f"{split}-images",
        "name": f"{split}-images",
        "encodingFormat": kinds,
        "includes": [f"{split}/**/*{end}" for end in ends],
    }


def _records(split: str) -> dict[str, Any]:
    fields = [_field(split, column, *kind) for column, kind in COLUMNS.items()]
    return {
        "@type": "cr:RecordSet",
        "@id": split,
        "name": split,
        "key": {"@id": f"{split}/pair_id"},
        "field": fields,
    }


def _field(split: str, column: str, kind: str, several: bool) -> dict[str, Any]:
    source = {"fileObject": {"@id": f"{split}/{rows.NAME}"}, "extract": {"column": column}}
    field = {"@type": "cr:Field", "@id": f"{split}/{column}", "name": column, "dataType": kind}
    return field | ({"repeated": True} if several else {}) | {"source": source}
