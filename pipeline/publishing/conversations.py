"""Write pairs as conversations about two images, a format for training multimodal models.

A conversation is a JSON object. Its `messages` have roles and typed parts. `images` has the files of the two
image parts, in order. The answer is the first reference, and `references` has all references.
"""

from typing import Any

from pipeline.datasets.schema import Pair

FOLDER = "conversations"
QUESTION = (
    "The first image was taken before, the second image after a possible change. What changed? Answer in one "
    "sentence, and say so if nothing changed."
)


def of_pair(pair: Pair, folder: str) -> dict[str, Any]:
    """Return the conversation about a pair. The names of its images begin with `folder`."""
    asked = [{"type": "image"}, {"type": "image"}, {"type": "text", "text": QUESTION}]
    answered = [{"type": "text", "text": pair.captions[0]}]
    return {
        "id": pair.pair_id,
        "images": [f"{folder}/{pair.before}", f"{folder}/{pair.after}"],
        "messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}],
        "references": list(pair.captions),
    }
