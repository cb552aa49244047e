"""`python -m demo sweep`: the runs of a grid, resumed from what is stored."""

import argparse
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from demo.cli import common, terminal
from demo.core import format as fmt
from demo.core.spec import BadInput, RunSpec
from demo.present import markdown, verdict
from demo.runs.forecast import SweepForecast, forecast_sweep
from demo.store.history import History
from demo.sweep import grid as grids
from demo.sweep.grid import AXES, KINDS, PRESETS, SETTINGS, Cell, make_cells, make_specs, unfinished
from demo.sweep.run_grid import Done, Event, Timing, run_cells


def add_to(commands: Any) -> None:
    parser = commands.add_parser("sweep", help="run a grid: checkpoints x batch sizes x modes x dtypes")
    parser.set_defaults(command=_sweep)
    _add_grid(parser)
    scene = "the picture for every cell that sees one (default: a drawn scene, 4:3)"
    parser.add_argument("--image", metavar="PATH", help=scene)
    parser.add_argument("--out", metavar="FILE", help=f"write the table to a file: {', '.join(KINDS)}")
    parser.add_argument("--export-markdown", metavar="FILE", help="write the table as Markdown")
    parser.add_argument(
        "--measured", action="store_true", help="make it this project's own table of the device: assets/measured/"
    )
    parser.add_argument("--fresh", action="store_true", help="run the cells that are stored already, too")
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="ray: over a Ray cluster")
    parser.add_argument("--address", help="of the Ray cluster; auto: the one that this machine is part of")
    parser.add_argument("--gpu-type", action="append", default=[], help="with ray: T4, A100, ...; several: on each")
    parser.add_argument("--yes", action="store_true", help="on a terminal: start without asking")


def _add_grid(parser: argparse.ArgumentParser) -> None:
    either = parser.add_mutually_exclusive_group()
    either.add_argument("file", nargs="?", metavar="FILE.yaml", help="the grid: lists and settings by their names")
    either.add_argument("--preset", choices=list(PRESETS), help="a grid by its name")
    for name, one in AXES.items():
        text = f"{one.replace('_', ' ')}, as of `run`; give it several times, or with commas, for more"
        parser.add_argument(f"--{one.replace('_', '-')}", dest=name, action="append", metavar=one.upper(), help=text)
    parser.add_argument("--task", help="only for checkpoints that are not in the list")
    common.add_options(parser, SETTINGS)


def grid_specs(options: argparse.Namespace) -> tuple[RunSpec, ...]:
    """Returns the specs of the preset or the file, whose entries the options replace. Raises BadInput."""
    given = dict(PRESETS[options.preset]) if options.preset else {}
    if options.file:
        given = _read_yaml(Path(options.file))
    for name in AXES:
        if (values := getattr(options, name)) is not None:
            given[name] = [part for value in values for part in value.split(",") if part.strip()]
    given |= common.given_options(options, SETTINGS)
    if options.task is not None:
        given["task"] = options.task
    if not given:
        raise BadInput("No grid was given. Name a preset (--preset smoke), a YAML file, or --checkpoint.")
    return make_specs(given, options.file or "The sweep", folders=True)


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml  # here, where a grid is in a file

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInput(f"The grid {str(path)!r} cannot be read: {' '.join(str(error).split())}.") from error
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise BadInput(f"{path} must hold names with values, such as: checkpoints: [shapes-vit].")
    return content


def _sweep(options: argparse.Namespace) -> int:
    specs = grid_specs(options)
    image, out = common.picture(options.image, specs), Path(options.out) if options.out else None
    if out:
        grids.check_table(out)
    text = common.file_to_write(options.export_markdown, "table")
    if options.engine != "ray" and (options.address or options.gpu_type):
        raise BadInput("--address and --gpu-type are for a cluster: give --engine ray with them.")
    with _planned(options, specs, image) as (cells, plan, run):
        print(plan, file=sys.stderr)
        if not options.yes and not common.confirm():
            return common.OK
        try:
            with closing(run(image, threading.Event())) as events:
                _follow(events, cells)
        except KeyboardInterrupt:
            print("Stopped. What is done is stored: the same command without --fresh goes on.", file=sys.stderr)
            raise
    if out is not None:
        grids.write_table(out, cells)
    if text is not None:
        rows = ((cell.spec, cell.result, cell.value) for cell in cells)
        text.write_text(markdown.of_cells(rows), encoding="utf-8")
    if options.measured:
        print(f"Kept as {grids.write_device_table(cells)}: `published` and the page show it.", file=sys.stderr)
    return common.OK if any(cell.result and cell.result.status == "ok" for cell in cells) else common.FAILED


Planned = tuple[list[Cell], str, Callable[[Path, threading.Event], Generator[Event, None, None]]]
"""The cells of a sweep, what is said before it starts, and what runs them on a picture until the event is set."""


@contextmanager
def _planned(options: argparse.Namespace, specs: Sequence[RunSpec], image: Path) -> Iterator[Planned]:
    """The sweep over a Ray cluster or on this machine."""
    from demo.runs.runner import Runner
    from demo.sweep import ray_cluster as cluster

    history = History()
    if options.engine == "ray":
        with cluster.connect(options.address):
            machines = cluster.machines(options.gpu_type)
            cells = cluster.make_cells(specs, machines, history.all(), image, options.fresh)
            yield cells, plan_text(cells), partial(cluster.run_cells, cells, history)
        return
    with closing(Runner(history)) as runner:
        machine, stored = runner.inspect(), history.all()
        cells = make_cells(specs, stored, machine, image, options.fresh)
        plan = plan_text(cells, forecast_sweep(unfinished(cells), stored, machine))
        yield cells, plan, partial(run_cells, cells, runner)


def _follow(events: Iterable[Event], cells: list[Cell]) -> None:
    """Fills `cells` as their values come, with a line for each and one that rewrites itself for the one in hand; prints
    the table at the end."""
    line = terminal.ProgressLine(sys.stderr)
    try:
        for event in events:
            if isinstance(event, Timing) and sys.stderr.isatty():
                line.show(event.progress)
            elif isinstance(event, Done):
                cells[event.place] = event.cell
                line.say(f"[{sum(cell.done for cell in cells)}/{len(cells)}] {cell_text(event.cell)}")
    finally:
        line.end()
    print(table(cells))


def plan_text(cells: list[Cell], forecast: SweepForecast | None = None) -> str:
    """'72 cells, 12 of them stored already: 60 to run, about 41 min (a rough guess for 48 of them).'"""
    todo = len(unfinished(cells))
    said = f"{fmt.count(len(cells), 'cell')}, {len(cells) - todo} of them stored already: {todo} to run"
    if forecast is not None and todo:
        guess = f" (a rough guess for {forecast.guessed} of them)" if forecast.guessed else ""
        said = f"{said}, about {fmt.rounded_duration(forecast.seconds)}{guess}"
    return f"{said}."


def cell_text(cell: Cell) -> str:
    spec = cell.spec
    return f"{spec.checkpoint}, batch {spec.batch_size}, {spec.mode}, {spec.dtype}: {cell.value}"


def table(cells: list[Cell]) -> str:
    """The grid as text, one line a cell."""
    rows = [("checkpoint", "batch", "mode", "dtype", "eager → compiled", "speed-up", "id")]
    for cell in cells:
        asked = (cell.spec.checkpoint, str(cell.spec.batch_size), cell.spec.mode, cell.spec.dtype)
        times, id = (verdict.times(cell.result), cell.result.id) if cell.result else ("", "")
        rows.append((*asked, times, cell.value[:60] or "not run", id))
    return "\n".join(terminal.table(rows))
