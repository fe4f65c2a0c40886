"""The embedded dataset tabletop: a small version of CLEVR-Change, rendered on this machine from a seed."""
