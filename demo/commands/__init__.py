"""One module a command of `python -m demo`, those that were added after the first five."""
