"""Files, errors, streams and hashes: what every other package uses."""
