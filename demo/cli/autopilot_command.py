"""`python -m demo autopilot`: the fastest setting of a checkpoint that still agrees with plain eager."""

from __future__ import annotations

import argparse
import shlex
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from demo.cli import sweep_command as sweep_command
from demo.cli import terminal
from demo.cli.common import FAILED, OK, PROGRAM, add_options, file_to_write, flag, given_options, picture, wanted
from demo.core import catalog
from demo.core import format as fmt
from demo.core.errors import BadInput
from demo.core.result import RunResult
from demo.core.spec import SWITCHES, RunSpec
from demo.present import sentences
from demo.present.script import script
from demo.runs.forecast import forecast_sweep
from demo.runs.precompiler import Precompiler
from demo.store.history import History
from demo.sweep import autopilot
from demo.sweep.autopilot import Answer
from demo.sweep.cells import make_cells, unfinished
from demo.sweep.run_grid import Done

ASKED = ("batch_size", "device", "weights", "text", "prompt", "tokens")
"""The options of a run that are asked for; the others are what the search tries."""


def add_to(commands: Any) -> None:
    parser = commands.add_parser("autopilot", help="find the fastest setting that still agrees with plain eager")
    parser.set_defaults(command=_autopilot)
    parser.add_argument("--checkpoint", metavar="ID", help="a name of `list`, a hub id or a local folder")
    parser.add_argument("--task", help="only for a checkpoint that is not in the list")
    add_options(parser, ASKED)
    parser.add_argument("--image", metavar="PATH", help="the picture (default: a drawn scene, 4:3)")
    for name in ("mode", "dtype"):
        default = "all" if name == "mode" else "all on a GPU, float32 on a CPU"
        parser.add_argument(
            f"--{name}", action="append", metavar=name.upper(), help=f"try only these; default: {default}"
        )
    parser.add_argument("--script", metavar="FILE.py", help="write the winner as a script of its own")
    parser.add_argument("--yes", action="store_true", help="on a terminal: start without asking")


def _autopilot(options: argparse.Namespace) -> int:
    from demo.runs.runner import Runner

    asked = given_options(options, ASKED)
    spec = catalog.make_spec(options.checkpoint or "", options.task, folders=True, **asked)
    image = picture(options.image, [spec])
    to = file_to_write(options.script, "script")
    history = History()
    with closing(Runner(history)) as runner:
        machine = runner.inspect()
        known = autopilot.candidates(spec, machine)
        dtypes = options.dtype or (["float32"] if known[0].device == "cpu" else None)
        chosen = _chosen(known, mode=options.mode, dtype=dtypes)
        stored = history.all(search=spec.checkpoint)
        search, last = autopilot.planned(spec, chosen, machine)
        plan = make_cells(search, stored, machine, image) + make_cells(last, stored, machine, image, fresh=True)
        told = sweep_command.plan_text(plan, forecast_sweep(unfinished(plan), stored, machine), "run")
        print(f"{len(chosen)} settings to choose from; {told}", file=sys.stderr)
        if not options.yes and not wanted():
            return OK
        steps = autopilot.run(spec, chosen, runner, machine, stored, image, threading.Event(), Precompiler())
        try:
            with closing(steps):
                answer = _followed(steps)
        except KeyboardInterrupt:
            print("Stopped: what was tried is stored, and the same command goes on from there.", file=sys.stderr)
            raise
    print(report(answer, options.image))
    if to is not None and answer.winner is not None:
        _write_script(to, answer.winner)
    return OK if answer.verdict == "faster" else FAILED


def _chosen(candidates: Sequence[RunSpec], **only: list[str] | None) -> list[RunSpec]:
    """The candidates with one of the values that `only` gives for a field. Raises BadInput for a value of none."""
    chosen = list(candidates)
    for name, values in only.items():
        offered = dict.fromkeys(getattr(one, name) for one in candidates)
        for value in values or ():
            if value not in offered:
                device = candidates[0].device
                raise BadInput(f"There is no {name} {value!r} to try here ({device}). Allowed: {', '.join(offered)}.")
        chosen = [one for one in chosen if not values or getattr(one, name) in values]
    return chosen


def _write_script(path: Path, winner: RunResult) -> None:
    """Raises BadInput where it cannot be written, or no script can repeat the run."""
    try:
        path.write_text(script(winner), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"The script was not written: {error}. python -m demo script {winner.id} prints it.") from error
    print(f"The winner's script lies in {path}.", file=sys.stderr)


def _followed(steps: Any) -> Answer:
    told = time.monotonic()
    while True:
        try:
            step = next(steps)
        except StopIteration as stopped:
            answer: Answer = stopped.value
            return answer
        if time.monotonic() - told >= terminal.SPARSE_SECONDS:
            told = time.monotonic()
            print(f"{step.what}: still under way", file=sys.stderr, flush=True)
        if isinstance(step.event, Done):
            told = time.monotonic()
            print(f"{step.what} · {setting(step.event.cell.spec)}: {_told(step.event)}", file=sys.stderr, flush=True)


def _told(event: Done) -> str:
    result = event.cell.result
    return sentences.times(result) if result and result.failure is None else event.cell.value


def setting(spec: RunSpec) -> str:
    """'default, bfloat16, channels last, attention sdpa'."""
    switches = [name.replace("_", " ") for name in SWITCHES if getattr(spec, name)]
    built = ["package"] if spec.compiler == "aot" else []
    return ", ".join([spec.mode, spec.dtype, *built, *switches, f"attention {spec.attention}"])


def report(answer: Answer, image: str | None = None) -> str:
    """The answer, what it rests on, everything that was tried, and how to run the winner again on this picture."""
    lines = [_headline(answer)]
    if answer.ratio is not None and answer.ratio.vague:
        lines.append(
            f"The {autopilot.ROUNDS} runs of each, in alternation, differ too much from one another for a useful "
            "interval. Close other programs and run it again."
        )
    elif answer.ratio is not None:
        lines.append(
            f"{' to '.join(fmt.ratio_ends(answer.ratio.low, answer.ratio.high))}, 95 % confidence for a rerun, from "
            f"{autopilot.ROUNDS} runs of each in alternation, each in a process of its own."
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
        lines += [f"  {again(answer.winner.spec, image)}", f"  python -m demo script {answer.winner.id} > run.py"]
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
        case "same":
            return f"No difference: the best setting, {named}, is as fast as plain eager float32."
        case _:
            return f"The best setting, {named}, cannot be told from plain eager float32 with this many runs."


def again(spec: RunSpec, image: str | None = None) -> str:
    """The command that runs exactly this, on this picture or on the one that both commands take by themselves."""
    asked = catalog.arguments(spec)
    parts = [*PROGRAM.split(), "run", "--checkpoint", asked.pop("checkpoint")]
    parts += ["--task", asked.pop("task")] if "task" in asked else []
    for name, value in asked.items():
        parts += flag(name, value)
    parts += ["--image", image] if image else []
    return shlex.join(parts)
