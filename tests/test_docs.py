"""The Markdown pages say what the code says: options, settings, exit codes, routes, columns, figures, links, files."""

import re
from argparse import PARSER, SUPPRESS, ArgumentParser
from pathlib import Path
from urllib.parse import unquote

import yaml
from huggingface_hub import SpaceHardware
from support.fake_runner import FakeRunner
from support.samples import full_result
from test_architecture import FLOORS, ROOT, pins, sources

from demo.cli import deploy_command, main
from demo.core import catalog, format as fmt, limits
from demo.store import export
from demo.store.history import History
from demo.ui.page import Page

README, SECURITY, CONTRIBUTING = ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, SECURITY, CONTRIBUTING, *DOCS]
EVERY_PAGE = [*PAGES, *sorted((ROOT / "assets").rglob("*.md")), *sorted((ROOT / "benchmarks").rglob("*.md"))]

COMMANDS = {
    "run": ("command-line.md", "run"),
    "list": ("command-line.md", "list, doctor, serve"),
    "doctor": ("command-line.md", "list, doctor, serve"),
    "serve": ("command-line.md", "list, doctor, serve"),
    "history": ("command-line.md", "history"),
    "published": ("command-line.md", "published"),
    "script": ("command-line.md", "script"),
    "sweep": ("sweeps.md", "sweep"),
    "shapes": ("ways-to-compile.md", "A log of sizes"),
    "best": ("best-way.md", "The best way"),
    "deploy": ("space.md", "Deploy"),
}
"""The page and the heading under which each command's options stand."""

OTHERS_VARIABLES = {"PYTHONPATH"}
"""Read only to be passed on."""

NOT_OF_THE_PROJECT = {"summary.md", "gpu_evidence.md", "YOUR_PICTURE.png", "ID.png"}
"""Files that a command of the pages writes, that the page serves, or that the reader has."""


def _read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _text(name: str) -> str:
    return _read(ROOT / "docs" / name)


def _prose(text: str) -> str:
    """Without code blocks: a `#` in one of them is no heading."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def _headings(text: str, level: str = "#+") -> list[str]:
    return re.findall(rf"^{level} (.+)$", _prose(text), re.MULTILINE)


def _anchor(heading: str) -> str:
    """The anchor that GitHub and the Hub give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _section(text: str, heading: str) -> str:
    """From a heading to the next one of its level or a higher one."""
    found = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert found is not None, f"There is no heading {heading!r}"
    rest = text[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def _spans(text: str) -> list[str]:
    """What stands in backquotes outside of code blocks."""
    return re.findall(r"`([^`\n]+)`", _prose(text))


# The README


def test_the_front_matter_fits_the_project() -> None:
    front = yaml.safe_load(README.read_text(encoding="utf-8").split("---")[1])  # what a Space reads
    assert front["sdk"] == "gradio"
    assert front["sdk_version"] == pins("requirements.txt")["gradio"]
    assert front["python_version"] == "3.12.12"  # ZeroGPU has this one and 3.10.13
    assert front["suggested_hardware"] in [one.value for one in SpaceHardware]
    # A duplicate gets requirements.txt as it is.
    assert deploy_command._requirements(front["suggested_hardware"]) == _read(ROOT / "requirements.txt")
    assert (ROOT / front["app_file"]).is_file()
    assert front["license"] == "apache-2.0"
    assert 0 < len(front["short_description"]) <= 60  # what a Space allows


# Every page


def test_the_pages_have_at_most_13_000_words() -> None:
    assert sum(len(_read(page).split()) for page in PAGES) <= 13_000


def test_every_decimal_figure_was_measured() -> None:
    for page, heading, results in [
        (README, "A result", ("gpu_evidence", "default_run", "reruns", "ways", "best_way")),
        (
            ROOT / "docs" / "measuring.md",
            "Figures of the protocol",
            ("reruns", "honesty", "rerun_honesty", "fidelity", "overhead"),
        ),
        (ROOT / "docs" / "page.md", "Speed of the page", ("page_start",)),
        (SECURITY, "Measured under load", ("load", "kills")),
    ]:
        files = [ROOT / "benchmarks" / "results" / f"{name}.md" for name in results]
        measured = {figure for file in files for figure in re.findall(r"\d+(?:\.\d+)+", _read(file))}
        figures = re.findall(r"\d+(?:\.\d+)+", _section(_read(page), heading))
        assert figures and [figure for figure in figures if figure not in measured] == []


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    for page in EVERY_PAGE:
        for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", _prose(_read(page))):
            path, _, anchor = unquote(link).partition("#")
            target = page.parent / path if path else page
            assert target.exists() and (not anchor or anchor in map(_anchor, _headings(_read(target)))), (page, link)


def test_every_file_that_a_page_names_exists() -> None:
    for page in EVERY_PAGE:
        path = r"[\w./-]+\.(py|md|json|css|js|txt|toml|csv|png)|[\w.-]+(/[\w.-]+)*/"
        named = [span for span in _spans(_read(page)) if re.fullmatch(path, span)]
        roots = [ROOT, page.parent, *([ROOT / "tests"] if page == SECURITY else [])]
        gone = [name for name in named if not any((root / name).exists() for root in roots)]
        assert [name for name in gone if Path(name).name not in NOT_OF_THE_PROJECT] == []


def test_every_module_that_a_page_names_takes_its_options() -> None:
    command = r"python -m ((?:tools|benchmarks)\.\w+)([^`#\n]*)"
    asked = [found for page in EVERY_PAGE for found in re.findall(command, _read(page))]
    assert asked
    for module, options in asked:
        source = _read(ROOT / f"{module.replace('.', '/')}.py")
        names = re.findall(r"--[a-z-]+", re.sub(r"\$\(.*?\)", "", options))
        assert [name for name in names if f'"{name}"' not in source] == []


# Options and exit codes


def _parsers(parser: ArgumentParser, name: str = "") -> dict[str, ArgumentParser]:
    """The parser of every command, with those of the commands below it, as it is typed."""
    found = {name: parser}
    for action in parser._actions:
        for below, its in (action.choices or {}).items() if action.nargs == PARSER else ():
            found |= _parsers(its, f"{name} {below}".strip())
    return found


PARSERS = _parsers(main.parser())


def _flags(command: str) -> list[list[str]]:
    """The long names of each option, the one to use first."""
    options = [action.option_strings for action in PARSERS[command]._actions if action.help != SUPPRESS]
    found = [[name for name in names if name.startswith("--")] for names in options]
    return [names for names in found if names and names != ["--help"]]


def test_every_option_of_a_command_stands_in_its_section() -> None:
    for command in COMMANDS:
        page, heading = COMMANDS[command]
        written = set(re.findall(r"`(--[a-z-]+)", _section(_text(page), heading)))
        assert [names[0] for names in _flags(command) if names[0] not in written] == []


def test_every_command_line_of_the_pages_can_be_typed() -> None:
    lines = [line for page in EVERY_PAGE for line in re.findall(r"python -m demo\b([^`#>|\n]*)", _read(page))]
    assert len(lines) > 20
    for line in lines:
        words = line.split()
        command = next((name for name in (" ".join(words[:2]), " ".join(words[:1])) if name in PARSERS), "")
        assert command or not words or words[0] in ("--help", "--version"), line
        given = {word for word in words if word.startswith("--")}
        assert given <= {"--help", "--version"}.union(*_flags(command)), line


# Settings


def _read_variables() -> set[str]:
    """Names of the environment variables that the program reads."""
    own = r"(WORTH_COMPILING_[A-Z_]+)"
    others = r"environ(?:ment)?(?:\.get\(|\[)\"([A-Z_]+)\"(?!\] =)"
    return {name for file in sources() for pattern in (own, others) for name in re.findall(pattern, _read(file))}


def test_every_environment_variable_is_explained() -> None:
    named = _read_variables() - OTHERS_VARIABLES
    assert {"WORTH_COMPILING_PIXELS", "SPACE_ID", "HF_ENDPOINT"} <= named
    assert [name for name in sorted(named) if f"`{name}`" not in _text("settings.md")] == []


def test_the_limits_have_the_defaults_of_the_table() -> None:
    rows = dict(re.findall(r"^\| `(WORTH_COMPILING_\w+)` \| ([^|]+) \|", _text("settings.md"), re.MULTILINE))
    for name, variable in limits.VARIABLES.items():
        assert rows[variable].split(",")[0].replace(" ", "") == str(getattr(limits.read({}), name))
    assert limits.read({"SPACE_ID": "a/b"}).sweep_cells == int(rows["WORTH_COMPILING_SWEEP_CELLS"].split()[-1])


# The API, exports, links of the page


def test_the_api_page_has_a_section_for_every_endpoint(tmp_path) -> None:
    history = History(tmp_path / "results.sqlite3")
    page = Page(FakeRunner(lambda spec, image: full_result()), history=history)
    endpoints = page.get_api_info()["named_endpoints"]
    assert {heading for heading in _headings(_text("api.md"), "##") if heading.startswith("/")} == set(endpoints)


def test_every_column_that_the_page_explains_is_exported() -> None:
    columns = export.to_bytes([], "csv").decode().strip().split(",")
    listed = "".join(
        re.findall(r"^- (?:.|\n(?!\n|- ))+", _section(_text("command-line.md"), "Columns of an export"), re.M)
    )
    assert _spans(listed) and [name for name in _spans(listed) if name not in columns] == []


def test_the_table_of_checkpoints_is_the_catalogue() -> None:
    lines = ["| Checkpoint | Task | Parameters | Input | Licence |", "|---|---|--:|--:|---|"]
    for checkpoint in catalog.CHECKPOINTS:
        name = f"`{checkpoint.id}`"
        if not checkpoint.bundled:
            name = f"[{name}](https://huggingface.co/{checkpoint.id})"
        height, width = checkpoint.input_size
        seen = f"{height} × {width}" if (height, width) != catalog.NO_PICTURE else "prompt"
        count = fmt.parameters(checkpoint.parameters)
        lines.append(f"| {name} | {checkpoint.task} | {count} | {seen} | {checkpoint.licence} |")
    table = "\n".join(lines) + "\n"
    assert table in _text("checkpoints.md"), f"The table of docs/checkpoints.md should read:\n{table}"


# Architecture and contributing


def test_the_picture_of_the_rooms_is_that_of_the_imports() -> None:
    picture = re.search(r"^```text\n(.*?)^```", _text("architecture.md"), re.MULTILINE | re.DOTALL)
    drawn: dict[int, set[str]] = {}
    for number, line in re.findall(r"^ +(\d) (.*)$", picture[1], re.MULTILINE):
        rooms = {(room or way_in).removesuffix(".py") for room, way_in in re.findall(r"demo/(\w+)|(app\.py)", line)}
        drawn.setdefault(int(number), set()).update(rooms)
    assert drawn == {number: rooms for number, rooms in enumerate(FLOORS, 1)}
