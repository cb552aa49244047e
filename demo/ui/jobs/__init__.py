"""Runs and sweeps that visitors have started: the queue, and what goes on after a page is closed."""
