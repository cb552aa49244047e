"""One run from inside: the only room that imports torch and transformers. Other rooms start it by name as a process.

Importing any module of it sets the defaults of a process's environment, before the libraries read them.
"""

import os

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
# Without it transformers sends the id of a model in pickle, and the user's token, to a service that converts it.
os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"
