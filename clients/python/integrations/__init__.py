"""Tests with real frameworks, databases and the real service, which RAINDROP names."""
