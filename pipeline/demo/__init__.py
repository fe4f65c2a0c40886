"""The page of `make demo`: captions of newly rendered scenes or of two uploaded images.

This package contains the page; captioning is in pipeline/captioning.
"""
