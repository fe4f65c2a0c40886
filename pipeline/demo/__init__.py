"""The page of `make demo`, which captions newly rendered scenes or two uploaded images."""
