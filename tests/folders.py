"""Compare folders by their bytes."""

from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    """Return relative path -> bytes, for all files of the folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
