"""Files, errors, standard streams and hashes. Every other package uses these modules."""
