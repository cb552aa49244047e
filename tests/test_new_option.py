"""Tests that a new option is added in one place: a copy of the program gets one more line in its table of options."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DECLARED = """    shiny: bool = switch("Polish every kernel.", fold="timing", timing=False)

    def __post_init__(self)"""
CHECKS = """
import pytest
from demo.cli import common, run_command, sweep_command
from demo.cli.main import parser
from demo.core.catalog import arguments, make_spec
from demo.core.codec import plain
from demo.core.options import BadInput
from demo.present import markdown, naming
from demo.present.report import Report
from demo.present.script import script
from demo.sweep.grid import make_specs
from demo.ui.page import Page
from demo.ui.tabs import compare, form, links
from support.fake_runner import FakeRunner
from support.samples import ok_result

spec = make_spec("shapes-vit", shiny=True)
result = ok_result(spec=spec)
assert plain(spec)["shiny"] is True
assert arguments(spec) == {"checkpoint": "shapes-vit", "shiny": True}

# the command line, a grid, a link
command = parser().parse_args(["run", "--shiny"])
assert common.spec_of_options(command, run_command.run_options(command)) == spec
options = parser().parse_args(["sweep", "--checkpoint", "shapes-vit", "--shiny"])
assert sweep_command.grid_specs(options) == make_specs({"checkpoints": "shapes-vit", "shiny": True}) == (spec,)
assert links.spec_of({"shiny": "1"}, "shapes-vit") == spec

# the form and the API
page = Page(FakeRunner(lambda spec, image: result))
fields = page.run_tab.form.inputs
assert [*fields][-1] == "shiny" and type(fields["shiny"]).__name__ == "Checkbox"
values = {name: field.value for name, field in fields.items() if name != "image"}
assert form.read_spec(values | {"shiny": True}).shiny is True
assert links.fill_form(page.run_tab.form, spec)[fields["shiny"]]["value"] is True
arguments_of_api = page.get_api_info()["named_endpoints"]["/benchmark"]["parameters"]
(argument,) = [one for one in arguments_of_api if one["parameter_name"] == "shiny"]
assert argument["type"] == {"type": "boolean"} and argument["parameter_default"] is False

# what is said of a run
assert naming.settings(spec).endswith(" · shiny")
assert "shiny" in markdown.of_run(Report(result))
assert "Shiny" in str(compare.rows([Report(ok_result()), Report(result)]))
with pytest.raises(BadInput, match="does not apply the option shiny"):
    script(Report(result))
"""


def test_a_new_option_is_known_wherever_one_is_asked_for_or_shown(tmp_path) -> None:
    shutil.copytree(ROOT / "demo", tmp_path / "demo", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    table = tmp_path / "demo" / "core" / "options.py"
    fields, after = table.read_text("utf-8").split("    def __post_init__(self)")
    table.write_text(f"{fields}{DECLARED}{after}", "utf-8")
    (tmp_path / "checks.py").write_text(CHECKS, "utf-8")
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT / 'tests'}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    command = [sys.executable, "checks.py"]
    child = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment)
    assert child.returncode == 0, child.stderr[-3000:]
