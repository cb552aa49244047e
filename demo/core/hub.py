"""Checks whether a checkpoint can be loaded, from the local cache or from the Hugging Face Hub."""

import os
import time
import urllib.error
import urllib.request
from functools import lru_cache
from pathlib import Path

PROBE_SECONDS = 2.0
CUDA_12_INDEX = "--extra-index-url https://download.pytorch.org/whl/cu126"
"""Line of a Space's requirements.txt: where torch's build for CUDA 12 is, which most of the Hub's GPUs need."""


def endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def can_load(checkpoint: str) -> bool:
    return holds_weights(checkpoint) or reachable()


def reachable() -> bool:
    """Returns whether the Hugging Face Hub replies; False if HF_HUB_OFFLINE is set. Asks it at most once a minute."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    return _replies(endpoint(), int(time.monotonic() / 60))  # unasked, `from_pretrained` would retry for some 26 s


@lru_cache(maxsize=8)
def _replies(address: str, minute: int) -> bool:
    """Returns whether the address replies. A reply is cached, but only for the same `minute`, a running number."""
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=PROBE_SECONDS).close()
    except urllib.error.HTTPError:  # an error page is a reply, too
        return True
    except (OSError, ValueError):
        return False
    return True


def holds_weights(checkpoint: str) -> bool:
    from huggingface_hub import constants  # here, because importing it takes some 60 ms

    folder = Path(constants.HF_HUB_CACHE) / f"models--{checkpoint.replace('/', '--')}"
    return any(folder.glob("snapshots/*/*.safetensors"))
