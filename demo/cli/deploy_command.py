"""`python -m demo deploy OWNER/NAME`: puts this project on a new or existing Space of the Hugging Face Hub.

A Space that holds something else is not changed. Not covered: whether the Space then builds and starts.
"""

import argparse
import re
import subprocess
import sys

from ..core import format as fmt, hub
from ..core.catalog import is_hub_id
from ..core.options import BadInput
from ..core.program import ROOT
from ..store import hub_dataset
from .common import FAILED, OK, Commands

CONTENT = (
    *("app.py", "requirements.txt", "packages.txt", "README.md", "LICENSE", "CONTRIBUTING.md", "SECURITY.md"),
    *("demo", "assets", "docs", "benchmarks/results"),
)
"""The files and folders to send: what the page needs and what README.md links to."""
OURS = "demo/cli/main.py"
"""A file that only a Space with this project has."""
HUBS_OWN = {".gitattributes", "README.md"}
"""The files that the Hub itself puts into a new Space."""
FOR_CUDA_12 = rf"{hub.CUDA_12_INDEX}\ntorch==\1+cu126"
TORCH = {"zero-a10g": "torch==2.11.0"} | dict.fromkeys(("t4", "l4", "a10g", "a100", "h100"), FOR_CUDA_12)
"""{beginning of a hardware's name: text in place of torch's line in requirements.txt}. ZeroGPU has only certain
versions of torch, and the drivers of the other GPUs may be too old for CUDA 13."""
ADVICE = (
    "Check the network, the login (`hf auth login`, or HF_TOKEN, with a token that may write there) and, for hardware, "
    "https://huggingface.co/settings/billing. Then start the same command again."
)


def add_to(commands: Commands) -> None:
    parser = commands.add_parser("deploy", help="put this project on a Hugging Face Space")
    parser.set_defaults(command=_deploy)
    parser.add_argument("space", metavar="OWNER/NAME", help="the Space; it is made if it does not exist")
    parser.add_argument("--hardware", help="such as t4-small, which its owner pays; default: as it is")
    parser.add_argument("--private", action="store_true", help="only its owner sees it; default: as it is")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and send nothing")


def _deploy(options: argparse.Namespace) -> int:
    if not is_hub_id(options.space):
        raise BadInput(f"A Space is named OWNER/NAME, at most 96 letters, digits, '-', '_', '.': {options.space!r}.")
    dataset, files = hub_dataset.dataset_name(), _files()
    size = sum((ROOT / file).stat().st_size for file in files)
    print(f"{len(files)} files, {size / 1e6:.2f} MB", file=sys.stderr)
    if options.dry_run:
        print(f"hardware: {options.hardware or 'as it is'}")
        print(f"torch: {_torch_words(options.hardware)}")
        print(f"visibility: {'private' if options.private else 'as it is'}")
        print(f"variables: {f'{hub_dataset.VARIABLE}={dataset}' if dataset else 'as they are'}")
    try:
        if not options.dry_run:
            _send(options, dataset, files)
    except BadInput:
        raise
    except Exception as error:  # huggingface_hub and its HTTP library raise about ten kinds of errors
        reason = fmt.printable(" ".join(str(error).split())[:400])
        print(f"Not deployed: {type(error).__name__}: {reason}. {ADVICE}", file=sys.stderr)
        return FAILED
    print(f"{hub.shown_endpoint()}/spaces/{options.space}")
    return OK


def _files() -> list[str]:
    """Returns the paths of the files to send, without symbolic links. Raises BadInput outside of a git clone."""
    command = ["git", "ls-files", "-z", "--", *CONTENT]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True).stdout.decode().split("\0")
    files = [name for name in tracked if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]
    if OURS not in files:
        raise BadInput(f"git lists no files of the project in {ROOT}. Start in a complete clone of it.")
    return files


def _requirements(hardware: str) -> str:
    """Returns the text of requirements.txt, with the torch version for `hardware`, such as "t4-small"."""
    line = next((line for begins, line in TORCH.items() if hardware.startswith(begins)), r"\g<0>")
    return re.sub(r"^torch==([^+\s]+)\S*", line, (ROOT / "requirements.txt").read_text("utf-8"), flags=re.MULTILINE)


def _torch_words(hardware: str | None) -> str:
    """Returns, as indented text, the lines of requirements.txt that install torch on a Space with this `hardware`.

    If `hardware` is None, the text names the GPUs whose drivers may be too old, and the lines for these.
    """
    lines = [line for line in _requirements(hardware or "t4").splitlines() if line.startswith(("torch==", "--extra"))]
    older = ", ".join(name for name in TORCH if TORCH[name] == FOR_CUDA_12)
    where = "in requirements.txt:" if hardware else f"on {older} these two lines, in requirements.txt:"
    return "\n  ".join([where, *lines])


def _send(options: argparse.Namespace, dataset: str, files: list[str]) -> None:
    """Creates or updates the Space. Raises BadInput if the Space holds files of another project.

    `dataset`: name of the dataset on the Hub to which the Space is to upload its results; '' changes no variable.
    `files`: paths of the files to send. The Space's other files are deleted.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    api, space = HfApi(endpoint=hub.endpoint()), options.space
    # The request names the hardware, because without a subscription the Hub creates no Space on free hardware.
    settings = {"space_hardware": options.hardware, "private": options.private or None}
    api.create_repo(space, repo_type="space", space_sdk="gradio", exist_ok=True, **settings)
    info = api.space_info(space)
    present = {file.rfilename for file in info.siblings or ()}
    if OURS not in present and (foreign := sorted(present - HUBS_OWN)):
        raise BadInput(
            f"{space} holds something else, such as {fmt.printable(foreign[0])}: all its files would be deleted. "
            "Choose another name, or delete that Space first."
        )
    if options.private and not info.private:
        api.update_repo_settings(space, repo_type="space", private=True)
    if dataset:
        api.add_space_variable(space, hub_dataset.VARIABLE, dataset)
        print(f"{hub_dataset.VARIABLE}={dataset}. To push there the Space needs a secret HF_TOKEN.", file=sys.stderr)
    runtime = api.get_space_runtime(space)
    hardware = options.hardware or runtime.requested_hardware or runtime.hardware or ""
    if options.hardware and options.hardware not in (runtime.requested_hardware, runtime.hardware):
        api.request_space_hardware(space, options.hardware)
    requirements = CommitOperationAdd("requirements.txt", _requirements(hardware).encode())
    add = [CommitOperationAdd(file, ROOT / file) for file in files if file != "requirements.txt"]
    delete = [CommitOperationDelete(file) for file in sorted(present - {*files, ".gitattributes"})]
    # One commit, because each starts a build: `upload_folder` would make several.
    api.create_commit(space, [*delete, *add, requirements], commit_message="Worth Compiling?", repo_type="space")
