"""Files, errors, records and hashes. Every other package uses these modules."""
