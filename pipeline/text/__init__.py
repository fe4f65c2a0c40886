"""Tokens of captions: vocabularies of words, and CLIP's byte-pair encoding."""
