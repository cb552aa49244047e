"""Whether a checkpoint can be loaded: from the local cache, or from the Hugging Face Hub if it answers."""

import os
import time
import urllib.error
import urllib.request
from functools import lru_cache
from pathlib import Path

PROBE_SECONDS = 2.0


def endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def can_load(checkpoint: str) -> bool:
    """Whether a checkpoint's weights lie in the local cache, or the Hub answers."""
    return holds_weights(checkpoint) or reachable()


def reachable() -> bool:
    """Whether the Hub answers, asked at most once a minute: `from_pretrained` would retry for some 26 s."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    return _answers(endpoint(), int(time.monotonic() / 60))


@lru_cache(maxsize=8)
def _answers(address: str, minute: int) -> bool:
    """Within `PROBE_SECONDS`, except that the system waits longer for a name server that does not answer."""
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=PROBE_SECONDS).close()
    except urllib.error.HTTPError:  # an answer, too
        return True
    except (OSError, ValueError):
        return False
    return True


def holds_weights(checkpoint: str) -> bool:
    """Whether the local cache has safetensors of this model: it can be run without a network."""
    from huggingface_hub import constants  # here, because importing it takes some 60 ms

    folder = Path(constants.HF_HUB_CACHE) / f"models--{checkpoint.replace('/', '--')}"
    return any(folder.glob("snapshots/*/*.safetensors"))
