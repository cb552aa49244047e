"""What others rely on, held against fixtures of November 2026: API, JSON, columns and the command line."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.fake_runner import FakeRunner
from support.samples import BOXES, SEGMENTS, failed_result, full_result, ok_result

from demo.cli.main import main
from demo.core.result_json import to_json
from demo.store import export
from demo.sweep import grid
from demo.sweep.grid import Cell
from demo.ui.page import Page

FIXTURES = Path(__file__).parent / "fixtures" / "interfaces"
KNOWN = json.loads((FIXTURES / "interfaces_v1.json").read_text(encoding="utf-8"))
RUNNER = FakeRunner(lambda spec, image: ok_result(spec=spec))


def kinds(data: Any, path: str = "") -> dict[str, str]:
    """The type of every value by its path; of a list the first item stands for all."""
    if isinstance(data, dict):
        return {key: kind for name, value in data.items() for key, kind in kinds(value, f"{path}.{name}").items()}
    if isinstance(data, list) and data:
        return kinds(data[0], f"{path}[]")
    return {path.lstrip("."): type(data).__name__}


def test_the_api_is_described_byte_for_byte_as_it_was_and_new_arguments_stand_behind() -> None:
    known = json.loads((FIXTURES / "api_v1.json").read_text(encoding="utf-8"))
    page = Page(RUNNER)
    now = page.get_api_info()
    page.close(verbose=False)
    old, new = (one["named_endpoints"]["/benchmark"]["parameters"] for one in (known, now))
    added = new[len(old) :]
    del new[len(old) :]
    now["named_endpoints"] = {name: now["named_endpoints"][name] for name in known["named_endpoints"]}
    assert json.dumps(now) == json.dumps(known)
    assert all(one["parameter_has_default"] for one in added)


def test_no_key_of_a_result_is_lost_or_changes_its_type() -> None:
    for name, result in {
        "full": full_result(),
        "failed": failed_result(),
        "boxes": ok_result(predictions={"eager": BOXES, "compiled": BOXES}),
        "segments": ok_result(predictions={"eager": SEGMENTS, "compiled": SEGMENTS}),
    }.items():
        now, known = kinds(to_json(result)), KNOWN["result"][name]
        assert {path: now.get(path) for path in known} == known


def test_no_column_of_an_export_is_lost_and_their_order_stays() -> None:
    known = KNOWN["columns"]
    kept = {name: str(kind) for name, kind in export.table([full_result()]).dtypes.items() if name in known["runs"]}
    assert list(kept.items()) == list(known["runs"].items())
    sweep = grid.record(Cell(full_result().spec, full_result()))
    assert set(known["sweep"]) <= set(sweep)


def test_every_option_of_a_command_is_still_listed(capsys) -> None:
    for command, options in KNOWN["help"].items():
        with pytest.raises(SystemExit):
            main([*command.split(), "--help"])
        listed = re.findall(r"(?<![\w-])--[a-z][a-z-]*", capsys.readouterr().out)
        assert set(options) <= set(listed), command
