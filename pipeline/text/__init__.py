"""Tokens: vocabularies, and CLIP's byte-pair encoding."""
