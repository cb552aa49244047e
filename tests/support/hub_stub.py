"""A stub of the Hugging Face Hub on 127.0.0.1, which serves folders as repositories.

The id of a dataset begins with 'datasets/'. The stub fails for the ids in `FAILURES` and refuses the token
`REFUSED_TOKEN` for all. Ids in `RENAMED` have a new name."""

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

FAILURES: dict[str, tuple[int, dict[str, str]]] = {
    "stub/missing": (404, {"X-Error-Code": "RepoNotFound"}),
    "stub/gated": (403, {"X-Error-Code": "GatedRepo"}),
    "google/gemma-2b": (401, {"X-Error-Code": "GatedRepo"}),
    "stub/broken": (500, {}),
    "stub/forbidden": (403, {"X-Error-Message": "Please enable access to gated repositories in your token settings."}),
    "stub/busy": (429, {}),
}
REFUSED_TOKEN = "hf_refused"
RENAMED = {"stub/old": "stub/good"}


def _tag(file: Path) -> str:
    return hashlib.sha1(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}".encode()).hexdigest()


@contextmanager
def serve(repositories: dict[str, Path], fetched: list[str] | None = None) -> Iterator[str]:
    """Yields the address of a stub that serves each repository id from its folder, as huggingface_hub needs it.

    The commit of a repository changes with its files. The stub appends each file that is downloaded to `fetched`."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, body: bool) -> None:
            parts = unquote(self.path.partition("?")[0]).strip("/").split("/")
            about = parts[0] == "api"
            parts = parts[2:] if parts[:2] == ["api", "models"] else parts[about:]
            length = 3 if parts[0] == "datasets" else 2
            name, rest = "/".join(parts[:length]), parts[length:]
            if name in RENAMED:
                return self.reply(307, b"", {"Location": self.path.replace(name, RENAMED[name])}, body)
            if (self.headers.get("Authorization") or "").endswith(REFUSED_TOKEN):
                return self.reply(401, b"", {"X-Error-Message": "Invalid credentials in Authorization header"}, body)
            if name in FAILURES:
                status, headers = FAILURES[name]
                return self.reply(status, b"no", headers, body)
            if name not in repositories:
                return self.reply(404, b"no such repository", {"X-Error-Code": "RepoNotFound"}, body)
            folder = repositories[name]
            files = {str(file.relative_to(folder)): file for file in sorted(folder.rglob("*")) if file.is_file()}
            commit = hashlib.sha1("".join(map(_tag, files.values())).encode()).hexdigest()
            file = files.get("/".join(rest[2:]))
            if about and rest[:1] == ["tree"] and rest[2:]:
                inside = sorted((folder / "/".join(rest[2:])).glob("*"))
                tree = [
                    {"type": "file" if entry.is_file() else "directory", "path": str(entry.relative_to(folder))}
                    | {"size": entry.stat().st_size, "oid": _tag(entry)}
                    for entry in inside
                ]
                self.reply(200, json.dumps(tree).encode(), {}, body)
            elif about and rest[:1] == ["tree"]:
                tree = [{"type": "file", "path": path, "size": 1, "oid": "0"} for path in files]
                self.reply(200, json.dumps(tree).encode(), {}, body)
            elif about:
                listed = [{"rfilename": path, "size": file.stat().st_size} for path, file in files.items()]
                description = {"id": name, "sha": commit, "siblings": listed}
                self.reply(200, json.dumps(description).encode(), {}, body)
            elif rest[:1] != ["resolve"] or file is None:
                self.reply(404, b"no such file", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}, body)
            else:
                if body and fetched is not None:
                    fetched.append(f"{name}/{file.name}")
                headers = {"ETag": f'"{_tag(file)}"', "X-Repo-Commit": commit}
                self.reply(200, file.read_bytes() if body else b"", headers, body, file.stat().st_size)

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
    """Makes huggingface_hub in this process ask `address` for files and keep them in `cache`, within the context."""
    from transformers.utils import hub  # here, since other tests need not wait for the import

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", address)
        patch.setattr(constants, "ENDPOINT", address)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
        patch.setattr(constants, "HF_HUB_CACHE", str(cache))
        patch.setattr(hf_api.api, "endpoint", address)
        patch.setattr(hub, "_hf_api", None, raising=False)  # else transformers goes on asking the previous stub
        yield
