"""`python -m demo sweep`: runs a grid of settings, without the runs whose results are stored already."""

import argparse
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from ..core import cores, format as fmt
from ..core.options import BadInput, OptionValues, RunSpec
from ..present import markdown
from ..present.report import Report
from ..runs.forecast import SweepForecast, forecast_sweep
from ..store.history import History
from ..sweep import grid as grids
from ..sweep.grid import AXES, PRESETS, SETTINGS, TABLE_ENDINGS, GridRun, make_cells, make_specs, specs_to_run
from ..sweep.run_grid import Done, Event, run_cells
from . import common, terminal


def add_to(commands: common.Commands) -> None:
    parser = commands.add_parser("sweep", help="run a grid: checkpoints x batch sizes x modes x dtypes")
    parser.set_defaults(command=_sweep)
    either = parser.add_mutually_exclusive_group()
    either.add_argument("file", nargs="?", metavar="FILE.yaml", help="the grid: lists and settings by their names")
    either.add_argument("--preset", choices=list(PRESETS), help="a grid by its name")
    for axis, option in AXES.items():
        text = f"{option.replace('_', ' ')}, as of `run`; give it several times, or with commas, for more"
        flag = f"--{option.replace('_', '-')}"
        parser.add_argument(flag, dest=axis, action="append", metavar=option.upper(), help=text)
    parser.add_argument("--task", help="only for checkpoints that are not in the list")
    common.add_options(parser, SETTINGS)
    text = "the picture for every cell that sees one (default: a drawn scene, 4:3)"
    parser.add_argument("--image", metavar="PATH", help=text)
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help=f"write the table to a file: {', '.join(TABLE_ENDINGS)}"
    )
    text = "write the table as Markdown"
    parser.add_argument("--export-markdown", type=common.output_file, metavar="FILE", help=text)
    parser.add_argument("--fresh", action="store_true", help="run the cells that are stored already, too")
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="ray: over a Ray cluster")
    text = "of the Ray cluster; auto: the one that this machine is part of; without it a new one is started here"
    parser.add_argument("--address", help=text)
    parser.add_argument("--gpu-type", action="append", default=[], help="with ray: T4, A100, ...; several: on each")


def grid_specs(options: argparse.Namespace) -> tuple[RunSpec, ...]:
    """Returns the specs of a sweep, from the preset or the YAML file. Options that the user typed replace its entries.

    Raises BadInput for wrong values, or if there is neither a preset, a file nor an option.
    """
    content: OptionValues = dict(PRESETS[options.preset]) if options.preset else {}
    if options.file:
        content = _read_yaml(options.file)
    content |= common.option_values(options, ["task", *SETTINGS])
    for axis in AXES:
        if (values := getattr(options, axis)) is not None:
            content[axis] = [part for value in values for part in value.split(",") if part.strip()]
    if not content:
        raise BadInput("No grid was given. Name a preset (--preset smoke), a YAML file, or --checkpoint.")
    return make_specs(content, options.file or "The sweep", folders=True)


def _read_yaml(file: str) -> OptionValues:
    import yaml  # only a grid in a file needs PyYAML

    try:
        content = yaml.safe_load(common.read_text(file, "grid"))
    except yaml.YAMLError as error:
        raise BadInput(f"The grid {file!r} is no YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(content, dict):
        raise BadInput(f"{file} must hold names with values, such as: checkpoints: [shapes-vit].")
    return content


def _sweep(options: argparse.Namespace) -> int:
    specs = grid_specs(options)
    image = common.input_picture(options.image, specs)
    if options.out is not None:
        grids.check_table(options.out)
    if options.engine != "ray" and (options.address or options.gpu_type):
        raise BadInput("--address and --gpu-type are for a cluster: give --engine ray with them.")
    cells: list[GridRun] = []
    try:
        stopped = _run_cells(options, specs, image, cells)
    finally:
        if cells:
            _write_tables(options, cells)
    good = any(cell.result and cell.result.status == "ok" for cell in cells)
    return stopped or (common.OK if good else common.FAILED)


def _write_tables(options: argparse.Namespace, cells: list[GridRun]) -> None:
    print(cells_table(cells))
    if options.out is not None:
        grids.write_table(options.out, cells)
    if options.export_markdown is not None:
        rows = ((cell.spec, cell.result, cell.value) for cell in cells)
        options.export_markdown.write_text(markdown.of_cells(rows), encoding="utf-8")


def _run_cells(options: argparse.Namespace, specs: Sequence[RunSpec], image: Path, cells: list[GridRun]) -> int:
    """Runs the specs on this machine or on a Ray cluster, and adds each run with its result to the empty list `cells`.

    Returns the exit code for the signal that stopped the sweep; 0 if none did.
    """
    from ..runs.runner import Runner
    from ..sweep import ray_cluster as cluster

    history = History()
    with ExitStack() as stack:
        if options.engine == "ray":
            print(f"Connecting to Ray (address: {options.address or 'this machine'}) ...", file=sys.stderr)
            stack.enter_context(cluster.connect(options.address))
            machines = cluster.machines(options.gpu_type)
            cells += cluster.make_cells(specs, machines, history.all(), image, options.fresh)
            forecast = None
        else:
            runner = stack.enter_context(closing(Runner(history)))
            machine, stored = runner.inspect(), history.all()
            cells += make_cells(specs, stored, machine, image, options.fresh)
            forecast = forecast_sweep(specs_to_run(cells), stored, machine, cores.crowd())
        print(plan_text(cells, forecast), file=sys.stderr)
        stop = stack.enter_context(common.stop_by_signal())
        events: Generator[Event, None, None] = (
            cluster.run_cells(cells, history, image, stop)
            if options.engine == "ray"
            else run_cells(cells, runner, image, stop)
        )
        expected = forecast.seconds if forecast is not None else None
        terminal.follow(events, partial(_fill, cells), stop, goes_on=not options.fresh, expected_seconds=expected)
    return stop.exit_code


def _fill(cells: list[GridRun], event: Done) -> str:
    cells[event.place] = event.cell
    return f"[{sum(cell.done for cell in cells)}/{len(cells)}] {cell_text(event.cell)}"


def plan_text(cells: list[GridRun], forecast: SweepForecast | None) -> str:
    """Returns '72 cells, 12 of them stored already: 60 to run, about 41 min (a rough guess for 48 of them).'

    `cells`: the runs of the sweep. `forecast`: None if the time is not known, as on a Ray cluster.
    """
    to_run = len(specs_to_run(cells))
    text = f"{fmt.count(len(cells), 'cell')}, {len(cells) - to_run} of them stored already: {to_run} to run"
    if forecast is not None and to_run:
        guess = f" (a rough guess for {forecast.guessed} of them)" if forecast.guessed else ""
        text = f"{text}, about {fmt.rounded_duration(forecast.seconds)}{guess}"
    return f"{text}."


def cell_text(cell: GridRun) -> str:
    spec = cell.spec
    return f"{spec.checkpoint}, batch {spec.batch_size}, {spec.mode}, {spec.dtype}: {cell.value}"


def cells_table(cells: list[GridRun]) -> str:
    rows = [("checkpoint", "batch", "mode", "dtype", "eager → compiled", "speed-up", "id")]
    for cell in cells:
        settings = (cell.spec.checkpoint, str(cell.spec.batch_size), cell.spec.mode, cell.spec.dtype)
        times, id = (Report(cell.result).times, cell.result.id) if cell.result else ("", "")
        rows.append((*settings, times, cell.value[:60] or "not run", id))
    return "\n".join(terminal.table(rows))
