"""Side-by-side timings against the plainest implementation; run by hand with `make bench`."""
