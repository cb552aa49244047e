"""Rehearses a Space without one: the app as uid 1000 in Debian 13, and prints what it tried and found.

    python3 -m tools.space_rehearsal FOLDER      as root, with debootstrap and Debian's archive in reach

FOLDER gets a Debian 13 with the packages of packages.txt and no CUDA toolkit, and the app as it is committed. The home
is read-only but for the app's folder, and the address space is limited. Python and its packages are those that run this
script, mounted read-only, so they have to load with the libraries of Debian 13. Not rehearsed: the Hub's build and its
Python, its proxy, a GPU, and a home that may be written.
"""

import os
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from gradio_client import Client

from demo.present.script import loading_lines

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = "ca-certificates libbz2-1.0 libffi8 liblzma5 libsqlite3-0 libssl3t64 zlib1g"  # of a Python from elsewhere
APP, PORT = "/home/user/app", 7861
CALL = "import torch; print('sum of the logits:', float(model(pixel_values=torch.ones(1, 3, 64, 64)).logits.sum()))"


def make(root: Path) -> str:
    """The Debian, and the app in it."""
    if not (root / "etc/debian_version").exists():
        packages = [*LIBRARIES.split(), *(ROOT / "packages.txt").read_text().split()]
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", "trixie", str(root)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    app = root / APP[1:]
    shutil.rmtree(app, ignore_errors=True)
    app.mkdir(parents=True)
    files = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(app)], input=files, check=True)
    subprocess.run(["chown", "-R", "1000:1000", str(app.parent)], check=True)
    for folder in (sys.prefix, sys.base_prefix):
        place = root / folder[1:]
        place.mkdir(parents=True, exist_ok=True)
        for one in (place, *place.parents[: len(Path(folder).parts) - 2]):
            one.chmod(one.stat().st_mode | 0o755)
    return f"Debian {(root / 'etc/debian_version').read_text().strip()}"


def inside(root: Path, *command: str) -> list[str]:
    """The command line that runs `command` in the app's folder there, and ends all its processes with itself."""
    mounts = ["mount --make-rprivate /", f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
    binds = {sys.prefix: sys.prefix, sys.base_prefix: sys.base_prefix, f"{root}/home/user": "/home/user"}
    for source, target in binds.items():
        mounts.append(f"mount --bind {source} {root}{target} && mount -o remount,bind,ro {root}{target}")
    mounts.append(f"mount --bind {root}{APP} {root}{APP} && mount -o remount,bind,rw {root}{APP}")
    names = f"HOME=/home/user PATH={sys.prefix}/bin:/usr/bin:/bin LANG=C.UTF-8 SPACE_ID=a/rehearsal HF_HUB_OFFLINE=1"
    names += f" GRADIO_SERVER_PORT={PORT} GRADIO_ANALYTICS_ENABLED=False"
    there = shlex.quote(f"cd {APP} && exec {shlex.join(command)}")
    run = f"prlimit --as={15 << 30} chroot --userspec=1000:1000 {root} env -i {names} sh -c {there}"
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", " && ".join([*mounts, f"exec {run}"])]


def said(command: list[str], lines: int = 1) -> str:
    """The exit code of a command, and its last lines."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    return f"exit {done.returncode}: " + " / ".join(filter(None, done.stdout.splitlines()[-lines:]))


def page() -> str:
    for _ in range(600):
        try:
            return f"{len(urllib.request.urlopen(f'http://127.0.0.1:{PORT}', timeout=10).read())} bytes"
        except OSError:
            time.sleep(0.2)
    return "no answer in two minutes"


def run() -> str:
    result = Client(f"http://127.0.0.1:{PORT}", verbose=False).predict(checkpoint="shapes-vit", api_name="/benchmark")
    return f"{result['status']}, {result['eager_ms']:.2f} to {result['compiled_ms']:.2f} ms; {result['warnings']}"


def tried(what: str, step: Callable[[], str]) -> None:
    started = time.monotonic()
    try:
        found = step()
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    print(f"{what} ({time.monotonic() - started:.0f} s): {found}", flush=True)


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    root, here = folder / "root", folder / f"built-here-{os.getpid()}.pt2"
    os.environ["WORTH_COMPILING_DATA"] = str(folder / "data")  # of what runs outside
    tried("make the system", lambda: make(root))
    tried("user and C library", lambda: said(inside(root, "sh", "-c", "id -u; ldd --version | head -1"), 2))
    tried("doctor", lambda: said(inside(root, "python", "-m", "demo", "doctor"), 9))
    with (folder / "app.log").open("w") as log:
        app = subprocess.Popen(inside(root, "python", "app.py"), stdout=log, stderr=log)
    tried("first page", page)
    tried("first run", run)
    app.kill()
    app.wait()
    package = ["-m", "demo", "run", "--checkpoint", "shapes-vit", "--package"]
    there = root / APP[1:] / "built-there.pt2"
    tried("build a package there", lambda: said(inside(root, "python", *package, there.name), 2))
    tried("load it here", lambda: said([sys.executable, "-c", f"{loading_lines(there)}\n{CALL}"]))
    tried("build a package here", lambda: said([sys.executable, *package, str(here)], 2))
    shutil.copy(here, root / APP[1:])
    tried("load it there", lambda: said(inside(root, "python", "-c", f"{loading_lines(Path(here.name))}\n{CALL}")))


if __name__ == "__main__":
    main()
