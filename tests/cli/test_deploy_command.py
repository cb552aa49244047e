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
from support.scripted_runner import ROOT

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


FREE = "cpu-basic"


class Space:
    def __init__(self, private: bool = False, hardware: str = FREE) -> None:
        self.private, self.hardware, self.commits = private, hardware, 0
        self.variables: dict[str, str] = {}
        self.files = {".gitattributes": b"", "README.md": b"# New"}

    @property
    def settings(self) -> tuple[bool, str, dict[str, str]]:
        return self.private, self.hardware, self.variables


class Hub:
    """One Space in memory behind a stub of `HfApi`; a call that the real one does not take is a TypeError."""

    def __init__(self) -> None:
        self.space: Space | None = None
        self.api = mock.create_autospec(HfApi, instance=True)
        for name, answer in vars(Hub).items():
            if not name.startswith("_"):
                getattr(self.api, name).side_effect = answer.__get__(self)

    def create_repo(self, space: str, space_hardware: str | None, private: bool | None, **more: Any) -> None:
        assert more == {"repo_type": "space", "space_sdk": "gradio", "exist_ok": True}
        self.space = self.space or Space(bool(private), space_hardware or FREE)

    def space_info(self, space: str) -> Any:
        files = [SimpleNamespace(rfilename=name) for name in self.space.files]
        return SimpleNamespace(private=self.space.private, siblings=files)

    def update_repo_settings(self, space: str, repo_type: str, private: bool) -> None:
        self.space.private = private

    def add_space_variable(self, space: str, key: str, value: str) -> None:
        self.space.variables[key] = value

    def get_space_runtime(self, space: str) -> Any:
        return SimpleNamespace(hardware=None, requested_hardware=self.space.hardware)

    def request_space_hardware(self, space: str, hardware: str) -> None:
        self.space.hardware = hardware

    def create_commit(self, space: str, operations: list[Any], commit_message: str, repo_type: str) -> None:
        self.space.commits += 1
        for one in operations:
            if isinstance(one, CommitOperationDelete):
                del self.space.files[one.path_in_repo]
            else:
                with one.as_file() as file:
                    self.space.files[one.path_in_repo] = file.read()


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
    space = hub.space
    sent = {name: (tree / name).read_bytes() for name in TREE if name != "docs/page.md"}
    assert space.files == sent | {".gitattributes": b""}
    assert (*space.settings, space.commits) == (False, FREE, {}, 1)
    said = capsys.readouterr()
    assert said.out.endswith("/spaces/me/bench\n") and "6 files, 0.01 MB" in said.err


def test_hardware_visibility_and_the_dataset_are_as_asked(tree: Path, hub: Hub, monkeypatch, capsys) -> None:
    monkeypatch.setenv(hub_dataset.VARIABLE, "me/results")
    asked = ["deploy", "my-team/bench", "--hardware", "t4-small", "--private"]
    assert main([*asked, "--dry-run"]) == OK and hub.api.mock_calls == []
    said = capsys.readouterr().out
    for fact in ("/spaces/my-team/bench", "t4-small", "private", f"{hub_dataset.VARIABLE}=me/results"):
        assert fact in said
    assert main(asked) == OK
    assert hub.space.settings == (True, "t4-small", {hub_dataset.VARIABLE: "me/results"})
    assert not hub.api.request_space_hardware.called  # it was made so


def test_a_second_deploy_changes_only_what_is_asked_for(tree: Path, hub: Hub) -> None:
    hub.space = space = Space(True, "a10g-small")
    space.variables = {"WORTH_COMPILING_BATCH": "8"}
    space.files |= TREE | {"demo/old.py": b"old"}
    (tree / "docs" / "page.md").write_bytes(b"# New page\n")
    assert main(["deploy", "me/bench"]) == OK
    assert space.files == TREE | {".gitattributes": b"", "docs/page.md": b"# New page\n"}
    assert space.settings == (True, "a10g-small", {"WORTH_COMPILING_BATCH": "8"})
    space.private = False
    assert main(["deploy", "me/bench", "--private", "--hardware", "l4x1"]) == OK
    assert space.settings[:2] == (True, "l4x1")


PLAIN, ZERO = "torch==2.13.0", "torch==2.11.0"
FOR_CUDA_12 = "--extra-index-url https://download.pytorch.org/whl/cu126\ntorch==2.13.0+cu126"
TORCH_OF = {"cpu-basic": PLAIN, "rtx-pro-6000x2": PLAIN, "zero-a10g": ZERO}
TORCH_OF |= dict.fromkeys(("t4-small", "l40sx4", "h100x8"), FOR_CUDA_12)


@pytest.mark.parametrize("hardware", TORCH_OF)
def test_a_space_gets_the_torch_that_suits_its_hardware(hardware: str, tree: Path, hub: Hub) -> None:
    (tree / "requirements.txt").write_bytes(b"gradio\ntorch==2.13.0\ntransformers==5\n")
    asked = ["deploy", "me/bench", "--hardware", hardware]
    expected = f"gradio\n{TORCH_OF[hardware]}\ntransformers==5\n".encode()
    for command in (asked, asked[:2]):  # the second time it is the hardware that the Space has
        assert main(command) == OK
        assert hub.space.files["requirements.txt"] == expected


def test_a_space_with_something_else_is_left_as_it_is(tree: Path, hub: Hub, capsys) -> None:
    hub.space = space = Space()
    space.files["chat.py"] = b"mine"
    assert main(["deploy", "me/chat", "--private", "--hardware", "l4x1"]) == BAD_INPUT
    assert "me/chat holds something else, such as chat.py" in capsys.readouterr().err
    assert (*space.settings, space.commits) == (False, FREE, {}, 0)


def test_what_is_in_the_way_is_told_with_the_way_out(tree: Path, hub: Hub, capsys) -> None:
    hub.api.create_repo.side_effect = OSError("401: Not\r\nyou")
    assert main(["deploy", "me/bench"]) == FAILED
    said = capsys.readouterr()
    assert said.out == "" and "OSError: 401: Not you. Check the network, the login" in said.err
    assert hub.space is None


@pytest.mark.parametrize("space", ["bench", "../bench", "me/\x1b[31m"])
def test_what_is_no_name_of_a_space_is_refused(space: str, tree: Path, hub: Hub, capsys) -> None:
    assert main(["deploy", space]) == BAD_INPUT
    said = capsys.readouterr().err
    assert "OWNER/NAME" in said and "\x1b" not in said
    assert hub.api.mock_calls == []


def test_this_projects_own_list_has_what_the_page_needs() -> None:
    files = deploy_command._files()
    names = set(files)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = {link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", readme)}
    needed = linked - {"benchmarks/results"} | {"requirements.txt", "packages.txt", deploy_command.OURS}
    needed |= {path.relative_to(ROOT).as_posix() for path in catalog.ASSETS.rglob("*.safetensors")}
    assert len(linked) > 10 and needed <= names
    assert {name.split("/")[0] for name in names} == {name.split("/")[0] for name in deploy_command.BELONGS}
    assert sum((ROOT / name).stat().st_size for name in names) < 30e6
