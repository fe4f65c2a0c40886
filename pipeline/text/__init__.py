"""Text of captions: vocabularies of words, CLIP's byte-pair encoding, and checks of the text."""
