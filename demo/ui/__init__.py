"""The page. Imports gradio, so only `app.py` and whoever asked to serve comes here."""

import os

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # gradio reads it while it is imported
