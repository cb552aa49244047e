"""`deploy`: what it asks of the Hub's library, and what is said where something is in the way."""

import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import huggingface_hub
import pytest
from huggingface_hub import CommitOperationDelete, HfApi
from support.command_line import ROOT

from demo.cli import deploy_command
from demo.cli.common import BAD_INPUT, FAILED, OK
from demo.cli.main import main
from demo.core import catalog
from demo.store import hub_dataset

TREE = {
    "app.py": b"print('page')\n",
    "README.md": b"# A project\n",
    "requirements.txt": b"gradio\n",
    "demo/__init__.py": b"",
    "demo/cli/main.py": b"pass\n",
    "assets/weights.bin": bytes(range(256)) * 40,
    "docs/page.md": b"# Page\n",
}
ELSEWHERE = dict.fromkeys(("tests/test_app.py", "benchmarks/sweep.py", "pyproject.toml"), b"")
"""Files of a tree that do not belong on a Space."""
HUBS = {".gitattributes": b""}
"""What the Hub puts into a Space, and stays."""
FREE = "cpu-basic"


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """A small project in place of this one; git tracks all that is in it."""
    folder = tmp_path / "project"
    for name, data in (TREE | ELSEWHERE).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    subprocess.run(["git", "add", "--force", "."], cwd=folder, check=True)
    monkeypatch.setattr(deploy_command, "ROOT", folder)
    return folder


class Hub:
    """One Space in memory behind a stub of `HfApi`; a call that the real one does not take is a TypeError."""

    def __init__(self) -> None:
        self.exists = self.private = False
        self.hardware, self.commits = FREE, 0
        self.variables: dict[str, str] = {}
        self.files = {".gitattributes": b"", "README.md": b"# New"}
        self.api = mock.create_autospec(HfApi, instance=True)
        for name in vars(Hub).keys() & vars(HfApi).keys():
            if not name.startswith("_"):
                getattr(self.api, name).side_effect = getattr(self, name)

    @property
    def settings(self) -> tuple[bool, str, dict[str, str]]:
        return self.private, self.hardware, self.variables

    def create_repo(self, space: str, space_hardware: str | None, private: bool | None, **more: Any) -> None:
        assert more == {"repo_type": "space", "space_sdk": "gradio", "exist_ok": True}
        if not self.exists:
            self.exists, self.private, self.hardware = True, bool(private), space_hardware or FREE

    def space_info(self, space: str) -> Any:
        files = [SimpleNamespace(rfilename=name) for name in self.files]
        return SimpleNamespace(private=self.private, siblings=files)

    def update_repo_settings(self, space: str, repo_type: str, private: bool) -> None:
        self.private = private

    def add_space_variable(self, space: str, key: str, value: str) -> None:
        self.variables[key] = value

    def get_space_runtime(self, space: str) -> Any:
        return SimpleNamespace(hardware=None, requested_hardware=self.hardware)

    def request_space_hardware(self, space: str, hardware: str) -> None:
        self.hardware = hardware

    def create_commit(self, space: str, operations: list[Any], commit_message: str, repo_type: str) -> None:
        self.commits += 1
        for one in operations:
            if isinstance(one, CommitOperationDelete):
                del self.files[one.path_in_repo]
            else:
                with one.as_file() as file:
                    self.files[one.path_in_repo] = file.read()


@pytest.fixture
def hub(monkeypatch) -> Hub:
    made = Hub()
    monkeypatch.delenv(hub_dataset.VARIABLE, raising=False)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda endpoint: made.api)
    return made


def test_a_new_space_gets_the_files_that_belong_there(tree: Path, hub: Hub, capsys) -> None:
    (tree / "demo" / "scratch.py").write_text("untracked")
    (tree / "app.py").write_bytes(b"print('changed, not committed')\n")
    os.symlink("/etc", tree / "docs" / "link")
    subprocess.run(["git", "add", "--force", "docs/link"], cwd=tree, check=True)
    (tree / "docs" / "page.md").unlink()
    assert main(["deploy", "me/bench"]) == OK
    assert hub.files == {name: (tree / name).read_bytes() for name in TREE if name != "docs/page.md"} | HUBS
    assert (*hub.settings, hub.commits) == (False, FREE, {}, 1)
    output = capsys.readouterr()
    assert output.out.endswith("/spaces/me/bench\n") and "6 files, 0.01 MB" in output.err


def test_a_new_space_is_made_with_its_settings(tree: Path, hub: Hub, monkeypatch, capsys) -> None:
    monkeypatch.setenv(hub_dataset.VARIABLE, "me/results")
    command = ["deploy", "my-team/bench", "--hardware", "t4-small", "--private"]
    assert main([*command, "--dry-run"]) == OK and hub.api.mock_calls == []
    output = capsys.readouterr()
    for fact in ("/spaces/my-team/bench", "t4-small", "private", f"{hub_dataset.VARIABLE}=me/results"):
        assert fact in output.out
    assert "7 files, 0.01 MB" in output.err
    assert main(command) == OK
    assert hub.settings == (True, "t4-small", {hub_dataset.VARIABLE: "me/results"})
    assert not hub.api.request_space_hardware.called  # it was made so


def test_a_second_deploy_changes_only_what_is_asked_for(tree: Path, hub: Hub) -> None:
    hub.exists, hub.private, hub.hardware = True, True, "a10g-small"
    hub.variables = {"WORTH_COMPILING_BATCH": "8"}
    hub.files |= TREE | {"demo/old.py": b"old"}
    (tree / "docs" / "page.md").write_bytes(b"# New page\n")
    assert main(["deploy", "me/bench"]) == OK
    assert hub.files == TREE | HUBS | {"docs/page.md": b"# New page\n"}
    assert hub.settings == (True, "a10g-small", {"WORTH_COMPILING_BATCH": "8"})
    hub.private = False
    assert main(["deploy", "me/bench", "--private", "--hardware", "l4x1"]) == OK
    assert hub.settings[:2] == (True, "l4x1")


FOR_CUDA_12 = "--extra-index-url https://download.pytorch.org/whl/cu126\ntorch==2.13.0+cu126"


@pytest.mark.parametrize(
    ("hardware", "torch"),
    [
        ("cpu-basic", "torch==2.13.0"),
        ("rtx-pro-6000x2", "torch==2.13.0"),
        ("zero-a10g", "torch==2.11.0"),
        ("t4-small", FOR_CUDA_12),
        ("l40sx4", FOR_CUDA_12),
        ("h100x8", FOR_CUDA_12),
    ],
)
def test_a_space_gets_the_torch_that_suits_its_hardware(hardware: str, torch: str, tree: Path, hub: Hub) -> None:
    (tree / "requirements.txt").write_bytes(b"gradio\ntorch==2.13.0\ntransformers==5\n")
    for options in (["--hardware", hardware], []):  # the second time it is the hardware that the Space has
        assert main(["deploy", "me/bench", *options]) == OK
        assert hub.files["requirements.txt"] == f"gradio\n{torch}\ntransformers==5\n".encode()


def test_a_space_with_something_else_is_left_as_it_is(tree: Path, hub: Hub, capsys) -> None:
    hub.exists = True
    hub.files["chat.py"] = b"mine"
    assert main(["deploy", "me/chat", "--private", "--hardware", "l4x1"]) == BAD_INPUT
    assert "me/chat holds something else, such as chat.py" in capsys.readouterr().err
    assert (*hub.settings, hub.commits) == (False, FREE, {}, 0)


def test_an_error_of_the_hub_has_its_way_out(tree: Path, hub: Hub, capsys) -> None:
    hub.api.create_repo.side_effect = OSError("401: Not\r\nyou")
    assert main(["deploy", "me/bench"]) == FAILED
    output = capsys.readouterr()
    assert output.out == "" and "OSError: 401: Not you. Check the network, the login" in output.err


@pytest.mark.parametrize("space", ["bench", "../bench", "me/\x1b[31m"])
def test_a_name_that_the_hub_does_not_allow_is_refused(space: str, tree: Path, hub: Hub, capsys) -> None:
    assert main(["deploy", space]) == BAD_INPUT
    err = capsys.readouterr().err
    assert "OWNER/NAME" in err and "\x1b" not in err and hub.api.mock_calls == []


def test_this_projects_own_list_has_what_the_page_needs() -> None:
    files = deploy_command._files()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = {link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", readme)}
    needed = links - {"benchmarks/results"} | {"requirements.txt", "packages.txt", deploy_command.OURS}
    needed |= {path.relative_to(ROOT).as_posix() for path in catalog.ASSETS.rglob("*.safetensors")}
    assert len(links) > 10 and needed <= {*files}
    assert {name.split("/")[0] for name in files} == {name.split("/")[0] for name in deploy_command.CONTENT}
    assert sum((ROOT / name).stat().st_size for name in files) < 30e6
