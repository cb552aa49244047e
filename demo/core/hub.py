"""Whether the Hugging Face Hub can be reached: one short request, its answer kept for a minute."""

import os
import time
import urllib.error
import urllib.request
from functools import lru_cache
from pathlib import Path

PROBE_SECONDS = 2.0
REMEMBER_SECONDS = 60.0


def endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def can_load(checkpoint: str) -> bool:
    """Whether a checkpoint's weights lie in the local cache, or the Hub answers."""
    return holds_weights(checkpoint) or reachable()


def reachable() -> bool:
    """Whether anything answers at the Hub's address, within 2 s: `from_pretrained` would retry for some 26 s."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    return _answers(endpoint(), int(time.monotonic() / REMEMBER_SECONDS))


@lru_cache(maxsize=8)
def _answers(address: str, minute: int) -> bool:
    """Not covered: a name server that does not answer, for which the system waits longer."""
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=PROBE_SECONDS).close()
    except urllib.error.HTTPError:  # an answer, too
        return True
    except (OSError, ValueError):
        return False
    return True


def holds_weights(checkpoint: str) -> bool:
    """True where the local cache holds safetensors of this model: it can be run without a network."""
    from huggingface_hub import constants  # here, because importing it takes some 60 ms

    folder = Path(constants.HF_HUB_CACHE) / f"models--{checkpoint.replace('/', '--')}"
    return any(folder.glob("snapshots/*/*.safetensors"))
