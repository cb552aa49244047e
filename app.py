"""Worth compiling? `python app.py` serves the page on http://127.0.0.1:7860.

GRADIO_SERVER_NAME and GRADIO_SERVER_PORT choose another address. On a Hugging Face Space it listens to everybody.
With --mcp the API is offered as MCP tools, too.
"""

import argparse
import sys

from demo.core.result import BadInput
from demo.ui.serve import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serves the page.")
    parser.add_argument("--mcp", action="store_true", help="offer the API as MCP tools, too; needs gradio[mcp]")
    try:
        main(parser.parse_args().mcp)
    except BadInput as error:
        print(error, file=sys.stderr)
        sys.exit(2)
