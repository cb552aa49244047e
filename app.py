"""Worth compiling? `python app.py` serves the page on http://127.0.0.1:7860; a Hugging Face Space starts this file.

With --mcp the API is offered as MCP tools, too.
"""

from demo.__main__ import run

if __name__ == "__main__":
    run("serve")
