"""DUDA: dual attention over both images, and a dynamic speaker."""
