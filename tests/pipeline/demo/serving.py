"""What tests/pipeline/demo/test_served.py starts: for each line, a folder and a port, it serves the demo.

The demo is imported once, for 10 s of a processor, and each time served by a fork. Its captioner needs no
weights. Printed are the fork's number, what the demo says by itself, and how it ended.
"""

import os
import signal
import sys
import tempfile

from commands import demo
from stages import run
from tests.pipeline.demo.test_pair_html import SETTINGS, Told


def serve(folder: str, port: str) -> None:
    """The demo, its temporary files in `folder`."""
    print(os.getpid(), flush=True)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    sys.argv = ["demo", "--no-browser", "--port", port]
    # Ctrl-C is a signal that a shell's background jobs ignore, and so would what they start
    signal.signal(signal.SIGINT, signal.default_int_handler)
    demo.loaded = lambda places, lab: {"told": Told()}
    demo.settings = lambda captioners, lab: SETTINGS
    run(demo.main)


if __name__ == "__main__":
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            serve(*line.rsplit(maxsplit=1))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
