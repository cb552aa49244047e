"""Worth compiling? `python app.py` serves the page on http://127.0.0.1:7860; a Hugging Face Space starts this file.

With --mcp the API is offered as MCP tools, too.
"""

import argparse
import sys

from demo.core.spec import BadInput

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serves the page.")
    parser.add_argument("--mcp", action="store_true", help="offer the API as MCP tools, too; needs gradio[mcp]")
    try:
        from demo.ui.server import serve

        serve(parser.parse_args().mcp)
    except BadInput as error:
        print(error, file=sys.stderr)
        sys.exit(2)
