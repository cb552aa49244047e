"""The Python of another environment, which runs the worker in place of this program's own: `--python`.

It brings its own torch and transformers; the code of the worker is that of this checkout, which is on its path. So two
releases of torch are compared by one protocol. It belongs to the runner and not to a `RunSpec`: a spec also comes from
the page, the API and links, and whoever may name an interpreter may run any program of this machine.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from demo.core.errors import BadInput

REMEDY = (
    "Name the python of an environment that has what requirements.txt lists, such as "
    "--python /path/to/venv/bin/python, or leave the option out"
)


@dataclass(frozen=True)
class Interpreter:
    path: str
    """Absolute, and not resolved: the python of a virtual environment is a link to another one."""

    @property
    def label(self) -> str:
        """What a stored result shows of it: 'venv-3fa2c1'. Two environments in folders of one name have two labels."""
        parent = Path(self.path).parent
        name = (parent.parent if parent.name in ("bin", "Scripts") else parent).name
        return f"{name}-{hashlib.sha256(self.path.encode()).hexdigest()[:6]}"

    def refused(self, why: str) -> BadInput:
        return BadInput(f"--python {self.path} cannot run the worker: {why}. {REMEDY}.")


def read(given: str) -> Interpreter | None:
    """The interpreter of this path; None for this program's own. Raises BadInput where no program is there.

    Whether it is a Python that can run the worker shows when it is started: `Runner.inspect`.
    """
    interpreter = Interpreter(os.path.abspath(os.path.expanduser(given)))
    if not os.path.isfile(interpreter.path):
        raise interpreter.refused("there is no such file")
    if not os.access(interpreter.path, os.X_OK):
        raise interpreter.refused("it is no program that may be started")
    return None if interpreter.path == os.path.abspath(sys.executable) else interpreter
