"""What holds the house together: who may import whom, and that the papers beside the code say what the code says."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.core import catalog
from demo.core import format as fmt

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

# From the ground up. A room may import rooms of lower floors only; within ui/ and backend/ the files import each other.
FLOORS = (
    {"format", "stats", "hub", "languages"},
    {"schema"},
    {"limits", "forecast"},
    {"words"},
    {"catalog", "history", "images", "export"},
    {"measured", "journal", "dataset", "script", "agreement", "search"},
    {"published", "drawing"},
    {"beside", "charts"},
    {"published_charts"},
    {"runner"},
    {"precompiling", "cache_file"},
    {"doctor", "sweep"},
    {"cluster", "autopilot"},
    {"terminal", "ui"},
    {"commands"},
    {"__main__", "app"},
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# Beside the house, in a process of its own: only the runner starts it, by name.
BACKEND_MAY_IMPORT = {"format", "stats", "hub", "schema", "limits", "catalog", "images", "agreement"}

LIBRARIES = {
    "torch": {"backend"},
    "transformers": {"backend"},
    "gradio": {"ui", "app"},
    "plotly": {"charts", "published_charts", "ui"},
}


def _sources() -> list[Path]:
    return [*sorted((ROOT / "demo").rglob("*.py")), ROOT / "app.py"]


def _room(file: Path) -> str:
    """'schema' for demo/core/result.py, 'ui' for any file of demo/ui/, 'app' for app.py."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "demo" else parts[0]


def _imports(file: Path) -> Iterator[str]:
    """Every imported module by its full name, wherever in the file the import stands."""
    package = file.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _rooms_imported(file: Path) -> set[str]:
    """The rooms of this project that a file imports, its own left out."""
    names = [name.split(".") for name in _imports(file)]
    rooms = {name[1] for name in names if name[0] == "demo" and len(name) > 1}
    rooms |= {"app"} if any(name[0] == "app" for name in names) else set()
    return rooms - {_room(file)}


@pytest.mark.parametrize("file", _sources(), ids=lambda file: str(file.relative_to(ROOT)))
def test_imports_point_down_only(file: Path) -> None:
    room = _room(file)
    if room == "__init__":
        assert _rooms_imported(file) == set()
    elif room == "backend":
        assert _rooms_imported(file) <= BACKEND_MAY_IMPORT
    else:
        assert room in FLOOR_OF, f"demo/{room} is on no floor: put it on one, here and in the README's map"
        own = FLOOR_OF[room]
        allowed = {name for name, floor in FLOOR_OF.items() if floor < own}
        if room == "__main__":
            allowed.add("app")  # `serve`
        assert _rooms_imported(file) <= allowed


@pytest.mark.parametrize(("library", "rooms"), LIBRARIES.items(), ids=LIBRARIES)
def test_a_heavy_library_is_imported_in_its_rooms_only(library: str, rooms: set[str]) -> None:
    importers = {_room(file) for file in _sources() for name in _imports(file) if name.split(".")[0] == library}
    assert importers <= rooms


def test_only_serving_lets_the_command_line_reach_the_page() -> None:
    assert "ui" not in _rooms_imported(ROOT / "demo" / "cli" / "run.py")
    tree = ast.parse((ROOT / "demo" / "cli" / "run.py").read_text(encoding="utf-8"))
    serve = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "_serve")
    inside = {node for node in ast.walk(serve) if isinstance(node, ast.Import)}
    everywhere = {
        node for node in ast.walk(tree) if isinstance(node, ast.Import) and "app" in [name.name for name in node.names]
    }
    assert everywhere and everywhere <= inside


def test_the_program_imports_nothing_of_the_tools_and_the_tests() -> None:
    outside = {"tools", "tests", "benchmarks", "samples"}
    assert [name for file in _sources() for name in _imports(file) if name.split(".")[0] in outside] == []


# Requirements


def _pins(name: str) -> dict[str, str]:
    lines = [line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    return dict(line.split("==") for line in lines if line)


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt", "requirements-sweep.txt"])
def test_requirements_are_exact(name: str) -> None:
    assert all(re.fullmatch(r"\d+(\.\d+)*", version) for version in _pins(name).values())


def test_neither_torchvision_nor_timm_is_required() -> None:
    required = {*_pins("requirements.txt"), *_pins("requirements-dev.txt")}
    assert required.isdisjoint({"torchvision", "torchaudio", "timm"})


def test_every_library_that_the_program_imports_is_required() -> None:
    distribution = {"PIL": "pillow", "pynvml": "nvidia-ml-py", "yaml": "pyyaml"}
    optional = {"triton", "ray"}  # triton comes with torch where there is a GPU
    imported = {name.split(".")[0] for file in _sources() for name in _imports(file)}
    foreign = imported - set(sys.stdlib_module_names) - {"demo", "app"} - optional
    assert {distribution.get(name, name) for name in foreign} <= set(_pins("requirements.txt"))


def test_a_space_gets_a_compiler() -> None:
    assert (ROOT / "packages.txt").read_text().split() == ["build-essential", "fonts-dejavu-core"]


# README


def _front_matter() -> dict[str, str]:
    """The scalar entries of the YAML block that a Space reads."""
    block = re.match(r"---\n(.*?)\n---\n", README, re.DOTALL)
    assert block is not None
    pairs = re.findall(r"^(\w+): *(.+)$", block[1], re.MULTILINE)
    return {key: value.strip("\"'") for key, value in pairs}


def test_the_front_matter_fits_the_project() -> None:
    front = _front_matter()
    assert front["sdk"] == "gradio"
    assert front["sdk_version"] == _pins("requirements.txt")["gradio"]
    assert front["python_version"] == "3.11"
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["python_version"] == "3.11"
    assert (ROOT / front["app_file"]).is_file()
    assert front["license"] == "apache-2.0"


def test_the_short_description_is_no_longer_than_a_space_allows() -> None:
    assert 0 < len(_front_matter()["short_description"]) <= 60


def test_the_front_matter_names_the_guides_checkpoints() -> None:
    block = README.split("---\n")[1]
    listed = re.search(r"^models:\n((?: *- .+\n)+)", block, re.MULTILINE)
    assert listed is not None
    guides = [checkpoint.id for checkpoint in catalog.CHECKPOINTS if not checkpoint.bundled]
    assert re.findall(r"- (.+)", listed[1]) == guides


@pytest.mark.parametrize(
    "command",
    [
        "pip install -r requirements.txt && python app.py",
        "pip install -r requirements.txt -r requirements-dev.txt && python -m pytest",
    ],
)
def test_the_readme_gives_the_two_commands(command: str) -> None:
    assert f"\n{command}\n" in README


def test_the_checks_run_the_readmes_test_command() -> None:
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    assert "python -m pytest" in script


def _table() -> str:
    lines = ["| Checkpoint | Task | Parameters | Input | Licence |", "|---|---|--:|--:|---|"]
    for checkpoint in catalog.CHECKPOINTS:
        name = f"`{checkpoint.id}`"
        if not checkpoint.bundled:
            name = f"[{name}](https://huggingface.co/{checkpoint.id})"
        height, width = checkpoint.input_size
        count = fmt.parameters(checkpoint.parameters)
        lines.append(f"| {name} | {checkpoint.task} | {count} | {height} × {width} | {checkpoint.licence} |")
    return "\n".join(lines) + "\n"


def test_the_readmes_table_is_the_catalogue() -> None:
    assert _table() in README, f"The README's table of checkpoints should read:\n{_table()}"


def test_the_readmes_map_names_every_room() -> None:
    rooms = {"demo/" + _room(file) for file in _sources() if _room(file) not in ("__init__", "app")}
    missing = [room for room in sorted(rooms) if f"`{room}.py`" not in README and f"`{room}/`" not in README]
    assert missing == []


def test_the_readme_explains_every_variable_that_the_program_has() -> None:
    named = {name for file in _sources() for name in re.findall(r"WORTH_COMPILING_[A-Z_]+", file.read_text())}
    assert named
    assert [name for name in sorted(named) if f"`{name}`" not in README] == []


def test_every_option_of_run_stands_in_the_readme() -> None:
    source = (ROOT / "demo" / "cli" / "run.py").read_text()
    options = set(re.findall(r'run\.add_argument\("(--[a-z-]+)"', source))
    assert "--batch-size" in options
    assert [option for option in sorted(options) if option not in README] == []


def test_every_link_of_the_readme_to_a_file_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


# SECURITY.md


def test_every_source_and_test_that_the_security_page_names_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8")))
    assert len(named) > 10
    assert [
        name for name in sorted(named) if not any((ROOT / folder / name).is_file() for folder in ("", "tests"))
    ] == []


def test_the_tables_that_the_security_page_names_are_there() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for name in ("load.md", "soak.md"):
        assert name in text and (ROOT / "benchmarks" / "results" / name).is_file()
