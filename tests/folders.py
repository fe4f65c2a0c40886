"""What lies in a folder, to compare folders by their bytes."""

from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    """Path below the folder -> bytes, of every file."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
