"""`python -m demo serve`: the page, as `python app.py` opens it."""

from __future__ import annotations

import argparse
from typing import Any

from demo.cli.common import OK


def add_to(commands: Any) -> None:
    parser = commands.add_parser("serve", help="open the page, as `python app.py` does")
    parser.set_defaults(command=_serve)
    parser.add_argument("--mcp", action="store_true", help="offer the API as MCP tools, too; needs gradio[mcp]")


def _serve(options: argparse.Namespace) -> int:
    from demo.ui.server import serve

    serve(options.mcp)
    return OK
