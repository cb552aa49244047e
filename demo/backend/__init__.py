"""The code of a worker: the process that does one run. Only this package imports torch and transformers.

The environment variables are set here, before torch and transformers read them.
"""

import os

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
# Without it transformers sends the id of a model in pickle, and the user's token, to a service that converts it.
os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"
