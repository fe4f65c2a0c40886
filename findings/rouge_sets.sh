#!/usr/bin/env bash
# The package rouge 1.0.1 compares sets: a caption that loops has ROUGE-L 1.
# By default (exclusive=True) it counts each n-gram once, and it divides the longest common subsequence by the number
# of distinct words. So a repeated word or sentence costs nothing. ROUGE-L of pycocoevalcap 1.2 counts every word.
# Why it matters: evaluation suites use this package for captions of differences. Repetition is a common fault of
# captioning models, and their score does not show it. The two ROUGE-L are not comparable.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check rouge==1.0.1
"$folder/env/bin/pip" install -q --disable-pip-version-check --no-deps pycocoevalcap==1.2 numpy==2.4.6
"$folder/env/bin/python" -I - <<'END'
import sys
from importlib.metadata import version

from pycocoevalcap.rouge.rouge import Rouge as CocoRouge
from rouge import Rouge

REFERENCE = "the red cube on the left moved"
EXPECTED = {  # caption: ROUGE-1 and ROUGE-L of rouge, ROUGE-L of pycocoevalcap
    "the red cube on the left moved": (1.0, 1.0, 1.0),
    "the red cube on the left moved moved moved moved": (1.0, 1.0, 0.8506),
    "the red cube the red cube the red cube on the left moved": (1.0, 1.0, 0.74),
    "the red cube on the left": (0.9091, 0.9091, 0.9104),
}

print("rouge", version("rouge"), "and pycocoevalcap", version("pycocoevalcap"))
print("reference:", REFERENCE)
seen = {}
for caption in EXPECTED:
    (scores,) = Rouge().get_scores(caption, REFERENCE)
    other = CocoRouge().calc_score([caption], [REFERENCE])
    seen[caption] = tuple(round(float(score), 4) for score in (scores["rouge-1"]["f"], scores["rouge-l"]["f"], other))
    print(f"{caption!r}: rouge ROUGE-1 {seen[caption][0]}, ROUGE-L {seen[caption][1]}; pycocoevalcap {seen[caption][2]}")
if seen != EXPECTED:
    sys.exit(f"The behaviour has changed. Expected: {EXPECTED}")
print("As expected.")
END
