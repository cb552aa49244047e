"""Writes results as words, pictures, charts and scripts, for the page and the command line."""
