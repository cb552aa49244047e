"""A Hub on loopback: serves folders as repositories, and answers some ids with the Hub's failures."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from huggingface_hub import constants, hf_api

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FAILURES: dict[str, tuple[int, dict[str, str]]] = {
    "stub/missing": (404, {"X-Error-Code": "RepoNotFound"}),
    "stub/private": (401, {"X-Error-Code": "RepoNotFound"}),
    "stub/gated": (403, {"X-Error-Code": "GatedRepo"}),
    "google/gemma-2b": (401, {"X-Error-Code": "GatedRepo"}),
    "stub/busy": (429, {}),
    "stub/broken": (500, {}),
}


def _blob(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()


def _commit(folder: Path) -> str:
    """Changes with every file of a dataset."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return hashlib.sha1("".join(f"{file} {_blob(file)}" for file in files).encode()).hexdigest()


@contextmanager
def serve(repositories: dict[str, Path], fetched: list[str] | None = None) -> Iterator[str]:
    """The address of a stub that serves each id from its folder, as huggingface_hub asks for files.

    The id of a dataset begins with `datasets/`; its commit changes with its files.
    `fetched` takes the path of each file whose bytes were asked for.
    """

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, body: bool) -> None:
            parts = unquote(self.path.partition("?")[0]).strip("/").split("/")
            if parts[:2] == ["api", "datasets"]:
                name, rest = "/".join(parts[1:4]), ["api", *parts[4:]]
            elif parts[0] == "datasets":
                name, rest = "/".join(parts[:3]), parts[3:]
            elif parts[:2] == ["api", "models"]:
                name, rest = "/".join(parts[2:4]), ["api", *parts[4:]]
            else:
                name, rest = "/".join(parts[:2]), parts[2:]
            if name in FAILURES:
                status, headers = FAILURES[name]
                self.reply(status, b"no", headers, body)
            elif name not in repositories:
                self.reply(404, b"no such repository", {"X-Error-Code": "RepoNotFound"}, body)
            elif rest[:1] == ["api"] and name.startswith("datasets/"):
                self.answer_of_dataset(repositories[name], name.removeprefix("datasets/"), rest[1:], body)
            elif rest[:1] == ["api"]:
                files = [{"rfilename": file.name, "size": file.stat().st_size} for file in repositories[name].iterdir()]
                if rest[1:2] == ["tree"]:
                    tree = [{"type": "file", "path": file["rfilename"], "size": 1, "oid": "0"} for file in files]
                    self.reply(200, json.dumps(tree).encode(), {}, body)
                else:
                    self.reply(200, json.dumps({"id": name, "sha": COMMIT, "siblings": files}).encode(), {}, body)
            else:
                file = repositories[name].joinpath(*rest[2:])
                outdated = name.startswith("datasets/") and rest[1] not in ("main", _commit(repositories[name]))
                if rest[:1] != ["resolve"] or outdated or not file.is_file():
                    self.reply(404, b"no such file", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}, body)
                else:
                    if body and fetched is not None:
                        fetched.append(f"{name}/{file.name}")
                    size = file.stat().st_size
                    tag, commit = hashlib.sha256(f"{file} {size}".encode()).hexdigest()[:40], COMMIT
                    if name.startswith("datasets/"):
                        tag, commit = _blob(file), _commit(repositories[name])
                    data = file.read_bytes() if body else b""
                    headers = {"ETag": f'"{tag}"', "X-Repo-Commit": commit}
                    self.reply(200, data, headers, body, size)

        def answer_of_dataset(self, folder: Path, id: str, asked: list[str], body: bool) -> None:
            """What a dataset is, and its files."""
            commit = _commit(folder)
            if asked in ([], ["revision", "main"], ["revision", commit]):
                files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
                named = [{"rfilename": str(file.relative_to(folder)), "size": file.stat().st_size} for file in files]
                told = {"id": id, "sha": commit, "siblings": named}
                self.reply(200, json.dumps(told).encode(), {}, body)
            else:
                self.reply(404, b"{}", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}, body)

        def reply(self, status: int, data: bytes, headers: dict[str, str], body: bool, size: int | None = None) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(data) if size is None else size))
            self.end_headers()
            if body:
                self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def taken_for_the_hub(address: str, cache: Path) -> Iterator[None]:
    """Within it this process asks `address` for files, and keeps them in `cache`, as if HF_ENDPOINT had been set."""
    from transformers.utils import hub  # here: other tests have no use for it

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", address)
        patch.setattr(constants, "ENDPOINT", address)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
        patch.setattr(constants, "HF_HUB_CACHE", str(cache))
        patch.setattr(hf_api.api, "endpoint", address)
        patch.setattr(hub, "_hf_api", None, raising=False)  # else that of the stub before
        yield
