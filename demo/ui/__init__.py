"""The page and the API. `serve` is the entry; everything else of this room imports gradio."""

import os
import tempfile
from pathlib import Path

# gradio reads both when it is imported
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
# a folder for each user: gradio's own belongs to the first who started an app on this machine
os.environ.setdefault(
    "GRADIO_TEMP_DIR", str(Path(tempfile.gettempdir(), f"gradio-worth-compiling-{os.getuid()}").resolve())
)
