"""Asks the Hugging Face Hub, says why it does not reply, and whether the local cache has a checkpoint's weights."""

import base64
import http.client
import os
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from . import format as fmt

T = TypeVar("T")

PROBE_SECONDS = 2.0
CUDA_12_INDEX = "--extra-index-url https://download.pytorch.org/whl/cu126"
"""Line of a Space's requirements.txt that makes pip find torch's build for CUDA 12. Most GPUs of Spaces need it."""
OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


class Trouble(NamedTuple):
    """The reason why the Hub does not reply, and a remedy."""

    reason: str
    """A clause: 'HF_HUB_OFFLINE is set'."""
    remedy: str
    """What to do, as a clause: 'unset it'. Callers may add 'or ...' to it."""


def endpoint() -> str:
    """Returns the address of the Hub. It may contain a login: `shown_endpoint` is for texts."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def shown_endpoint() -> str:
    """Returns the address of the Hub without a login that it may contain, for links and messages."""
    return _without_login(endpoint())


def _without_login(address: str) -> str:
    bare = fmt.without_secrets(address)
    return bare if "://" in bare else bare.rpartition("@")[2]  # someone forgot https://


class NoAnswer(OSError):
    """The Hub did not do what was asked of it. The message says why."""


def ask(question: Callable[[], T], seconds: float) -> T:
    """Calls `question`, which asks the Hub through its library, and returns the result of `question`.

    Raises NoAnswer if the Hub does not reply, for every error of `question`, and after `seconds`.

    - The Hub's address is tried first, because the library would retry for some 25 s.
    - Every error is caught, because the library's errors have no base class of their own.
    - `question` runs in a thread that ends with the program: most calls of the library have no time limit.
    """
    if trouble := problem():
        raise NoAnswer(f"{trouble.reason}: {trouble.remedy}")
    answer: Future[T] = Future()

    def put_question() -> None:
        try:
            answer.set_result(question())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=put_question, daemon=True).start()
    try:
        return answer.result(seconds)
    except Exception as error:
        late = "" if answer.done() else f"it did not answer within {seconds:.0f} s"
        raise NoAnswer(late or fmt.without_secrets(str(error)) or type(error).__name__) from error


def can_load(checkpoint: str) -> bool:
    return holds_weights(checkpoint) or reachable()


def reachable() -> bool:
    return problem() is None


def problem() -> Trouble | None:
    """Returns why the Hugging Face Hub does not reply; None if it does. The Hub is asked at most once a minute."""
    for variable in OFFLINE_VARIABLES:
        if os.environ.get(variable, "").upper() in ("1", "ON", "YES", "TRUE"):
            return Trouble(f"{variable} is set", "unset it")
    return _trouble(endpoint(), int(time.monotonic() / 60))  # unasked, `from_pretrained` would retry for some 26 s


@lru_cache(maxsize=8)
def _trouble(address: str, minute: int) -> Trouble | None:
    """Returns why the server at `address` does not reply; None if it does.

    `minute` (a count of minutes) is only part of the cache's key: with a new `minute` the server is asked again.
    """
    bare = _without_login(address)
    try:
        if urlsplit(bare).scheme not in ("http", "https"):
            raise ValueError
        login = urlsplit(address).netloc.rpartition("@")[0]  # `urlopen` would take it for a part of the host's name
        basic = {"Authorization": f"Basic {base64.b64encode(unquote(login).encode()).decode()}"} if login else {}
        urllib.request.urlopen(
            urllib.request.Request(bare, headers=basic, method="HEAD"), timeout=PROBE_SECONDS
        ).close()
    except urllib.error.HTTPError as error:  # an error page is a reply, unless a proxy wrote it
        return _through_proxy(bare, "asks for a login") if error.code == 407 else None
    except (ValueError, http.client.InvalidURL):
        return Trouble(f"HF_ENDPOINT is {fmt.excerpt(bare)}", "give it an address that begins with https://")
    except (OSError, http.client.HTTPException) as error:
        return _cause(bare, getattr(error, "reason", error))
    return None


def _cause(address: str, reason: object) -> Trouble:
    if isinstance(reason, ssl.SSLCertVerificationError):
        what = f"its certificate is not trusted here ({reason.verify_message})"
        return Trouble(what, "set SSL_CERT_FILE to a file with the certificates that your network uses")
    if proxy := _through_proxy(address, "does not let it through"):
        return proxy
    if isinstance(reason, socket.gaierror):
        return Trouble(f"the name {urlsplit(address).hostname} is not found", "check the network")
    return Trouble("it does not answer", "try again later")


def _through_proxy(address: str, fails: str) -> Trouble | None:
    """Returns a `Trouble` that blames the proxy set for `address`; None if requests to `address` use no proxy.

    `fails`: what the proxy does, as a clause: "asks for a login".
    """
    parts = urlsplit(address)
    if parts.scheme not in urllib.request.getproxies() or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return Trouble(f"the proxy that {parts.scheme.upper()}_PROXY names {fails}", "correct or unset that variable")


def token_source() -> str:
    """Returns the name of the environment variable that holds the Hub's token; '' if none does.

    If '' is returned, a file may still hold a token, which `hf auth login` stored.
    """
    return next((variable for variable in TOKEN_VARIABLES if os.environ.get(variable)), "")


def holds_weights(checkpoint: str) -> bool:
    from huggingface_hub import constants  # here, because importing it takes some 60 ms

    folder = Path(constants.HF_HUB_CACHE) / f"models--{checkpoint.replace('/', '--')}"
    return any(folder.glob("snapshots/*/*.safetensors"))
