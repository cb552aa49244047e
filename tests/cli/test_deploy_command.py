"""`deploy`: what arrives at a Hub on loopback, and what is said where something is in the way."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants
from scripted_runner import ROOT

from demo.cli import deploy_command
from demo.cli.common import BAD_INPUT, FAILED, OK
from demo.cli.main import main
from demo.core import catalog
from demo.store import hub_dataset
from demo.ui.web import preview
from tests import space_stub

README = b"---\nsdk: gradio\napp_file: app.py\n---\n# A project\n"
TREE = {
    "app.py": b"print('page')\n",
    "README.md": README,
    "requirements.txt": b"gradio\n",
    "demo/__init__.py": b"",
    "demo/cli/main.py": b"pass\n",
    "assets/weights.bin": bytes(range(256)) * 40,
    "docs/page.md": b"# Page\n",
}
ELSEWHERE = {
    "tests/test_app.py": b"",
    "benchmarks/sweep.py": b"",
    "pyproject.toml": b"",
    "demo/.env": b"SECRET=1\n",
    "demo/__pycache__/app.cpython-311.pyc": b"\0",
}
"""Files of a tree that do not belong on a Space."""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project in place of this one; git tracks all that is in it."""
    folder = tmp_path / "project"
    for name, data in (TREE | ELSEWHERE).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    subprocess.run(["git", "add", "--force", "."], cwd=folder, check=True)
    monkeypatch.setattr(deploy_command, "ROOT", folder)
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[space_stub.Hub]:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv(hub_dataset.VARIABLE, raising=False)
    monkeypatch.setenv("HF_TOKEN", space_stub.TOKEN)
    with space_stub.serve() as serving:
        monkeypatch.setenv("HF_ENDPOINT", serving.address)
        yield serving


def test_a_new_space_gets_the_files_that_belong_there_and_no_others(
    tree: Path, hub: space_stub.Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "demo" / "scratch.py").write_text("untracked")
    (tree / "app.py").write_bytes(b"print('changed, not committed')\n")
    assert main(["deploy", "me/bench"]) == OK
    space = hub.spaces["me/bench"]
    assert space.files == TREE | {".gitattributes": b"", "app.py": b"print('changed, not committed')\n"}
    assert (space.private, space.hardware, space.variables, len(space.commits)) == (False, space_stub.FREE, {}, 1)
    assert "lfsFile assets/weights.bin" in space.commits[0]
    said = capsys.readouterr()
    assert said.out == f"{hub.address}/spaces/me/bench\n"
    assert "7 files, 0.01 MB" in said.err


def test_hardware_visibility_and_the_dataset_are_as_asked(
    tree: Path, hub: space_stub.Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(hub_dataset.VARIABLE, "me/results")
    assert main(["deploy", "my-team/bench", "--hardware", "t4-small", "--private"]) == OK
    space = hub.spaces["my-team/bench"]
    assert (space.private, space.hardware, space.variables) == (True, "t4-small", {hub_dataset.VARIABLE: "me/results"})
    later = ("/hardware", "/settings")
    assert not [request for request in hub.asked if request.endswith(later)]  # it was made so, not changed afterwards
    said = capsys.readouterr().err
    assert "secret HF_TOKEN" in said and space_stub.TOKEN not in said


def test_a_second_deploy_removes_what_is_gone_and_keeps_the_settings(
    tree: Path, hub: space_stub.Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.spaces["me/bench"] = space = space_stub.Space(True, "a10g-small", {"WORTH_COMPILING_BATCH": "8"})
    space.files |= TREE | {"demo/old.py": b"old"}
    (tree / "docs" / "page.md").write_bytes(b"# New page\n")
    assert main(["deploy", "me/bench"]) == OK
    assert space.files == TREE | {".gitattributes": b"", "docs/page.md": b"# New page\n"}
    assert space.commits == [["deletedFile demo/old.py", "file docs/page.md"]]
    assert (space.private, space.hardware, space.variables) == (True, "a10g-small", {"WORTH_COMPILING_BATCH": "8"})
    assert main(["deploy", "me/bench"]) == OK  # nothing is different
    assert len(space.commits) == 1


def test_zero_gpu_gets_the_torch_that_it_has_and_keeps_it_at_the_next_deploy(tree: Path, hub: space_stub.Hub) -> None:
    (tree / "requirements.txt").write_bytes(b"gradio\ntorch==2.13.0\n")
    (tree / "README.md").write_bytes(README.replace(b"sdk:", b"suggested_hardware: t4-small\nsdk:"))
    assert main(["deploy", "me/bench"]) == OK
    space = hub.spaces["me/bench"]
    assert space.files["requirements.txt"] == b"gradio\ntorch==2.13.0\n"
    assert f"suggested_hardware: {space_stub.FREE}\n".encode() in space.files["README.md"]
    for again in (["--hardware", "zero-a10g"], []):
        assert main(["deploy", "me/bench", *again]) == OK
        assert space.files["requirements.txt"] == b"gradio\ntorch==2.11.0\n" and space.files["README.md"] == README


def test_a_space_that_is_there_gets_the_hardware_and_the_privacy_that_are_asked_for(
    tree: Path, hub: space_stub.Hub
) -> None:
    hub.spaces["me/bench"] = space = space_stub.Space(files=dict(TREE))
    assert main(["deploy", "me/bench", "--private", "--hardware", "l4x1"]) == OK
    assert (space.private, space.hardware) == (True, "l4x1")


def test_a_space_with_something_else_is_left_as_it_is(
    tree: Path, hub: space_stub.Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.spaces["me/chat"] = space = space_stub.Space()
    space.files["chat.py"] = b"mine"
    assert main(["deploy", "me/chat", "--private", "--hardware", "l4x1"]) == BAD_INPUT
    assert "me/chat holds something else, such as chat.py" in capsys.readouterr().err
    assert (space.private, space.hardware, space.commits) == (False, space_stub.FREE, [])


@pytest.mark.parametrize(
    ("part", "refusal", "says"),
    [
        ("create", (402, "Subscribe to PRO"), "settings/billing"),
        ("commit", (413, "Too\r\nlarge"), "answered 413: Too large"),
    ],
)
def test_what_the_hub_refuses_is_told_with_the_way_out(
    part: str,
    refusal: tuple[int, str],
    says: str,
    tree: Path,
    hub: space_stub.Hub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(hub_dataset.VARIABLE, "me/results")
    hub.refuse[part] = refusal
    assert main(["deploy", "me/bench"]) == FAILED
    said = capsys.readouterr()
    assert said.out == "" and f"answered {refusal[0]}" in said.err
    assert says in said.err and "Traceback" not in said.err and space_stub.TOKEN not in said.err
    assert not any(space.commits for space in hub.spaces.values())


def test_a_wrong_token_and_a_strangers_space_are_refused(
    tree: Path, hub: space_stub.Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.spaces["you/bench"] = space_stub.Space(files=dict(TREE))
    hub.spaces["you/hidden"] = space_stub.Space(private=True)
    assert main(["deploy", "you/bench"]) == FAILED
    assert "answered 403" in capsys.readouterr().err
    assert main(["deploy", "you/hidden"]) == FAILED
    assert "answered 404" in capsys.readouterr().err
    monkeypatch.setenv("HF_TOKEN", "hf_old")
    assert main(["deploy", "me/bench"]) == FAILED
    assert "refused the token: run `hf auth login`" in capsys.readouterr().err
    assert "me/bench" not in hub.spaces and not hub.spaces["you/bench"].commits


def test_without_a_login_or_a_network_nothing_is_tried_for_long(
    tree: Path, hub: space_stub.Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    assert main(["deploy", "me/bench"]) == FAILED
    assert "hf auth login" in capsys.readouterr().err and hub.spaces == {}
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert main(["deploy", "me/bench"]) == FAILED
    said = capsys.readouterr().err
    assert "Not deployed: ConnectError" in said and "Check the network" in said


def test_a_dry_run_tells_everything_and_sends_nothing(
    tree: Path, hub: space_stub.Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(hub_dataset.VARIABLE, "me/results")
    monkeypatch.delenv("HF_TOKEN")
    assert main(["deploy", "me/bench", "--hardware", "t4-small", "--private", "--dry-run"]) == OK
    said = capsys.readouterr().out
    for fact in (f"{hub.address}/spaces/me/bench", "t4-small", "private", f"{hub_dataset.VARIABLE}=me/results"):
        assert fact in said
    assert hub.asked == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bench"], "OWNER/NAME"),
        (["../bench"], "OWNER/NAME"),
        (["me/\x1b[31m"], "OWNER/NAME"),
        (["me/bench", "--token", "hf_secret"], "no option --token"),
    ],
)
def test_bad_input_is_refused_before_the_network(
    arguments: list[str], says: str, tree: Path, hub: space_stub.Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deploy", *arguments]) == BAD_INPUT
    said = capsys.readouterr().err
    assert says in said and "\x1b" not in said
    assert hub.asked == []


def test_tracked_files_that_are_gone_and_links_are_not_sent(tree: Path, hub: space_stub.Hub) -> None:
    os.symlink("/etc", tree / "docs" / "link")
    subprocess.run(["git", "add", "--force", "docs/link"], cwd=tree, check=True)
    (tree / "docs" / "page.md").unlink()
    (tree / "demo" / "__init__.py").unlink()
    assert main(["deploy", "me/bench"]) == OK
    kept = {name: data for name, data in TREE.items() if name not in ("docs/page.md", "demo/__init__.py")}
    assert hub.spaces["me/bench"].files == kept | {".gitattributes": b""}


def test_this_projects_own_list_has_what_the_page_and_the_readme_need() -> None:
    files = deploy_command._files()
    names = set(files)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = {link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", readme)}
    needed = linked - {"benchmarks/results"} | {"requirements.txt", "packages.txt", deploy_command.OURS}
    needed |= {path.relative_to(ROOT).as_posix() for path in catalog.ASSETS.rglob("*.safetensors")}
    needed |= {preview.PICTURE.relative_to(ROOT).as_posix()}
    assert len(linked) > 10 and needed <= names
    assert {name.split("/")[0] for name in names} == {name.split("/")[0] for name in deploy_command.BELONGS}
    assert not [name for name in names if name.startswith(("tests/", "tools/")) or name.endswith(".pyc")]
    assert sum((ROOT / name).stat().st_size for name in names) < 30e6
