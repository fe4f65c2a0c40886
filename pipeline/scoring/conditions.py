"""Conditions of a score other than the captions: pairs, references, tokeniser, and reader of captions.

Two results are compared only if their conditions are equal.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline.io.content_hashes import of_json
from pipeline.text.caption_text import one_line

KEY = "scored"  # in metrics.json and in each line of pairs.jsonl
HASH = "references_sha256"  # in metrics.json: hash of all scored references
DIGITS = 16  # of the hash of a pair's references in pairs.jsonl
LABELLED = "the true kinds of change opened the gate (decode.labelled_gate): the captions used labels"
NAMES = {  # field of Conditions -> words for messages
    "tokeniser": "tokenisers",
    "reader": "readers of captions (--reader)",
}


class Conditions(BaseModel):
    """Tokeniser and reader of scored captions. `reader` is None without pairs.

    `gate` is "label" if the true kinds of change opened the gate of the model that wrote the captions
    (decode.labelled_gate). Two such results may be compared, but each is marked.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    tokeniser: str
    reader: str | None = None
    gate: str | None = None

    def described(self) -> dict[str, str | None]:
        return self.model_dump(exclude=None if self.gate else {"gate"})

    @property
    def mark(self) -> str | None:
        return LABELLED if self.gate else None

    def difference(self, other: "Conditions") -> str | None:
        """Return which condition differs, with both values; None if all conditions are equal."""
        for name, words in NAMES.items():
            own, others = getattr(self, name), getattr(other, name)
            if own != others:
                return f"{words}: {own or 'none'!r} and {others or 'none'!r}"
        return None


@dataclass(frozen=True)
class Scope:
    """Conditions of a score, name of the file of references, and pairs left out: reason -> number.

    A reason is a phrase such as "without a caption".
    """

    conditions: Conditions
    references: str
    left_out: Mapping[str, int] = field(default_factory=dict)

    def described(self, hashes: Mapping[str, str]) -> dict[str, Any]:
        """Return the value of KEY in metrics.json. `hashes`: pair id -> hash of its references."""
        reasons = {reason: count for reason, count in self.left_out.items() if count}
        because = [f"{count:,} {reason}" for reason, count in reasons.items()]
        return {
            "pairs": len(hashes),
            "left_out": sum(reasons.values()),
            "left_out_because": "; ".join(because) or None,
            "references": self.references,
            HASH: of_all(hashes),
            **self.conditions.described(),
        }


def stated(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return tokeniser, number of pairs and hash of references that a metrics.json states, or None."""
    scored = metrics.get(KEY, {})
    tokeniser = metrics.get("scorers", {}).get("tokenizer")
    return {"tokeniser": tokeniser, "pairs": scored.get("pairs"), HASH: scored.get(HASH)}


def of_pairs(references: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return pair id -> hash of its references, whatever their order and white space."""
    lines = {key: sorted(filter(None, map(one_line, texts))) for key, texts in references.items()}
    return {key: of_json(texts)[:DIGITS] for key, texts in lines.items()}


def of_all(hashes: Mapping[str, str]) -> str:
    return of_json(dict(hashes))
