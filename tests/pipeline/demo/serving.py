"""What tests/pipeline/demo/test_served.py starts: the demo, with a captioner that needs no weights."""

import signal

from stages import demo, run
from tests.pipeline.demo.test_pair_html import SETTINGS, Told

if __name__ == "__main__":
    # Ctrl-C is a signal that a shell's background jobs ignore, and so would what they start
    signal.signal(signal.SIGINT, signal.default_int_handler)
    demo.loaded = lambda places, lab: {"told": Told()}
    demo.settings = lambda captioners, lab: SETTINGS
    run(demo.main)
