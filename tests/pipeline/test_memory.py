"""Free memory: the machine's, the container's where it has less, or not to be told."""

from pipeline import memory


def test_a_containers_limit_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert memory.free() is None
    memory.MEMINFO.write_text("MemTotal:       9000 kB\nMemAvailable:    4000 kB\n")
    assert memory.free() == 4_096_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free() == 4_096_000
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    assert memory.free() == 3000
