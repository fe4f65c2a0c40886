"""What tests/pipeline/demo/test_served.py starts: the demo, with a captioner that needs no weights."""

from stages import demo, run
from tests.pipeline.demo.test_answers import SETTINGS, Told

if __name__ == "__main__":
    demo.loaded = lambda places, lab: {"told": Told()}
    demo.settings = lambda captioners, lab: SETTINGS
    run(demo.main)
