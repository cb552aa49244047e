"""Tests of `deploy`, with a stub of the Hub's library: what it asks of the Hub, and what it refuses."""

import os
import re
import subprocess
from base64 import b64decode
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import huggingface_hub
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
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
    "demo/cli/main.py": b"pass\n",
    "assets/weights.bin": bytes(range(256)) * 40,
    "docs/page.md": b"# Page\n",
}
ELSEWHERE = ("tests/test_app.py", "benchmarks/sweep.py", "pyproject.toml")
"""Files of a tree that do not belong on a Space."""
NEW = (".gitattributes", "README.md")
"""The files that the Hub itself puts into a new Space."""
ALWAYS = ["create_repo", "space_info", "get_space_runtime", "create_commit"]
"""The calls of `HfApi` that every deploy makes, in order."""


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """Makes `deploy` send a small made-up project, with all of its files tracked by git. Returns its folder."""
    folder = tmp_path / "project"
    for name, data in (TREE | dict.fromkeys(ELSEWHERE, b"")).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    subprocess.run(["git", "add", "--force", "."], cwd=folder, check=True)
    monkeypatch.setattr(deploy_command, "ROOT", folder)
    return folder


class Hub:
    """A stub of the Hub's API with one Space. A call that the real `HfApi` does not accept raises TypeError."""

    def __init__(self) -> None:
        self.api = mock.create_autospec(HfApi, instance=True)
        self.has()

    def has(self, files: Iterable[str] = NEW, private: bool = False, hardware: str = "cpu-basic") -> None:
        """Sets the Space's files, visibility and hardware, as the Hub reports them."""
        siblings = [SimpleNamespace(rfilename=name) for name in files]
        self.api.space_info.return_value = SimpleNamespace(private=private, siblings=siblings)
        self.api.get_space_runtime.return_value = SimpleNamespace(hardware=None, requested_hardware=hardware)

    def deploy(self, *options: str) -> list[str]:
        """Deploys to this Space. Returns the names of the Hub's functions that were called."""
        self.api.reset_mock()
        assert main(["deploy", "me/bench", *options]) == OK
        return [call[0] for call in self.api.method_calls]

    def commit(self) -> tuple[dict[str, bytes], list[str]]:
        """Returns the files that the only commit adds, and the names of those that it deletes."""
        (call,) = self.api.create_commit.call_args_list
        added = [operation for operation in call.args[1] if isinstance(operation, CommitOperationAdd)]
        deleted = [operation.path_in_repo for operation in call.args[1] if isinstance(operation, CommitOperationDelete)]
        return {operation.path_in_repo: b64decode(operation.b64content()) for operation in added}, deleted


@pytest.fixture
def hub(monkeypatch) -> Hub:
    fake_hub = Hub()
    monkeypatch.delenv(hub_dataset.VARIABLE, raising=False)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda endpoint: fake_hub.api)
    return fake_hub


def test_a_new_space_gets_the_files_that_belong_there(tree: Path, hub: Hub, capsys) -> None:
    (tree / "demo" / "scratch.py").write_text("untracked")
    (tree / "app.py").write_bytes(b"print('changed, not committed')\n")
    os.symlink("/etc", tree / "docs" / "link")
    subprocess.run(["git", "add", "--force", "docs/link"], cwd=tree, check=True)
    (tree / "docs" / "page.md").unlink()
    assert hub.deploy() == ALWAYS
    assert hub.commit() == ({name: (tree / name).read_bytes() for name in TREE if name != "docs/page.md"}, [])
    output = capsys.readouterr()
    assert output.out.endswith("/spaces/me/bench\n") and "5 files, 0.01 MB" in output.err


def test_a_new_space_is_made_with_its_settings(tree: Path, hub: Hub, monkeypatch, capsys) -> None:
    monkeypatch.setenv(hub_dataset.VARIABLE, "me/results")
    options = ["--hardware", "t4-small", "--private"]
    assert hub.deploy(*options, "--dry-run") == []
    output = capsys.readouterr()
    for fact in ("/spaces/me/bench", "t4-small", "private", f"{hub_dataset.VARIABLE}=me/results"):
        assert fact in output.out
    assert "6 files, 0.01 MB" in output.err
    hub.has(private=True, hardware="t4-small")
    assert hub.deploy(*options) == [*ALWAYS[:2], "add_space_variable", *ALWAYS[2:]]
    settings = {"space_hardware": "t4-small", "private": True, "exist_ok": True}
    hub.api.create_repo.assert_called_with("me/bench", repo_type="space", space_sdk="gradio", **settings)
    hub.api.add_space_variable.assert_called_with("me/bench", hub_dataset.VARIABLE, "me/results")


def test_a_second_deploy_changes_only_what_is_asked_for(tree: Path, hub: Hub) -> None:
    hub.has([*NEW, *TREE, "demo/old.py"], private=True, hardware="a10g-small")
    assert hub.deploy() == ALWAYS and hub.commit() == (TREE, ["demo/old.py"])
    assert hub.api.create_repo.call_args.kwargs["private"] is None
    hub.has(TREE)
    calls = hub.deploy("--private", "--hardware", "l4x1")
    assert {*calls} - {*ALWAYS} == {"update_repo_settings", "request_space_hardware"}
    hub.api.update_repo_settings.assert_called_with("me/bench", repo_type="space", private=True)
    hub.api.request_space_hardware.assert_called_with("me/bench", "l4x1")


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
        hub.deploy(*options)
        assert hub.commit()[0]["requirements.txt"] == f"gradio\n{torch}\ntransformers==5\n".encode()
        hub.has(hardware=hardware)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--hardware", "t4-small"], f"torch: in requirements.txt:\n{FOR_CUDA_12}\n"),
        (["--hardware", "cpu-basic"], "torch: in requirements.txt:\ntorch==2.13.0\n"),
        ([], f"torch: on t4, l4, a10g, a100, h100 these two lines, in requirements.txt:\n{FOR_CUDA_12}\n"),
    ],
    ids=["T4", "CPU", "not named"],
)
def test_a_dry_run_prints_the_lines_of_torch(options: list[str], words: str, tree: Path, hub: Hub, capsys) -> None:
    (tree / "requirements.txt").write_bytes(b"gradio\ntorch==2.13.0\ntransformers==5\n")
    assert hub.deploy("--dry-run", *options) == []
    assert words in capsys.readouterr().out.replace("\n  ", "\n")


def test_a_space_with_something_else_is_left_as_it_is(tree: Path, hub: Hub, capsys) -> None:
    hub.has([*NEW, "chat.py"])
    assert main(["deploy", "me/chat", "--private", "--hardware", "l4x1"]) == BAD_INPUT
    assert "me/chat holds something else, such as chat.py" in capsys.readouterr().err
    assert [call[0] for call in hub.api.method_calls] == ["create_repo", "space_info"]


def test_an_error_of_the_hub_has_its_remedy(tree: Path, hub: Hub, capsys) -> None:
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
