"""Worker processes, which do parts of a program's work."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
from pathlib import Path
from pipeline.compute import worker_processes
with Path("imported").open("a") as log:
    log.write("once\\n")
if __name__ == "__main__":
    own = sys.modules["__main__"]
    with worker_processes.pool(2) as workers:
        print(*workers.map(len, ["a", "to"]))
    assert sys.modules["__main__"] is own
"""


def test_they_do_not_import_the_program_however_it_was_started(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for count, started in enumerate((["-m", "program"], ["program.py"]), 1):
        command = [sys.executable, *started]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout == "1 2\n"
        assert (tmp_path / "imported").read_text() == count * "once\n"
