"""One option, one place: a copy of the program gets one more, declared in the table."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DECLARED = """    shiny: bool = switch("Polish every kernel.", fold="timing", timing=False)

    def __post_init__(self)"""
CHILD = """
import json
from demo.cli import sweep_command
from demo.cli.main import parser
from demo.cli import run_command
from demo.core.catalog import arguments, make_spec
from demo.core.codec import plain
from demo.core.spec import BadInput
from demo.core.spec import RunSpec
from demo.present import markdown
from demo.present.naming import settings as sentence
from demo.present.script import script
from demo.sweep.grid import read_grid
from support.fake_runner import FakeRunner
from demo.ui.tabs import compare
from demo.ui.page import Page
from demo.ui.tabs import form, links
from support.samples import ok_result

spec = make_spec("shapes-vit", shiny=True)
page = Page(FakeRunner(lambda spec, image: ok_result(spec=spec)))
fields = page.run_tab.form.inputs
values = {name: field.value for name, field in fields.items() if name != "image"}
taken = page.get_api_info()["named_endpoints"]["/benchmark"]["parameters"]
command = parser().parse_args(["run", "--checkpoint", "shapes-vit", "--shiny"])
cells = sweep_command.grid(parser().parse_args(["sweep", "--checkpoint", "shapes-vit", "--shiny"])).specs()
shared = read_grid({"checkpoints": "shapes-vit", "shiny": True}, "grid.yaml").specs()
try:
    refused = script(ok_result(spec=spec))
except BadInput as error:
    refused = str(error)
print(json.dumps({
    "json": plain(spec)["shiny"],
    "run": plain(run_command.make_spec(command, run_command.asked(command)))["shiny"],
    "sweep": [plain(cell)["shiny"] for cell in cells],
    "grid": [plain(cell)["shiny"] for cell in shared],
    "link": plain(links.spec_of({"shiny": "1"}, "shapes-vit"))["shiny"],
    "back": arguments(spec),
    "last field": [list(fields)[-1], type(fields["shiny"]).__name__],
    "form": plain(form.read_spec(values | {"shiny": True}))["shiny"],
    "filled": links.fill_form(page.run_tab.form, spec)[fields["shiny"]]["value"],
    "api": [one for one in taken if one["parameter_name"] == "shiny"],
    "words": sentence(spec),
    "markdown": markdown.of_run(ok_result(spec=spec)),
    "comparison": str(compare.lines([ok_result(), ok_result(spec=spec)])),
    "script": refused,
}))
"""


def test_a_new_option_reaches_every_way_of_asking_without_another_edit(tmp_path) -> None:
    """In a copy whose table has one more option."""
    shutil.copytree(ROOT / "demo", tmp_path / "demo", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    table = tmp_path / "demo" / "core" / "spec.py"
    declared = table.read_text(encoding="utf-8")
    assert declared.count("\n    def __post_init__(self)") == 1
    table.write_text(declared.replace("    def __post_init__(self)", DECLARED), encoding="utf-8")
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT / 'tests'}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert child.returncode == 0, child.stderr[-3000:]
    found: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    for way in ("json", "run", "link", "form", "filled"):
        assert found[way] is True, way
    assert found["grid"] == found["sweep"] == [True]
    assert found["back"] == {"checkpoint": "shapes-vit", "shiny": True}
    assert found["last field"] == ["shiny", "Checkbox"]
    (taken,) = found["api"]
    assert taken["type"] == {"type": "boolean"} and taken["parameter_default"] is False
    assert found["words"].endswith(" · shiny")
    assert "shiny" in found["markdown"]
    assert "Shiny" in found["comparison"]
    assert "does not apply the option shiny" in found["script"]
