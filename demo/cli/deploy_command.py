"""`python -m demo deploy OWNER/NAME`: this project as a Space of the Hugging Face Hub, made or brought up to date.

What is covered: a Space that holds something else is refused before anything is changed; the files arrive in one
commit. What is not covered: whether the Space then builds and starts; its page shows that.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from demo.cli.common import FAILED, OK
from demo.core import format as fmt
from demo.core import hub
from demo.core.catalog import is_hub_id
from demo.core.errors import BadInput
from demo.store import hub_dataset

ROOT = Path(__file__).resolve().parents[2]
BELONGS = (
    *("app.py", "requirements.txt", "packages.txt", "README.md", "LICENSE", "CONTRIBUTING.md", "SECURITY.md"),
    *("demo", "assets", "docs", "benchmarks/results"),
)
"""What the page needs, and what README.md leads to. Of folders the files that git tracks, as they are on the disk."""
HIDDEN = re.compile(r"(^|/)\.|__pycache__/")
"""Never uploaded, even where git tracks it."""
OURS = "demo/cli/main.py"
"""A Space that has this file holds this project."""
HUBS_OWN = {".gitattributes", "README.md"}
"""What the Hub puts into a new Space."""
ZERO_GPU, ZERO_GPU_TORCH = "zero-a10g", "2.11.0"
"""ZeroGPU's name in the Hub's API, and a torch of the list that it installs."""
LOG_IN = "run `hf auth login`, or set HF_TOKEN, with a token that may write there"
ADVICE = {
    401: f"The Hub refused the token: {LOG_IN}.",
    402: "The Hub asks for a payment method or a subscription: https://huggingface.co/settings/billing.",
    403: f"The Hub does not let you write there: {LOG_IN}.",
    404: f"The Hub does not show it to you: {LOG_IN}.",
}
"""What to do about a status of the Hub."""


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("deploy", help="put this project on a Hugging Face Space")
    parser.set_defaults(command=_deploy)
    parser.add_argument("space", metavar="OWNER/NAME", help="the Space; it is made if it does not exist")
    parser.add_argument("--hardware", help="such as t4-small, which its owner pays; default: as it is")
    parser.add_argument("--private", action="store_true", help="only its owner sees it; default: as it is")
    parser.add_argument("--dry-run", action="store_true", help="say what would be sent, and send nothing")


def _deploy(options: argparse.Namespace) -> int:
    from huggingface_hub.errors import HfHubHTTPError

    if not is_hub_id(options.space):
        raise BadInput(f"A Space is named OWNER/NAME, at most 96 letters, digits, '-', '_', '.': {options.space!r}.")
    dataset, files = hub_dataset.named(), _files()
    address = f"{hub.endpoint()}/spaces/{options.space}"
    size = sum((ROOT / file).stat().st_size for file in files)
    print(f"{len(files)} files, {size / 1e6:.2f} MB", file=sys.stderr)
    if options.dry_run:
        print(address)
        print(f"hardware: {options.hardware or 'as it is; a new Space gets the default of the Hub'}")
        print(f"visibility: {'private' if options.private else 'as it is'}")
        print(f"variables: {f'{hub_dataset.VARIABLE}={dataset}' if dataset else 'as they are'}")
        print("Nothing was sent: this was a dry run.")
        return OK
    try:
        _send(options, dataset, files)
    except HfHubHTTPError as error:
        status, said = error.response.status_code, _line(error.server_message or "nothing")
        print(f"{ADVICE.get(status, 'The Hub did not take it.')} It answered {status}: {said}", file=sys.stderr)
        return FAILED
    except BadInput:
        raise
    except Exception as error:  # no network, no login, an unreadable file: the library and its transport have ten kinds
        print(f"Not deployed: {_line(f'{type(error).__name__}: {error}')}", file=sys.stderr)
        print(f"Check the network and the login ({LOG_IN}), and start the same command again.", file=sys.stderr)
        return FAILED
    print(address)
    return OK


def _files() -> list[str]:
    """The tracked files that belong on a Space, without links. Raises BadInput outside of a complete clone."""
    command = ["git", "ls-files", "-z", "--", *BELONGS]
    try:
        names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.SubprocessError) as error:
        raise BadInput(f"git does not list the project's files: {error}. Start in a clone of it.") from error
    tracked = [name for name in names if name and not HIDDEN.search(name)]
    files = [name for name in tracked if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]
    if missing := [name for name in ("app.py", "README.md", "requirements.txt", OURS) if name not in files]:
        raise BadInput(f"{ROOT} has no {' and no '.join(missing)} to upload. Start in a complete clone of the project.")
    return files


def _send(options: argparse.Namespace, dataset: str | None, files: list[str]) -> None:
    """Raises BadInput for a Space that holds something else, and what the Hub's library raises."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    api, space = HfApi(endpoint=hub.endpoint()), options.space
    # Hardware is asked for at once: without a subscription the Hub makes no Space on its free hardware.
    asked = {"space_hardware": options.hardware, "private": options.private or None}
    api.create_repo(space, repo_type="space", space_sdk="gradio", exist_ok=True, **asked)
    held = api.space_info(space)
    present = {file.rfilename for file in held.siblings or ()}
    if OURS not in present and (others := sorted(present - HUBS_OWN)):
        raise BadInput(
            f"{space} holds something else, such as {_line(others[0])}: all its files would be deleted. "
            "Choose another name, or delete that Space first."
        )
    if options.private and not held.private:
        api.update_repo_settings(space, repo_type="space", private=True)
    if dataset:
        api.add_space_variable(space, hub_dataset.VARIABLE, dataset)
        print(f"{hub_dataset.VARIABLE}={dataset}. To push there the Space needs a secret HF_TOKEN.", file=sys.stderr)
    runtime = api.get_space_runtime(space)
    hardware = options.hardware or runtime.requested_hardware or runtime.hardware
    if options.hardware and options.hardware not in (runtime.requested_hardware, runtime.hardware):
        api.request_space_hardware(space, options.hardware)
    # In one commit: `upload_folder` makes several of so many files, and each of them starts a build.
    added = [CommitOperationAdd(file, _suited(file, hardware) or ROOT / file) for file in files]
    removed = [CommitOperationDelete(file) for file in sorted(present - {*files, ".gitattributes"})]
    api.create_commit(space, [*removed, *added], commit_message="Worth Compiling?", repo_type="space")


def _suited(file: str, hardware: str | None) -> bytes | None:
    """What is uploaded in place of a file: ZeroGPU has a torch of its own, and is no value of suggested_hardware."""
    suggested = f"suggested_hardware: {hardware}\n" if hardware != ZERO_GPU else ""
    if file == "README.md" and hardware:
        pattern, text = r"^suggested_hardware: .*\n", suggested
    elif file == "requirements.txt" and hardware == ZERO_GPU:
        pattern, text = r"^torch==\S+", f"torch=={ZERO_GPU_TORCH}"
    else:
        return None
    return re.sub(pattern, text, (ROOT / file).read_text("utf-8"), count=1, flags=re.MULTILINE).encode()


def _line(text: str) -> str:
    """On one line, and not endless."""
    return fmt.printable(" ".join(text.split())[:200])
