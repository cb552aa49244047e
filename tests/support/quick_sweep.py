"""Runs the command line with workers that import no torch: `python -m tests.support.quick_sweep sweep ...`."""

import sys
from functools import partial

import demo.runs.runner
from demo.cli.main import main

demo.runs.runner.Runner = partial(demo.runs.runner.Runner, worker_module="tests.support.quick_worker")  # type: ignore[misc,assignment]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
