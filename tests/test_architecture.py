"""Tests of the code's structure: which folder may import which, names, lengths of files, and required libraries."""

import ast
import functools
import itertools
import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from demo.core import program

ROOT = Path(__file__).resolve().parent.parent

# From the ground up. A room imports rooms of lower floors only; on the ground floor and within a room files import each
# other, without a circle.
FLOORS = (
    {"core", "tasks"},
    {"backend", "store"},
    {"runs"},
    {"present"},
    {"sweep"},
    {"ui"},
    {"cli"},
    {"__main__", "library"},
    {"app"},
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

LIBRARIES = {
    "torch": {"backend"},
    "transformers": {"backend"},
    "gradio": {"ui"},
    "plotly": {"present", "ui"},
    "spaces": {"ui"},
}


def sources() -> list[Path]:
    return [*sorted((ROOT / "demo").rglob("*.py")), ROOT / "app.py"]


def _room(file: Path) -> str:
    """Returns the name of a file's folder in demo/: 'ui' for any file of demo/ui/; 'app' for app.py."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "demo" else parts[0]


@functools.cache
def _imports(file: Path) -> list[str]:
    """Returns the full name of every module that a file imports, also within functions."""
    package = file.relative_to(ROOT).parent.parts
    imported: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            imported += [f"{module}.{alias.name}" for alias in node.names]
    return imported


def _rooms_imported(file: Path) -> set[str]:
    """Returns the folders of demo/ (rooms) that a file imports, without its own."""
    names = [name.split(".") for name in _imports(file)]
    rooms = {name[1] for name in names if name[0] == "demo" and len(name) > 1}
    rooms |= {"app"} if any(name[0] == "app" for name in names) else set()
    return rooms - {_room(file)}


def test_no_file_of_the_program_is_longer_than_450_lines() -> None:
    files = [file for file in (ROOT / "demo").rglob("*") if file.suffix in (".py", ".js", ".css", ".html")]
    lengths = {str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    assert lengths and {name: length for name, length in lengths.items() if length > 450} == {}


def test_imports_point_down_only() -> None:
    for file in sources():
        room = _room(file)
        # backend is started by name, in a process of its own: no other room imports it
        lower = {name for name, floor in FLOOR_OF.items() if floor < max(1, FLOOR_OF.get(room, 0))} - {"backend"}
        assert _rooms_imported(file) <= ({"library"} if room == "__init__" else lower), file


def test_no_file_imports_itself_through_others() -> None:
    """Imports inside functions count, too, because they can hide a circle of imports."""
    names = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in sources()
    }

    def modules(file: Path) -> set[str]:
        """Returns the program's modules that a file imports. In `from a import b`, b may be a module or a name in a."""
        return {name if name in names else name.rpartition(".")[0] for name in _imports(file)} & names.keys()

    left = {name: modules(file) - {name} for name, file in names.items()}
    before = 0
    while before != (before := len(left)):  # what imports nothing of the rest, and what nothing of it imports, goes
        importing = {name: imported & left.keys() for name, imported in left.items()}
        imported = set().union(*importing.values())
        left = {name: importing[name] for name in left if importing[name] and name in imported}
    assert left == {}


def test_a_heavy_library_is_imported_in_its_rooms_only() -> None:
    for library, rooms in LIBRARIES.items():
        importers = {_room(file) for file in sources() for name in _imports(file) if name.split(".")[0] == library}
        assert importers <= rooms


def test_only_the_age_of_files_is_measured_with_a_clock_that_may_jump() -> None:
    """Other durations use `time.monotonic` or `time.perf_counter`, which a correction of the clock does not move."""
    users = [
        file.name for file in sources() if re.search(r"\btime\.time(_ns)?\(|import time\b.*\btime\(", file.read_text())
    ]
    assert users == ["uploads.py"]


def test_the_program_imports_nothing_of_the_tools_and_the_tests() -> None:
    outside = {"tools", "tests", "benchmarks", "support"}
    assert [name for file in sources() for name in _imports(file) if name.split(".")[0] in outside] == []


# Names

ONE_MEANING = {
    "add_to": "each command adds itself to the command line",
    "agreement": "each task has shares that say how far two predictions agree",
    "conclusion": "what a search, or a comparison, found, in sentences",
    "difference": "each task has a clause on where two predictions differ",
    "LISTED": "how many of the newest runs are listed, on the terminal and on the page",
    "load": "each task loads its model and input, and the folder chooses the task",
    "main": "what a process does",
    "make_cells": "makes the cells of a grid, for this machine or for a cluster",
    "MAX_STORED": "how many stored runs are read in order to reuse them, by a search or by a sweep",
    "POLL_SECONDS": "the time between two looks, at a worker, at a cluster or at gradio's queue",
    "refusal": "why a spec cannot run, by its machine or by its task",
    "run_cells": "runs the cells of a grid, on this machine or on a cluster",
    "RUNS_IOU": "from this overlap on a task calls the predictions of two runs equal",
    "T": "any type",
    "TASK": "each task has the object that the registry finds",
    "W": "any work of a visitor",
}
"""Public names that are defined in several files, and the one meaning that each has in all of them."""
PARTICIPLE = re.compile(r"[a-z]+ed|chosen|drawn|found|given|held|kept|known|made|said|sent|shown|taken|told|written")


def test_a_public_name_has_one_meaning() -> None:
    files: dict[str, set[str]] = {}
    for file in sources():
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            parts = [part for target in targets for part in getattr(target, "elts", [target])]
            for name in [getattr(node, "name", ""), *(part.id for part in parts if isinstance(part, ast.Name))]:
                if name and not name.startswith("_"):
                    files.setdefault(name, set()).add(str(file.relative_to(ROOT)))
    several = {name: places for name, places in files.items() if len(places) > 1}
    assert {name: places for name, places in several.items() if name not in ONE_MEANING} == {}
    assert several.keys() == ONE_MEANING.keys()


def test_a_function_is_a_verb_or_what_it_returns() -> None:
    """A participle, such as `sorted_rows`, is neither. It is allowed only for a function that returns a bool."""
    for file in sources():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and PARTICIPLE.fullmatch(node.name.strip("_")):
                answers = getattr(node, "returns", None)
                assert isinstance(answers, ast.Name) and answers.id == "bool", f"{file.relative_to(ROOT)}: {node.name}"


def test_no_two_files_have_one_name() -> None:
    """One exception: a task's file in demo/backend/tasks/ has the name of its file in demo/tasks/."""
    files = {file.relative_to(ROOT) for file in sources() if not file.name.startswith("__")}
    in_worker = {Path("demo/backend/tasks") / file.name for file in files if file.parent == Path("demo/tasks")}
    names = [file.name for file in files - in_worker]
    assert sorted(names) == sorted(set(names))


# Requirements


def pins(name: str) -> dict[str, str]:
    """Returns the version of each requirement in the file `name`."""
    lines = [line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    requirements = [Requirement(line) for line in lines if line]
    return {requirement.name: str(requirement.specifier).removeprefix("==") for requirement in requirements}


def test_requirements_are_exact_and_neither_torchvision_nor_timm_is_among_them() -> None:
    for name in ["requirements.txt", "requirements-dev.txt", "requirements-sweep.txt"]:
        assert all(re.fullmatch(r"\d+(\.\d+)*", version) for version in pins(name).values())
        assert pins(name).keys().isdisjoint({"torchvision", "torchaudio", "timm"})


def test_the_package_admits_the_versions_that_the_project_pins() -> None:
    """The libraries of extras, such as `page`, count as well."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    ranges = {
        requirement.name.replace("-", "_"): requirement
        for requirement in map(Requirement, [*project["dependencies"], *itertools.chain(*extras.values())])
    }
    fixed = {
        name.replace("-", "_"): pin for name, pin in (pins("requirements.txt") | pins("requirements-sweep.txt")).items()
    }
    assert {
        name for name, pin in fixed.items() if name not in ranges or not ranges[name].specifier.contains(pin)
    } == set()
    assert sorted(program.LIBRARIES.values()) == sorted(Requirement(line).name for line in project["dependencies"])


def test_every_library_that_the_program_imports_is_required() -> None:
    distribution = {"PIL": "pillow", "pynvml": "nvidia-ml-py", "yaml": "pyyaml", "markupsafe": "jinja2"}
    distribution |= dict.fromkeys(
        ("fastapi", "starlette", "pydantic", "pydantic_core"), "gradio"
    )  # it is made of them, and says which versions
    optional = {"triton", "ray", "spaces"}  # triton comes with torch where there is a GPU, a Space installs spaces
    imported = {name.split(".")[0] for file in sources() for name in _imports(file)}
    foreign = imported - set(sys.stdlib_module_names) - {"demo", "app"} - optional
    assert {distribution.get(name, name) for name in foreign} <= set(pins("requirements.txt"))
