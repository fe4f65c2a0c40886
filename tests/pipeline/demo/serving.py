"""Process of test_served.py: for each line of input, a folder and a port, it serves the demo in a fork.

It prints the fork's process id, then what the demo prints, then the fork's exit code. The demo is imported
once, because this takes 10 s. Its captioner needs no weights.
"""

import os
import signal
import sys
import tempfile

from commands import demo
from stages import run
from tests.pipeline.demo.test_pair_html import SETTINGS, Brightness


def serve(folder: str, port: str) -> None:
    """Serve the demo, with temporary files in `folder`."""
    print(os.getpid(), flush=True)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    sys.argv = ["demo", "--no-browser", "--port", port]
    # background jobs of a shell ignore SIGINT
    signal.signal(signal.SIGINT, signal.default_int_handler)
    demo.load_captioners = lambda places, lab: {"one": Brightness()}
    demo.scene_settings = lambda captioners, lab: SETTINGS
    run(demo.main)


if __name__ == "__main__":
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            serve(*line.rsplit(maxsplit=1))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
