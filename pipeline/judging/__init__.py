"""Readers turn a caption into claims; one judge checks claims by the scene, and one by the references."""
