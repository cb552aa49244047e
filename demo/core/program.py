"""Where this program's files are and how it is called: in a checkout the package `demo`, else `worth_compiling`."""

import importlib.util
from pathlib import Path

PACKAGE = __name__.partition(".")[0]
"""Name under which this package is imported: "demo" or "worth_compiling". Worker processes are started by this name."""
IN_CHECKOUT = PACKAGE == "demo"
_PACKAGE_FOLDER = Path(__file__).resolve().parents[1]
ROOT = _PACKAGE_FOLDER.parent
"""In a checkout, the project's own folder. If installed, the folder of all installed packages."""
ASSETS = (ROOT if IN_CHECKOUT else _PACKAGE_FOLDER) / "assets"
"""Checkpoints, configs, pictures and tables that ship with the program."""
PROGRAM = "python -m demo" if IN_CHECKOUT else "worth-compiling"
"""What a user types to start a command."""

LIBRARIES = {
    "PIL": "pillow",
    "cloudpickle": "cloudpickle",
    "huggingface_hub": "huggingface-hub",
    "jinja2": "jinja2",
    "numpy": "numpy",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "pydantic": "pydantic",
    "pynvml": "nvidia-ml-py",
    "safetensors": "safetensors",
    "scipy": "scipy",
    "torch": "torch",
    "transformers": "transformers",
    "yaml": "pyyaml",
}
"""{name under which a library is imported: its name for pip}, of the libraries that pyproject.toml asks for."""


def missing_libraries() -> str:
    """Returns a sentence that names the libraries of `LIBRARIES` that are not installed, and how to install them.

    Returns "" if all are there. They can be missing after `pip install --no-deps`.
    """
    missing = [name for module, name in LIBRARIES.items() if importlib.util.find_spec(module) is None]
    if not missing:
        return ""
    command = install_command() if IN_CHECKOUT else f"pip install {' '.join(missing)}"
    return f"Not installed: {', '.join(missing)}. Install what is missing: {command}"


def install_command(extra: str = "") -> str:
    """Returns the command that installs missing libraries.

    - In a checkout, the command installs the versions that a requirements file pins.
    - If this program is installed as a package, the command installs the package with `extra`.
    - `extra`: an optional group of libraries in pyproject.toml, "page" or "sweep"; "" for none.
    """
    if IN_CHECKOUT:
        return f"pip install -r requirements{'-sweep' if extra == 'sweep' else ''}.txt"
    return f'pip install "worth-compiling{f"[{extra}]" if extra else ""}"'
