"""`python -m demo doctor`: would a run work on this machine, and what is in the way."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Any

from demo.cli import terminal
from demo.cli.common import FAILED, OK, to_json


def add_to(commands: Any) -> None:
    parser = commands.add_parser("doctor", help="would a run work on this machine, and what is in the way")
    parser.set_defaults(command=_doctor)
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.add_argument("--gpu", action="store_true", help="check how the GPU measures and compiles, in two minutes")


def _doctor(options: argparse.Namespace) -> int:
    if options.gpu:
        return FAILED if subprocess.run([sys.executable, "-m", "demo.backend.gpu_check"]).returncode else OK
    from demo.cli.diagnosis import examine  # imports the Hub's client, which no other command needs

    diagnosis = examine()
    print(to_json(diagnosis) if options.json else terminal.doctor_report(diagnosis))
    return FAILED if diagnosis.problems else OK
