"""`python -m demo shapes`: replays a log of input sizes in eager and with each value of torch.compile's `dynamic`.

A further replay compiles for padded batch sizes (`STRATEGIES`).
"""

import argparse
import dataclasses
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core import format as fmt, limits
from ..core.codec import plain
from ..core.options import TEXT_GENERATION, BadInput, RunSpec
from ..core.program import PACKAGE
from ..core.size_log import InputSize, read_log
from ..runs.process import child_process, ending
from . import common, terminal

MODULE = f"{PACKAGE}.backend.replay"
RUN_OPTIONS = ("device", "weights", "mode", "dtype", "threads", "text", "prompt")
"""The options of a run that `shapes` accepts."""
SPREAD = 0.1
"""A total up to 10 % above the least one counts as equal to it, because each is from one process only."""
STRATEGIES = ("eager", "auto", "on", "off", "padded")
"""Eager, the values of `dynamic`, and "padded": as "off", with each batch size rounded up to a power of two."""


@dataclass(frozen=True)
class Replay:
    """The times of the calls in a log of input sizes, replayed under one of the `STRATEGIES`."""

    strategy: str
    seconds: Sequence[float] = ()
    """The time of each call, including any compile."""
    waited: Sequence[bool] = ()
    """For each call, whether it compiled or recorded a CUDA graph."""
    recompiles: int = 0
    """How many times dynamo compiled a function again."""
    fallbacks: int = 0
    """How many functions dynamo left to eager."""
    failed: str = ""
    """Why the replay failed: 'the process was killed by signal SIGKILL'; '' if it did not."""

    @property
    def total(self) -> float:
        return sum(self.seconds)


def add_to(commands: common.Commands) -> None:
    parser = commands.add_parser("shapes", help="replay a log of input sizes: which `dynamic` is the cheapest?")
    parser.set_defaults(command=_shapes)
    parser.add_argument("file", metavar="FILE", help="a line a call: batch [height width], or batch and prompt tokens")
    common.add_model(parser, own=False)  # the function of an own model decides its sizes itself
    common.add_options(parser, RUN_OPTIONS)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, and nothing else")


def _shapes(options: argparse.Namespace) -> int:
    spec = common.spec_of_options(options, common.option_values(options, RUN_OPTIONS))
    image = common.input_picture(options.image, [spec])
    sizes = read_log(common.read_text(options.file, "log"), spec.task == TEXT_GENERATION)
    replays = []
    for strategy in STRATEGIES:
        print(f"{strategy}: {len(sizes)} calls", file=sys.stderr)
        replays.append(replay_in_process(spec, image, sizes, strategy))
    best = cheapest(replays)
    if options.json:
        print(common.json_text({"checkpoint": spec.checkpoint, "calls": len(sizes), "cheapest": best, "rows": replays}))
    else:
        print(shapes_report(replays, best))
    return common.OK if best else common.FAILED


def replay_in_process(spec: RunSpec, image: Path, sizes: tuple[InputSize, ...], strategy: str) -> Replay:
    """Times calls with the logged `sizes` under one of the `STRATEGIES`, in a new process with an empty compile cache.

    If the replay fails or exceeds the time limit of a run, the reason is in `failed`. Raises BadInput if the model
    cannot be called with these sizes.
    """
    job = {
        "spec": plain(dataclasses.replace(spec, dynamic=strategy if strategy in ("auto", "on") else "off")),
        "input_file": str(image.resolve()),
        "sizes": plain([size.pad() for size in sizes] if strategy == "padded" else sizes),
        "compiled": strategy != "eager",
    }
    limit = limits.current().seconds
    with child_process(MODULE) as child:
        child.send(job | {"cache_folder": tempfile.mkdtemp(dir=child.folder)})
        code = child.exit_code(limit)
        lines, words = child.output(), child.last_words().splitlines()
    if code is None:
        return Replay(strategy, failed=f"stopped after {fmt.duration(limit)}, the limit of one run")
    if code != 0 or not lines:
        reason = words[-1][:200] if words and code != -signal.SIGKILL else f"the process {ending(code)}"
        return Replay(strategy, failed=reason)
    answer = json.loads(lines[-1])
    if "refused" in answer:
        raise BadInput(answer["refused"])
    return Replay(strategy, **answer)


def cheapest(replays: list[Replay]) -> list[str]:
    """Returns the fastest strategies: the one with the least total time, then all within 10 % of it.

    Returns [] if every replay failed.
    """
    complete = sorted((replay for replay in replays if not replay.failed), key=lambda replay: replay.total)
    return [replay.strategy for replay in complete if replay.total <= complete[0].total * (1 + SPREAD)]


def shapes_report(replays: list[Replay], best: list[str]) -> str:
    head = ("strategy", "total", "median", "99th percentile", "recompiles", "left to eager", "calls that waited")
    table = terminal.table([head, *map(_row, replays)])
    if not best:
        return "\n".join(table)
    answer = f"Cheapest for this log: {best[0]}."
    if equal := ", ".join(best[1:]):
        answer += f" Within {fmt.percent(SPREAD)} of it, which one process each cannot tell apart: {equal}."
    return "\n".join([*table, "", answer])


def _row(replay: Replay) -> tuple[str, ...]:
    if replay.failed:
        return (replay.strategy, f"failed: {replay.failed}", *[""] * 5)
    median, p99 = np.percentile(replay.seconds, [50, 99])
    times = (fmt.duration(replay.total), fmt.latency(median), fmt.latency(p99))
    waited = fmt.percent(sum(replay.waited) / len(replay.waited))
    return (replay.strategy, *times, str(replay.recompiles), str(replay.fallbacks), waited)
