"""Files of the last commit. The working tree has what runs, experiments and edits left in it."""

import io
import shutil
import subprocess
import tarfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _git(*arguments: str) -> bytes | None:
    """Return the output of git in the project's folder, or None without git or a commit of the project."""
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None


@cache
def in_git() -> bool:
    """Return True if the project has a commit; an unpacked archive has none, even inside a repository."""
    return _git("cat-file", "-e", "HEAD:./params.yaml") is not None


@cache
def text(name: str) -> str:
    """Return the text of a file of the last commit. In an unpacked archive, it is the file itself."""
    committed = _git("show", f"HEAD:./{name}")
    return (ROOT / name).read_text(encoding="utf-8") if committed is None else committed.decode()


def copy(folder: Path, *names: str) -> None:
    """Copy files and folders of the last commit, or in an unpacked archive those of the tree, to `folder`."""
    if in_git():
        packed = _git("archive", "--format=tar", "HEAD", "--", *names)
        assert packed is not None, f"the last commit lacks one of {names}"
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            # Python 3.11.0 to 3.11.3 have no filters; the archive is our own
            filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(folder, **filters)
        return
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile)(ROOT / name, folder / name)
