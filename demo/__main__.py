"""`python -m demo` and the command `worth-compiling`: see `demo.cli.main`."""

import importlib.util
import sys
from typing import NoReturn

from .core.files import LenientStream, open_closed_streams
from .core.program import missing_libraries


def run(*arguments: str) -> NoReturn:
    """Runs the command given by `arguments` followed by `sys.argv[1:]`, and ends the process with its exit code.

    Text that cannot be written to standard error, as on a full disk, is lost, and does not end the command.

    Every command needs three libraries, the doctor, too. If one of them is missing, the process ends with a sentence
    that names all libraries that are missing.
    """
    open_closed_streams()
    sys.stderr = LenientStream(sys.stderr)
    if any(importlib.util.find_spec(name) is None for name in ("PIL", "numpy", "pydantic")):
        sys.exit(missing_libraries())
    from .cli.main import main

    sys.exit(main([*arguments, *sys.argv[1:]]))


if __name__ == "__main__":
    run()
