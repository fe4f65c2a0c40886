"""Readers: one published layout each, all to the schema of schema.py."""
