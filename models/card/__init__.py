"""CARD: common and differing context features of both images."""
