"""`python -m demo`: see `demo.cli.main`."""

from .cli.main import run

run()
