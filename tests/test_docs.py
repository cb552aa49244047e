"""Tests that the Markdown pages agree with the code: options, settings, exit codes, columns, figures, links, files."""

import re
from argparse import PARSER
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml
from huggingface_hub import SpaceHardware
from support.fake_runner import FakeRunner
from support.samples import full_result
from test_architecture import FLOORS, ROOT, pins, sources

from demo.cli import deploy_command, main
from demo.core import catalog, format as fmt, limits, quality
from demo.store import export, hub_dataset
from demo.store.history import FOLDER_VARIABLE, History
from demo.store.published import read_measured
from demo.ui.page import Page

README, SECURITY = ROOT / "README.md", ROOT / "SECURITY.md"
PAGES = [README, SECURITY, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
EVERY_PAGE = [*PAGES, *sorted((ROOT / "assets").rglob("*.md")), *sorted((ROOT / "benchmarks").rglob("*.md"))]
each_page = pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: str(page.relative_to(ROOT)))

COMMANDS = {
    "run": ("command-line.md", "run"),
    "list": ("command-line.md", "list, doctor, page"),
    "doctor": ("command-line.md", "list, doctor, page"),
    "page": ("command-line.md", "list, doctor, page"),
    "history": ("command-line.md", "history"),
    "published": ("command-line.md", "published"),
    "script": ("command-line.md", "script"),
    "sweep": ("sweeps.md", "sweep"),
    "shapes": ("ways-to-compile.md", "A log of sizes"),
    "best": ("best-way.md", "The best way"),
    "deploy": ("space.md", "Deploy"),
}
"""For each command: the page and the heading under which its options are described."""

NOT_OF_THE_PROJECT = {"summary.md", "gpu_evidence.md", "YOUR_PICTURE.png", "ID.png"}
"""Files named on the pages that are not in the project: written by a command, served by the page, or the reader's
own."""


def _read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _text(name: str) -> str:
    return _read(ROOT / "docs" / name)


def _prose(text: str) -> str:
    """Returns the text without code blocks, in which a `#` is no heading."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def _headings(text: str, level: str = "#+") -> list[str]:
    return re.findall(rf"^{level} (.+)$", _prose(text), re.MULTILINE)


def _anchor(heading: str) -> str:
    """Returns the anchor that GitHub and the Hub give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _section(text: str, heading: str) -> str:
    """Returns the text from a heading to the next heading of the same or a higher level."""
    title = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert title is not None, f"There is no heading {heading!r}"
    rest = text[title.end() :]
    end = re.search(rf"^#{{1,{len(title[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def _spans(text: str) -> list[str]:
    """Returns the texts in backquotes outside of code blocks."""
    return re.findall(r"`([^`\n]+)`", _prose(text))


def test_the_front_matter_fits_the_project() -> None:
    front = yaml.safe_load(_read(README).split("---")[1])  # what a Space reads
    assert front["sdk"] == "gradio"
    assert front["sdk_version"] == pins("requirements.txt")["gradio"]
    assert front["python_version"] == "3.12.12"  # ZeroGPU has this one and 3.10.13
    assert front["suggested_hardware"] in [hardware.value for hardware in SpaceHardware]
    # A duplicate gets requirements.txt as it is.
    assert deploy_command._requirements(front["suggested_hardware"]) == _read(ROOT / "requirements.txt")
    assert (ROOT / front["app_file"]).is_file()
    assert 0 < len(front["short_description"]) <= 60  # what a Space allows


# ---- every page


def test_the_pages_have_at_most_20_500_words() -> None:
    words = r"\S*\w\S*"  # the lines of a table and the dashes of a list are none
    assert sum(len(re.findall(words, _read(page))) for page in PAGES) <= 20_500


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_line_of_prose_has_at_most_120_characters(page: Path) -> None:
    prose = [line for line in _prose(_read(page)).splitlines() if not line.lstrip().startswith(("|", "!["))]
    assert [line for line in prose if len(line) > 120] == []


@pytest.mark.parametrize(
    ("page", "heading", "results"),
    [
        ("README.md", "A result", ("gpu_evidence", "default_run", "reruns", "ways", "best_way")),
        (
            "docs/measuring.md",
            "Figures of the protocol",
            ("reruns", "honesty", "rerun_honesty", "fidelity", "overhead"),
        ),
        ("docs/page.md", "Speed of the page", ("page_start",)),
        ("SECURITY.md", "Measured under load", ("load", "kills")),
    ],
)
def test_every_decimal_figure_was_measured(page: str, heading: str, results: tuple[str, ...]) -> None:
    def decimals(text: str) -> set[str]:
        return set(re.findall(r"\d+(?:\.\d+)+", text))

    measured = [decimals(_read(ROOT / "benchmarks" / "results" / f"{name}.md")) for name in results]
    figures = decimals(_section(_read(ROOT / page), heading))
    assert figures and figures - set().union(*measured) == set()


def test_a_cell_of_few_processes_says_so() -> None:
    """The table of a GPU in README.md: a speed-up of fewer than three processes may not hold in another process."""
    section = _section(_read(README), "A result")
    [table] = re.findall(r"\]\((assets/measured/\w+\.csv)\)", section)
    measured = {(row.checkpoint, row.mode): row for row in read_measured(ROOT / table) if row.batch_size == 1}
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    modes = [re.sub(r"mode ([\w-]+).*", r"\1", head) for head in lines[0][1:]]
    shown = {(line[0], mode): cell for line in lines[2:] for mode, cell in zip(modes, line[1:], strict=True)}
    assert len(shown) == 8
    rows = [measured[place] for place, cell in shown.items() if "×" in cell]
    for row in rows:
        assert fmt.ends(row.speedup_low, row.speedup_high) in shown[row.checkpoint, row.mode]
    few = any((row.repeats or 1) < quality.PROCESSES for row in rows)
    assert few == ("**one process** for each cell" in section)


def test_the_tests_of_a_gpu_are_counted_right() -> None:
    tests = re.findall(r"^def test_", _read(ROOT / "tests" / "gpu" / "test_on_a_gpu.py"), re.MULTILINE)
    assert f"Of the {len(tests)} tests in `tests/gpu`" in _text("gpu-evidence.md")


@each_page
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", _prose(_read(page))):
        path, _, anchor = unquote(link).partition("#")
        target = page.parent / path if path else page
        assert target.exists() and (not anchor or anchor in map(_anchor, _headings(_read(target)))), link


@each_page
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    path = r"[\w./-]+\.(py|md|json|css|js|txt|toml|csv|png)|[\w.-]+(/[\w.-]+)*/"
    names = [span for span in _spans(_read(page)) if re.fullmatch(path, span)]
    roots = [ROOT, page.parent, *([ROOT / "tests"] if page == SECURITY else [])]
    gone = [name for name in names if not any((root / name).exists() for root in roots)]
    assert {Path(name).name for name in gone} <= NOT_OF_THE_PROJECT


def test_every_module_that_a_page_names_takes_its_options() -> None:
    command = r"python3? -m ((?:tools|benchmarks)\.\w+)([^`#\n]*)"
    commands = [match for page in EVERY_PAGE for match in re.findall(command, _read(page))]
    assert commands
    for module, options in commands:
        source = _read(ROOT / f"{module.replace('.', '/')}.py")
        names = re.findall(r"--[a-z-]+", re.sub(r"\$\(.*?\)", "", options))
        assert [name for name in names if f'"{name}"' not in source] == []


# ---- options


[COMMAND] = [action for action in main.parser()._actions if action.nargs == PARSER]


def _flags(command: str) -> set[str]:
    return {flag for action in COMMAND.choices[command]._actions for flag in action.option_strings} - {"-h"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_stands_in_its_section(command: str) -> None:
    page, heading = COMMANDS[command]
    explained = re.findall(r"`(--[a-z-]+)", _section(_text(page), heading))
    assert _flags(command) - {"--help"} <= set(explained)


def test_every_command_line_of_the_pages_can_be_typed() -> None:
    lines = [line for page in EVERY_PAGE for line in re.findall(r"python -m demo\b([^`#>|\n]*)", _read(page))]
    assert len(lines) > 20
    for command, *words in filter(None, map(str.split, lines)):
        options = {word for word in words if word.startswith("--")}
        assert command in ("--help", "--version") or options <= _flags(command), (command, options)


# ---- settings


def test_every_environment_variable_is_explained() -> None:
    own = r"(WORTH_COMPILING_[A-Z_]+)"
    others = r"environ(?:ment)?(?:\.get\(|\[)\"([A-Z_]+)\"(?!\] =)"
    names = {name for file in sources() for pattern in (own, others) for name in re.findall(pattern, _read(file))}
    assert {"WORTH_COMPILING_PIXELS", "SPACE_ID", "HF_ENDPOINT"} <= names
    passed_on = {"PATH", "PYTHONPATH"}
    assert names - passed_on - set(_spans(_text("settings.md"))) == set()


def test_the_settings_are_those_of_the_page() -> None:
    named = {name for name in _spans(_text("settings.md")) if name.startswith(limits.PREFIX) and name != limits.PREFIX}
    assert named == {*limits.KNOWN_VARIABLES} and {hub_dataset.VARIABLE, FOLDER_VARIABLE} <= named


def test_the_limits_have_the_defaults_of_the_table() -> None:
    rows = dict(re.findall(r"^\| `(WORTH_COMPILING_\w+)` \| ([^|]+) \|", _text("settings.md"), re.MULTILINE))
    for name, variable in limits.VARIABLES.items():
        assert rows[variable].split(",")[0].replace(" ", "") == str(getattr(limits.limits_from({}), name))
    assert limits.limits_from({"SPACE_ID": "a/b"}).sweep_cells == int(rows["WORTH_COMPILING_SWEEP_CELLS"].split()[-1])


# ---- the API, exports, checkpoints, rooms


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
    lines = ["| Checkpoint | Task | Parameters | Input: height × width | Licence |", "|---|---|--:|--:|---|"]
    for checkpoint in catalog.CHECKPOINTS:
        name = f"`{checkpoint.id}`"
        if not checkpoint.bundled:
            name = f"[{name}](https://huggingface.co/{checkpoint.id})"
        height, width = checkpoint.input_size
        size = f"{height} × {width}" if (height, width) != catalog.NO_PICTURE else "a text prompt"
        count = fmt.parameters(checkpoint.parameters)
        lines.append(f"| {name} | {checkpoint.task} | {count} | {size} | {checkpoint.licence} |")
    table = "\n".join(lines) + "\n"
    assert table in _text("checkpoints.md"), f"The table of docs/checkpoints.md should read:\n{table}"


def test_the_picture_of_the_rooms_is_that_of_the_imports() -> None:
    picture = re.search(r"^```text\n(.*?)^```", _text("architecture.md"), re.MULTILINE | re.DOTALL)
    floors: dict[int, set[str]] = {}
    for number, line in re.findall(r"^ +(\d) (.*)$", picture[1], re.MULTILINE):
        floors.setdefault(int(number), set()).update(re.findall(r"(?<=demo/)\w+|app(?=\.py)|library(?=\.py)", line))
    assert floors == {number: rooms for number, rooms in enumerate(FLOORS, 1)}
