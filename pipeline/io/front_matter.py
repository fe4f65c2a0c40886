"""Cards of models and datasets: a README whose YAML front matter tells hubs the metadata."""

from pathlib import Path
from typing import Any

import jinja2

from pipeline.io.outputs import yaml_of

# identifiers of licences that hubs know
LICENCES = {
    *("mit", "apache-2.0", "bsd-2-clause", "bsd-3-clause", "gpl-3.0", "lgpl-3.0", "agpl-3.0", "mpl-2.0"),
    *("cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0", "cc-by-nd-4.0"),
    *("cc-by-nc-nd-4.0", "cc-by-3.0", "cc-by-sa-3.0", "odbl", "odc-by", "openrail", "unlicense", "unknown"),
}
FENCE = "---\n"


def card(values: dict[str, Any], template: Path, **variables: Any) -> str:
    """Return a card: `values` as YAML front matter between two lines of `---`, then the filled template.

    `variables` are the variables of the Jinja template.
    """
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "listed": lambda items: ", ".join(f"{key} {value}" for key, value in items.items()),
        "percent": lambda share: f"{100 * share:.1f}",
        "thousands": lambda number: f"{number:,}",
    }
    body = environment.from_string(template.read_text(encoding="utf-8")).render(variables)
    return f"{FENCE}{yaml_of(values, width=100)}{FENCE}\n{body}"


def licence(name: str) -> dict[str, str]:
    """Return the front matter's entries for a licence. A licence that hubs do not know is named "other"."""
    if name.lower() in LICENCES:
        return {"license": name.lower()}
    return {"license": "other", "license_name": name}
