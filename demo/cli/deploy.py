"""`python -m demo deploy OWNER/NAME`: this project as a Space of the Hugging Face Hub, made or brought up to date.

What is covered: everything that can be refused here is refused before the first request. A Space that holds something
else is left as it is. The files arrive in one commit, so a Space never builds from a part of them. Each failure says
what is at the Hub by then.
What is not covered: whether the Space then builds and starts; its page shows that.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.cli import terminal
from demo.cli.common import FAILED, OK, listed
from demo.cli.space_hardware import HARDWARE, for_space
from demo.core import format as fmt
from demo.core import hub
from demo.core.errors import BadInput
from demo.store import hub_dataset
from demo.store.measured import current_commit

if TYPE_CHECKING:  # importing it takes some 60 ms, which no other command should wait for
    from huggingface_hub import HfApi, SpaceInfo

ROOT = Path(__file__).resolve().parents[2]

BELONGS = (
    *("app.py", "requirements.txt", "packages.txt", "README.md", "LICENSE", "CONTRIBUTING.md", "SECURITY.md"),
    *("demo", "assets", "docs", "benchmarks/results"),
)
"""What belongs on a Space: what the page needs, and what README.md leads to. Of folders the files that git tracks, as
they are on the disk; without git every file that is neither hidden nor made by Python."""
NEEDED = ("requirements.txt", "demo", "assets")
"""Without one of them the page would not start."""

FOR_ITS_HARDWARE = {"README.md", "requirements.txt"}
"""Files that `for_space` writes as the hardware needs them."""
OURS = "demo/cli/main.py"
"""A Space that has this file holds this project."""
HUBS_OWN = {".gitattributes", "README.md"}
"""What the Hub puts into a new Space."""
SAID = 200
"""Characters of what the Hub says that are repeated."""


class NotDeployed(Exception):
    """The Hub did not do what was asked. The message is for the person who asked."""


@dataclass(frozen=True)
class Plan:
    """What was asked for, checked."""

    space: str
    hardware: str | None
    """None: what the Hub gives to a new Space; another keeps what it has."""
    private: bool
    variables: dict[str, str]
    files: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    """Files in the folders to upload that stay here, each with the reason."""

    @property
    def address(self) -> str:
        return f"{hub.endpoint()}/spaces/{self.space}"

    @property
    def settings(self) -> str:
        return f"{self.address}/settings"


def add_to(commands: Any) -> None:
    """Registers the command at `commands`, what `add_subparsers` gave."""
    parser = commands.add_parser("deploy", help="put this project on a Hugging Face Space")
    parser.set_defaults(command=_deploy)
    parser.add_argument("space", metavar="OWNER/NAME", help="the Space; it is made if it does not exist")
    parser.add_argument("--hardware", help="such as t4-small, which its owner pays; default: as it is")
    parser.add_argument("--private", action="store_true", help="only its owner sees it; default: as it is")
    parser.add_argument("--dry-run", action="store_true", help="say what would be sent, and send nothing")


def _deploy(options: argparse.Namespace) -> int:
    plan = _plan(options)
    for name, why in plan.left_out:
        print(f"Not uploaded, because {why}: {fmt.printable(name)}", file=sys.stderr)
    if options.dry_run:
        print(_told(plan))
        return OK
    try:
        _send(plan)
    except NotDeployed as failed:
        print(failed, file=sys.stderr)
        return FAILED
    print(plan.address)
    return OK


def _plan(options: argparse.Namespace) -> Plan:
    """Raises BadInput."""
    _check_name(options.space)
    if options.hardware is not None:
        _check_hardware(options.hardware)
    dataset = hub_dataset.named()
    files, left_out = _files()
    _check_complete(files)
    variables = {hub_dataset.VARIABLE: dataset} if dataset else {}
    return Plan(options.space, options.hardware, options.private, variables, files, left_out)


def _check_name(name: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
        fits = name.count("/") == 1
    except HFValidationError:
        fits = False
    if not fits:
        raise BadInput(
            "A Space is named OWNER/NAME, in letters, digits, '-', '_' and '.', at most 96 each. "
            f"Given: {fmt.printable(name[:SAID])!r}."
        )


def _check_hardware(hardware: str) -> None:
    from huggingface_hub import SpaceHardware

    known = [one.value for one in SpaceHardware]
    if hardware not in known:
        raise BadInput(f"--hardware must be {listed(known)}. Given: {fmt.printable(hardware[:SAID])!r}.")


def _files() -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The files to upload, and those that stay here with the reason."""
    untracked: list[str] = []
    try:
        found = _git_files()
        untracked = _git_files("--others", "--exclude-standard")
        problem = "app.py is not among them"
    except (OSError, subprocess.SubprocessError) as error:
        found, problem = [], _git_said(error)
    if "app.py" not in found:
        if (ROOT / ".git").exists():
            raise BadInput(
                f"git does not say which files of {ROOT} it tracks, so nothing is uploaded: {problem}. "
                "Run `git status` there: it tells more."
            )
        # no git, or a folder inside of another project's checkout
        _say(f"git does not track this folder ({problem}): every file that is not hidden is uploaded.")
        tops = [ROOT / name for name in BELONGS]
        paths = [path for top in tops for path in (top.rglob("*") if top.is_dir() and not top.is_symlink() else [top])]
        found = [path.relative_to(ROOT).as_posix() for path in paths if path.is_symlink() or path.is_file()]
    whys = {name: _why_not(name) for name in sorted(filter(_belongs, found))}
    left_out = [(name, why) for name, why in whys.items() if why]
    left_out += [(name, "git does not track it") for name in sorted(filter(_belongs, untracked))]
    return tuple(name for name, why in whys.items() if not why), tuple(left_out)


def _belongs(name: str) -> bool:
    path = Path(name)
    return path.suffix not in (".pyc", ".pyi") and not any(
        part.startswith(".") or part == "__pycache__" for part in path.parts
    )


def _why_not(name: str) -> str:
    """Why a file in the folders to upload cannot be uploaded; '' if it can."""
    path = ROOT / name
    if path.resolve() != ROOT.resolve() / name:
        return "it is a symbolic link"
    if not path.is_file():
        return "git tracks it, but it is not on the disk"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    return ""


def _git_files(*which: str) -> list[str]:
    """Names below ROOT. Raises OSError and SubprocessError where git does not answer."""
    command = ["git", "ls-files", "-z", *which, "--", *BELONGS]
    asked = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=30, check=True)
    return [os.fsdecode(name) for name in asked.stdout.split(b"\0") if name]


def _git_said(error: OSError | subprocess.SubprocessError) -> str:
    """The first line of git's own words, or why there are none."""
    if isinstance(error, subprocess.CalledProcessError):
        words = error.stderr.decode(errors="replace").strip().partition("\n")[0]
        return _line(words) if words else f"it ended with {error.returncode}"
    return "it took longer than 30 s" if isinstance(error, subprocess.TimeoutExpired) else f"git was not found: {error}"


def _check_complete(files: Sequence[str]) -> None:
    """Raises BadInput where a Space could not be built from these files, or not by README.md's settings."""
    import yaml

    complete = "Run this from a complete copy of the project."
    tops = {name.partition("/")[0] for name in files}
    if missing := [name for name in NEEDED if name not in tops]:
        raise BadInput(f"{ROOT} has no {' and no '.join(missing)} to upload. {complete}")
    texts: dict[str, str] = {}
    for name in FOR_ITS_HARDWARE & set(files):
        try:
            texts[name] = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise BadInput(f"{ROOT / name} is not UTF-8: {error.reason} at byte {error.start}. {complete}") from error
    block = re.match(r"---\n(.*?)\n---\n", texts.get("README.md", ""), re.DOTALL)
    try:
        settings = yaml.safe_load(block[1]) if block else None
    except yaml.YAMLError:
        settings = None
    app = settings.get("app_file") if isinstance(settings, dict) and settings.get("sdk") == "gradio" else None
    if app not in files:
        raise BadInput(
            f"{ROOT / 'README.md'} does not begin with the settings of a Space (sdk: gradio, and an "
            f"app_file that is there). {complete}"
        )


def _told(plan: Plan) -> str:
    """What a dry run says."""
    sizes = Counter({name: (ROOT / name).stat().st_size for name in plan.files})
    tops: Counter[str] = Counter()
    for name, size in sizes.items():
        tops[name.partition("/")[0]] += size
    numbers = Counter(name.partition("/")[0] for name in plan.files)
    variables = ", ".join(f"{key}={value}" for key, value in plan.variables.items())
    facts = [
        ("Space", plan.address),
        ("hardware", plan.hardware or "as it is; a new Space gets the Hub's default, cpu-basic"),
        ("visibility", "private" if plan.private else "as it is; a new Space gets the owner's default, else public"),
        ("variables", variables or "as they are"),
        ("files", f"{len(plan.files)}, {_megabytes(sizes.total())}"),
    ]
    if (kind := HARDWARE.get(plan.hardware or "")) is not None:
        suits = ", ".join(f"{key}={value}" for key, value in kind.settings.items())
        facts[2:2] = [("to expect", kind.expect), ("settings that suit", suits or "the defaults")]
    rows = [(f"  {top}", str(numbers[top]), _megabytes(size)) for top, size in tops.most_common()]
    return "\n".join([*terminal.table(facts), *terminal.table(rows), "Nothing was sent: this was a dry run."])


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"


def _send(plan: Plan) -> None:
    """Raises NotDeployed, and BadInput for a Space that holds something else."""
    from huggingface_hub import HfApi
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    api = HfApi(endpoint=hub.endpoint())
    held = _open(api, plan)
    with _asking(f"The Space {plan.address} has the files and the hardware that it had before."):
        _set(api, plan, held)
        hardware = _choose_hardware(api, plan)
    by_then = f"the hardware {plan.hardware}, and until this command succeeds " if plan.hardware else ""
    with _asking(f"The Space {plan.address} has {by_then}the files that it had before."):
        _upload(api, plan, held, hardware)


def _open(api: HfApi, plan: Plan) -> SpaceInfo:
    """What the Space holds, which is made if it does not exist."""
    from huggingface_hub import get_token

    with _asking("Nothing was uploaded."):
        if not (token := get_token()):
            raise NotDeployed(f"There is no login at the Hub: {LOG_IN}. Nothing was uploaded.")
        if not token.isascii():
            raise NotDeployed(f"The token has characters that no token of the Hub has: {LOG_IN}. Nothing was uploaded.")
        _say(f"Looking for the Space {plan.space}.")
        # Hardware is asked for at once: without a subscription the Hub makes no Space on its free hardware.
        api.create_repo(
            plan.space,
            repo_type="space",
            space_sdk="gradio",
            space_hardware=plan.hardware,  # type: ignore[arg-type]  # it takes the names, too
            private=plan.private or None,
            exist_ok=True,
        )
        held = api.space_info(plan.space)
    present = _names(held)
    if OURS not in present and (others := sorted(present - HUBS_OWN)):
        raise BadInput(
            f"{plan.space} holds something else, such as {fmt.printable(others[0])}: all its files would be deleted. "
            f"Choose another name, or delete that Space first: {plan.settings}"
        )
    return held


def _names(held: SpaceInfo) -> set[str]:
    return {file.rfilename for file in held.siblings or ()}


def _set(api: HfApi, plan: Plan, held: SpaceInfo) -> None:
    """Before the files, so that the first start has the variables."""
    if plan.private and not held.private:
        api.update_repo_settings(plan.space, repo_type="space", private=True)
    given = api.get_space_variables(plan.space) if plan.variables else {}
    for key, value in plan.variables.items():
        if key not in given or given[key].value != value:
            api.add_space_variable(plan.space, key, value)
        _say(f"{key}={value}. To push there the Space needs a secret HF_TOKEN: {plan.settings}")


def _choose_hardware(api: HfApi, plan: Plan) -> str | None:
    """Before the files, which are written for it: the Hub may refuse it. Returns what the Space has by then."""
    runtime = api.get_space_runtime(plan.space)
    has = runtime.requested_hardware or runtime.hardware
    if plan.hardware is None or plan.hardware == has:
        return has
    _say(f"Asking for {plan.hardware}.")
    api.request_space_hardware(plan.space, plan.hardware)  # type: ignore[arg-type]  # it takes the names, too
    return plan.hardware


def _upload(api: HfApi, plan: Plan, held: SpaceInfo, hardware: str | None) -> None:
    """In one commit: `upload_folder` makes several of so many files, and each of them starts a build."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    size = sum((ROOT / file).stat().st_size for file in plan.files)
    _say(f"Uploading {len(plan.files)} files, {_megabytes(size)}.")
    gone = sorted(_names(held) - {*plan.files, ".gitattributes"})
    sent: dict[str, Path | bytes] = {file: ROOT / file for file in plan.files}
    for file in FOR_ITS_HARDWARE & sent.keys():
        sent[file] = for_space(file, (ROOT / file).read_text(encoding="utf-8"), hardware).encode()
    commit = api.create_commit(
        plan.space,
        [*map(CommitOperationDelete, gone), *(CommitOperationAdd(file, data) for file, data in sent.items())],
        commit_message=f"Worth Compiling? {current_commit()}".strip(),
        repo_type="space",
    )
    if commit.oid != held.sha:  # of equal files the library makes no commit, and says so
        _say("The Space builds now, which takes minutes. Its page shows the log.")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


LOG_IN = "run `hf auth login`, or set HF_TOKEN, with a token that may write"

ADVICE = {
    401: f"The Hub refused the token: {LOG_IN}.",
    402: "The Hub asks for a payment: paid hardware needs a payment method, and the free one may need a subscription "
    "(https://huggingface.co/settings/billing).",
    403: "The Hub does not let you write there: the owner must be you or an organisation of yours, and the token must "
    "be allowed to write.",
    404: "The Hub does not show it to you: the owner must be you or an organisation of yours, and the token must be "
    "allowed to read and write.",
    **dict.fromkeys((409, 412), "The Space was changed by something else at the same time: try again."),
    429: "The Hub had too many requests: try again in some minutes.",
}
"""What to do about a status of the Hub."""


UNSENT = ("ConnectError", "ConnectTimeout", "UnsupportedProtocol")
"""Failures of the library's transport by which nothing can have reached the Hub. By name: its releases have several."""
IN_DOUBT = "If only the Hub's answer was lost, it has done what was asked last; the same command again does no harm."


@contextmanager
def _asking(left: str) -> Iterator[None]:
    """Turns whatever the Hub and its library raise into NotDeployed; `left` says what is at the Hub by then."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        yield
    except NotDeployed:
        raise
    except Exception as error:  # the library, its transport and its uploader have some ten kinds
        cause = error.__cause__ if type(error) is RuntimeError and error.__cause__ else error  # of a file in an upload
        if isinstance(cause, HfHubHTTPError):
            status = cause.response.status_code
            advice = ADVICE.get(status, f"The Hub did not take it{': try again later' if status >= 500 else ''}.")
            answer = f" It answered {status}: {_line(cause.server_message or 'nothing')}."
            raise NotDeployed(f"{advice}{answer} {left}{f' {IN_DOUBT}' if status >= 500 else ''}") from error
        if isinstance(cause, OfflineModeIsEnabled):
            raise NotDeployed(f"HF_HUB_OFFLINE forbids to ask the Hub: unset it. {left}") from error
        if isinstance(cause, OSError) and cause.filename is not None:
            name = fmt.printable(str(cause.filename))
            raise NotDeployed(f"{name} cannot be read or written here: {cause.strerror}. {left}") from error
        kind = type(cause).__name__
        raise NotDeployed(
            f"Sending to the Hub at {hub.endpoint()} failed: {kind}{_line(f': {cause}' if str(cause) else '')}. "
            f"Check the network, and try again. {left}{'' if kind in UNSENT else f' {IN_DOUBT}'}"
        ) from error


def _line(text: str) -> str:
    """On one line, and not endless."""
    return fmt.printable(" ".join(text.split())[:SAID]).rstrip(".")
