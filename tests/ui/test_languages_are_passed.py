"""A text of the page is in the visitor's language: no function of the page falls back to one."""

import ast
from collections.abc import Iterator
from pathlib import Path

UI = Path(__file__).resolve().parents[2] / "demo" / "ui"


def _defaults() -> Iterator[tuple[str, str]]:
    """The function and the name of each parameter that has a default, with the file."""
    for file in sorted(UI.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.Lambda):
                given = node.args
                positional = [*given.posonlyargs, *given.args]
                first = len(positional) - len(given.defaults)
                names = [one.arg for one in positional[first:]]
                names += [one.arg for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default]
                yield from ((f"{file.name}, line {node.lineno}", name) for name in names)


def test_no_parameter_of_the_page_has_a_language_or_a_request_by_default() -> None:
    defaults = list(_defaults())
    assert len(defaults) > 20
    assert [place for place, name in defaults if name in ("lang", "language", "request")] == []
