"""The page and the API. `server.serve` starts both."""

import os
import tempfile
from pathlib import Path

# set here, before any import of gradio, which reads both variables as it is imported
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
# a folder for each user: gradio's default folder belongs to the first user who started a gradio app on this machine
os.environ.setdefault(
    "GRADIO_TEMP_DIR", str(Path(tempfile.gettempdir(), f"gradio-worth-compiling-{os.getuid()}").resolve())
)
