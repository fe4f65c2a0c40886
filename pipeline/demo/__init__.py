"""The page of `make demo`, which captions newly rendered scenes or two uploaded images.

This package contains the page; captioning is in pipeline/captioning.
"""
