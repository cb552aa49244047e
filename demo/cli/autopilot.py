"""`python -m demo autopilot`: the fastest setting of a checkpoint that still agrees with plain eager."""

from __future__ import annotations

import argparse
import shlex
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from demo.cli import sweep as sweep_command
from demo.cli import terminal
from demo.cli.common import FAILED, OK, picture
from demo.core import catalog
from demo.core import format as fmt
from demo.core.result import BadInput, RunResult, RunSpec
from demo.present import section_texts as words
from demo.present.script import script
from demo.runs.precompiler import Precompiler
from demo.store.export import check_place
from demo.store.history import History
from demo.sweep import autopilot
from demo.sweep import grid as sweep
from demo.sweep.autopilot import Answer
from demo.sweep.grid import Done

SETTINGS = {"mode": "--mode", "dtype": "--dtype", "attention": "--attention"}


def add_to(commands: Any) -> None:
    parser = commands.add_parser("autopilot", help="find the fastest setting that still agrees with plain eager")
    parser.set_defaults(command=_autopilot)
    parser.add_argument("--checkpoint", metavar="ID", help="a name of `list`, a hub id or a local folder")
    parser.add_argument("--task", help="only for a checkpoint that is not in the list")
    parser.add_argument("--batch-size", metavar="N", default="1", help="default: 1")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--weights", default="pretrained", help="pretrained or random")
    parser.add_argument("--text", action="append", metavar="QUERIES", help="what to look for, separated by commas")
    parser.add_argument("--image", metavar="PATH", help="the picture (default: a drawn scene, 4:3)")
    for name in ("mode", "dtype"):
        parser.add_argument(f"--{name}", action="append", metavar=name.upper(), help="try only these; default: all")
    parser.add_argument("--script", metavar="FILE.py", help="write the winner as a script of its own")


def _autopilot(options: argparse.Namespace) -> int:
    from demo.runs.runner import Runner

    spec = catalog.make_spec(
        options.checkpoint or "",
        options.task,
        batch_size=options.batch_size,
        device=options.device,
        weights=options.weights,
        text=",".join(options.text or ()),
        folders=True,
    )
    image = picture(options.image or sweep.PICTURE)
    to = _script_file(options.script)
    history = History()
    with closing(Runner(history)) as runner:
        machine = runner.inspect()
        chosen = _chosen(autopilot.candidates(spec, machine), mode=options.mode, dtype=options.dtype)
        stored = history.all(search=spec.checkpoint)
        search, last = autopilot.planned(spec, chosen, machine)
        plan = sweep.cells(search, stored, machine, image) + sweep.cells(last, stored, machine, image, fresh=True)
        told = sweep_command.plan_text(plan, sweep.forecast(plan, stored, machine), "run")
        print(f"{len(chosen)} settings to choose from; {told}", file=sys.stderr)
        steps = autopilot.run(spec, chosen, runner, machine, stored, image, threading.Event(), Precompiler())
        with closing(steps):
            answer = _followed(steps)
    print(report(answer))
    if to is not None and answer.winner is not None:
        _write_script(to, answer.winner)
    return OK if answer.verdict == "faster" else FAILED


def _chosen(candidates: Sequence[RunSpec], **only: list[str] | None) -> list[RunSpec]:
    """Those with one of the values that `only` gives for a field. Raises BadInput for one that no candidate has."""
    chosen = list(candidates)
    for name, values in only.items():
        offered = dict.fromkeys(getattr(one, name) for one in candidates)
        for value in values or ():
            if value not in offered:
                device = candidates[0].device
                raise BadInput(f"There is no {name} {value!r} to try here ({device}). Allowed: {', '.join(offered)}.")
        chosen = [one for one in chosen if not values or getattr(one, name) in values]
    return chosen


def _script_file(given: str | None) -> Path | None:
    """Raises BadInput, before anything is run, where the file could not be written."""
    if given is None:
        return None
    path = Path(given)
    check_place(path, "script")
    return path


def _write_script(path: Path, winner: RunResult) -> None:
    """Raises BadInput where it cannot be written, or no script can repeat the run."""
    try:
        path.write_text(script(winner), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"The script was not written: {error}. python -m demo script {winner.id} prints it.") from error
    print(f"The winner's script lies in {path}.", file=sys.stderr)


def _followed(steps: Any) -> Answer:
    while True:
        try:
            step = next(steps)
        except StopIteration as stopped:
            answer: Answer = stopped.value
            return answer
        if isinstance(step.event, Done):
            print(f"{step.what} · {setting(step.event.cell.spec)}: {_told(step.event)}", file=sys.stderr, flush=True)


def _told(event: Done) -> str:
    result = event.cell.result
    return words.times(result) if result and result.failure is None else event.cell.value


def setting(spec: RunSpec) -> str:
    """'default, bfloat16, channels last, attention sdpa'."""
    parts = [spec.mode, spec.dtype, *(["channels last"] if spec.channels_last else []), f"attention {spec.attention}"]
    return ", ".join(parts)


def report(answer: Answer) -> str:
    """The answer, what it rests on, everything that was tried, and how to run the winner again."""
    lines = [_headline(answer)]
    if answer.ratio is not None:
        lines.append(
            f"{fmt.ratio_interval(answer.ratio.low, answer.ratio.high)}, 95 % confidence, from {autopilot.ROUNDS} runs "
            "of each in alternation. They are different processes whose calls cannot be paired, so this holds what "
            "differs from run to run."
        )
    lines += [line for line in (answer.fullgraph,) if line]
    head = ("rung", "setting", "compiled", "", "id")
    rows = [
        (
            str(one.rung),
            setting(one.spec),
            fmt.latency(one.seconds) if one.seconds is not None else "",
            f"out: {one.dropped}"[:80] if one.dropped else "",
            one.run_id,
        )
        for one in sorted(answer.tries, key=lambda one: (-one.rung, bool(one.dropped), one.seconds or 1e9))
    ]
    lines += ["", *terminal.table([head, *rows])]
    if answer.winner is not None:
        lines += ["", "The winner once more, and as a script of its own:"]
        lines += [f"  {again(answer.winner.spec)}", f"  python -m demo script {answer.winner.id} > run.py"]
    return "\n".join(lines)


def _headline(answer: Answer) -> str:
    if answer.winner is None:
        return "None of the settings that were tried ran and agreed with plain eager float32."
    named = setting(answer.winner.spec)
    if answer.ratio is None:
        return f"The fastest was {named}, but its last runs, or those of plain eager, failed."
    match answer.verdict:
        case "faster":
            return f"{named}: {fmt.ratio(answer.ratio.ratio)} as fast as plain eager float32, and it agrees."
        case "slower":
            return f"Plain eager float32 is the fastest: the best compiled setting, {named}, is slower."
        case _:
            return f"The best setting, {named}, cannot be told from plain eager float32 with this many runs."


def again(spec: RunSpec) -> str:
    """The command that runs exactly this."""
    parts = ["python", "-m", "demo", "run", "--checkpoint", spec.checkpoint, "--batch-size", str(spec.batch_size)]
    parts += ["--task", spec.task] if catalog.find(spec.checkpoint) is None else []
    parts += ["--device", spec.device]
    for name, option in SETTINGS.items():
        parts += [option, getattr(spec, name)]
    parts += ["--channels-last"] if spec.channels_last else []
    parts += ["--weights", spec.weights] if spec.weights != "pretrained" else []
    parts += ["--text", ", ".join(spec.text)] if spec.text else []
    return " ".join([shlex.join(parts), "--image", "PICTURE"])
