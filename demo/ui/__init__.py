"""The page and the API. `serve` is the entry; everything else of this room imports gradio."""

import os
import tempfile
from pathlib import Path

# gradio reads both when it is imported
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
# A folder of our own: `gradio_workarounds.sweep` removes old files from it, which must not be another gradio app's.
os.environ.setdefault(
    "GRADIO_TEMP_DIR", str(Path(tempfile.gettempdir(), f"gradio-worth-compiling-{os.getuid()}").resolve())
)
