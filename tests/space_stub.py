"""A Hub on loopback that keeps Spaces: what huggingface_hub asks for to make one, commit files and choose hardware.

Read from huggingface_hub 2.4: paths, bodies and the fields of the answers that it uses. From memory of the Hub: the
words of its refusals, the two files of a new Space, and that it takes binary files by LFS. Not covered: Xet, by which
the library uploads those unless HF_HUB_DISABLE_XET is set.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_of_me"
OWNERS = ("me", "my-team")
FREE = "cpu-basic"


@dataclass
class Space:
    private: bool = False
    hardware: str = FREE
    variables: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=lambda: {".gitattributes": b"", "README.md": b"# New"})
    commits: list[list[str]] = field(default_factory=list)
    """Of each commit the operations, such as 'file app.py'."""


@dataclass
class Hub:
    address: str = ""
    spaces: dict[str, Space] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """Each request, as 'POST /api/repos/create'."""
    refuse: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Status and words by the last part of a path, such as 'hardware'."""


@contextmanager
def serve() -> Iterator[Hub]:
    hub = Hub()
    blobs: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self.answer()

        def do_POST(self) -> None:
            self.answer()

        def do_PUT(self) -> None:
            self.answer()

        def answer(self) -> None:
            path = self.path.partition("?")[0]
            hub.asked.append(f"{self.command} {path}")
            body = self.body()
            status, said = self.act(path, body)
            data = json.dumps({"error": said} if isinstance(said, str) else said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def act(self, path: str, body: bytes) -> tuple[int, Any]:
            if path.startswith("/lfs/"):
                blobs[path.removeprefix("/lfs/")] = body
                return 200, {}
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return 401, "Invalid username or password"
            for end, refusal in hub.refuse.items():
                if path.removesuffix("/main").endswith(f"/{end}"):
                    return refusal
            if path == "/api/validate-yaml":
                return 200, {"errors": [], "warnings": []}
            if path == "/api/repos/create":
                return self.create(json.loads(body))
            if path.endswith(".git/info/lfs/objects/batch"):
                return 200, {"objects": [self.wanted(one) for one in json.loads(body)["objects"]]}
            name, _, rest = path.removeprefix("/api/spaces/").replace("/", " ", 1).partition("/")
            name = name.replace(" ", "/")
            space = hub.spaces.get(name)
            if space is None:
                return 404, "Repository not found"
            if name.split("/")[0] not in OWNERS and (space.private or self.command != "GET"):
                return (404, "Repository not found") if space.private else (403, "You cannot write there")
            return self.of_space(name, space, rest, body)

        def create(self, given: dict[str, Any]) -> tuple[int, Any]:
            name = f"{given['organization']}/{given['name']}"
            assert (given["type"], given["sdk"]) == ("space", "gradio")
            if name in hub.spaces:
                return 409, {"error": "You already created this space repo", "url": f"{hub.address}/spaces/{name}"}
            if given["organization"] not in OWNERS:
                return (
                    403,
                    f'You don\'t have the rights to create a space under the namespace "{given["organization"]}"',
                )
            hub.spaces[name] = Space(given.get("visibility") == "private", given.get("hardware", FREE))
            return 200, {"url": f"{hub.address}/spaces/{name}"}

        def wanted(self, one: dict[str, Any]) -> dict[str, Any]:
            upload = {"actions": {"upload": {"href": f"{hub.address}/lfs/{one['oid']}"}}}
            return one | ({} if one["oid"] in blobs else upload)

        def of_space(self, name: str, space: Space, rest: str, body: bytes) -> tuple[int, Any]:
            runtime = {"stage": "RUNNING", "hardware": {"current": None, "requested": space.hardware}}
            match self.command, rest:
                case "GET", "" | "revision/main":
                    files = [{"rfilename": file} for file in space.files]
                    return 200, {
                        "id": name,
                        "private": space.private,
                        "sha": f"{len(space.commits):040x}",
                        "siblings": files,
                    }
                case "PUT", "settings":
                    space.private = json.loads(body)["visibility"] == "private"
                    return 200, {}
                case "POST", "hardware":
                    space.hardware = json.loads(body)["flavor"]
                    return 200, runtime
                case "GET", "runtime":
                    return 200, runtime
                case _, "variables":
                    if self.command == "POST":
                        given = json.loads(body)
                        space.variables[given["key"]] = given["value"]
                    return 200, {key: {"value": value} for key, value in space.variables.items()}
                case "POST", "preupload/main":
                    return 200, {"files": [self.mode(space, file) for file in json.loads(body)["files"]]}
                case "POST", "commit/main":
                    space.commits.append([self.apply(space, json.loads(line)) for line in body.splitlines()][1:])
                    commit = f"{len(space.commits):040x}"
                    return 200, {"commitUrl": f"{hub.address}/spaces/{name}/commit/{commit}", "commitOid": commit}
            return 404, f"not known to the stub: {self.command} {rest}"

        def mode(self, space: Space, file: dict[str, Any]) -> dict[str, Any]:
            binary = b"\0" in base64.b64decode(file["sample"])
            held = space.files.get(file["path"])
            oid = None
            if held is not None:
                oid = hashlib.sha256(held).hexdigest() if binary else _git_hash(held)
            return {
                "path": file["path"],
                "uploadMode": "lfs" if binary else "regular",
                "shouldIgnore": False,
                "oid": oid,
            }

        def apply(self, space: Space, line: dict[str, Any]) -> str:
            value = line["value"]
            match line["key"]:
                case "file":
                    space.files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    space.files[value["path"]] = blobs[value["oid"]]
                case "deletedFile":
                    del space.files[value["path"]]
            return f"{line['key']} {value.get('path')}"

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()  # else each test waits 0.5 s
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def _git_hash(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
