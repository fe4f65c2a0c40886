"""YAML front matter: the beginning of a README, from which model and dataset hubs take a card's metadata."""

from typing import Any

from pipeline.io.outputs import yaml_of

# identifiers of licences that hubs know
LICENCES = {
    *("mit", "apache-2.0", "bsd-2-clause", "bsd-3-clause", "gpl-3.0", "lgpl-3.0", "agpl-3.0", "mpl-2.0"),
    *("cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0", "cc-by-nd-4.0"),
    *("cc-by-nc-nd-4.0", "cc-by-3.0", "cc-by-sa-3.0", "odbl", "odc-by", "openrail", "unlicense", "unknown"),
}
FENCE = "---\n"


def text(values: dict[str, Any]) -> str:
    """Return the front matter with these values, between two lines of `---`."""
    return f"{FENCE}{yaml_of(values, width=100)}{FENCE}"


def licence(name: str) -> dict[str, str]:
    """Return the front matter's entries for a licence. A licence that hubs do not know is named "other"."""
    if name.lower() in LICENCES:
        return {"license": name.lower()}
    return {"license": "other", "license_name": name}
