"""The index of the search: every id is a document, and words are found under their other names.

The theme indexes pages by their headings. Here that index gets a document for each thing that a report may name: a
requirement, an equation, a deviation, a profile, an encoder of the matrix. ``documents`` says what these are, this
module where they rank. Like ``kept`` it imports nothing of the specification: MkDocs loads it for each build.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

DOCUMENTS = "search.json"
"""The generated file that holds the documents."""

SYNONYMS = (
    ("RoPE", "rotary"),
    ("warm-up", "warmup"),
    ("ε", "eps", "epsilon"),
    ("γ", "gamma"),
    ("β", "beta"),
    ("positional", "position", "PE"),
    ("LayerNorm", "layer-norm", "layer_norm", "LN", "layer normalisation", "layer normalization"),
    ("RMSNorm", "rms-norm", "rms_norm", "root-mean-square"),
    ("normalisation", "normalization"),
    ("FFN", "feed-forward", "feedforward", "MLP"),
    ("multi-head", "multihead", "MHA"),
    ("Post-LN", "post-norm", "postnorm", "post_ln"),
    ("Pre-LN", "pre-norm", "prenorm", "pre_ln", "norm_first"),
    ("residual", "skip connection", "shortcut"),
    ("padding", "pad", "key_padding_mask", "attention_mask"),
    ("deviation", "bug", "defect", "mistake"),
    ("segment", "token_type", "token type"),
    ("parameters", "weights"),
)
"""Words for one thing: who looks for one of them finds what is said in the others."""

HEAVIER = 6
"""How much more an id weighs than the ids that begin with it.

The search takes what is typed for the beginning of a word, and a rare word counts up to four times as much as one in
many documents: without this, ATT-30 comes before ATT-3.
"""

OF_AN_ID = 4
"""How much more an id weighs than a heading with the same word in it."""


def amended(entries: Iterable[dict[str, Any]], documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The entries of the theme with these documents in the place of what it found at their addresses.

    A heading over a table alone has no text, and nobody looks for it.
    """
    added = [dict(document) for document in documents]
    ids = [document["id"] for document in added]
    replaced = {document["location"] for document in added}
    kept = [e for e in entries if e["location"] not in replaced and (e["text"] or "#" not in e["location"])]
    for entry in kept:
        # The page norm.html is the first thing that norm stands for, before norm.layer_norm.
        stem = entry["location"].removesuffix(".html")
        if stem not in ids and (level := depth(stem, ids)):
            entry["boost"] = OF_AN_ID * HEAVIER**level
    for document in added:
        id = document.pop("id")
        document["boost"] = document.get("boost", OF_AN_ID) * HEAVIER ** depth(id, ids)
    return [*map(with_synonyms, [*kept, *added])]


def depth(id: str, ids: Collection[str]) -> int:
    """How many ids begin with an id, one with the other: 2 for the first of ``a``, ``a-b`` and ``a-b-c``."""
    longer = [other for other in ids if other != id and other.lower().startswith(id.lower())]
    return 1 + max((depth(other, longer) for other in longer), default=0) if longer else 0


def with_synonyms(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with the other words for what its title says as tags, and those for what its text says behind it."""
    tags, words = others(entry["title"]), others(entry["text"])
    found = entry | ({"tags": tags} if tags else {})
    more = [word for word in words if word not in tags]
    return found | ({"text": f"{entry['text']}<p>Also: {escape(', '.join(more))}</p>"} if more else {})


def others(text: str) -> list[str]:
    """The words that mean the same as some word of the text and do not stand there."""
    return [
        word
        for group, pattern in PATTERNS
        if pattern.search(text)
        for word in group
        if not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)
    ]


PATTERNS = [
    (group, re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, group))})(?!\w)", re.IGNORECASE)) for group in SYNONYMS
]


def write(site: Path, documents: Iterable[Mapping[str, Any]]) -> None:
    """Amend the index that the theme wrote; the offline plugin makes a script of it afterwards."""
    file = site / "search" / "search_index.json"
    index = json.loads(file.read_text(encoding="utf-8"))
    index["docs"] = amended(index["docs"], documents)
    file.write_text(json.dumps(index, separators=(",", ":"), ensure_ascii=False), encoding="utf-8")
