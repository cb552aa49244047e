"""Runs a sweep over a Ray cluster: one run (cell) at a time on each GPU or, without GPUs, on each of the largest nodes.

The project must be at the same path on every node, with its requirements installed. Nodes are trusted. If a node is
lost, Ray runs its cell on another node, or waits until a node with the same type of GPU is free. If this process is
lost, the sweep ends.
"""

import dataclasses
import logging
import os
import socket
import tempfile
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..core.machine import HostInfo
from ..core.options import BadInput, RunSpec
from ..core.program import install_command
from ..core.result import RunResult
from ..runs.earlier import store
from ..runs.runner import WORKER_MODULE, Runner
from ..store.history import History
from . import grid
from .grid import GridRun
from .run_grid import Done

CONNECT_SECONDS = 5.0
POLL_SECONDS = 0.2
INSPECT_SECONDS = 180.0
"""How long to wait for the nodes' reports of their machines: other programs may be using the GPUs."""
RETRIES = 2
"""How often Ray runs a cell again after its node or process was lost."""


@contextmanager
def connect(address: str | None) -> Iterator[None]:
    """Connects to a Ray cluster during the `with` block.

    `address`: the address of the cluster, or 'auto' for the cluster that runs on this machine. None starts a new
    cluster here. Raises BadInput if Ray is not installed, or if the cluster does not answer.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))  # else a cell too large for its node has no end
    try:
        import ray
    except ImportError as error:
        raise BadInput(f"The engine ray needs Ray: {install_command('sweep')}.") from error
    try:
        place = urlsplit(f"//{(address or '').rpartition('//')[2]}")  # 'auto' has no port
        if place.port is not None:  # Ray would try for minutes if nothing listens there
            socket.create_connection((place.hostname, place.port), CONNECT_SECONDS).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        where = f"at {address!r}" if address else "on this machine"
        raise BadInput(f"Ray {where} does not answer: {' '.join(str(error).split())[:300]}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _needs() -> dict[str, int]:
    """Returns the Ray resources that one run needs: a GPU; without GPUs, all cores of one of the largest nodes."""
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(node.get("GPU", 0) >= 1 for node in nodes):
        return {"num_cpus": 0, "num_gpus": 1}
    return {"num_cpus": max(int(node.get("CPU", 1)) for node in nodes)}


def machines(gpu_types: Sequence[str], worker_module: str = WORKER_MODULE) -> dict[str, HostInfo]:
    """Returns the machine that a worker reports on one node for each type of GPU: {'T4': ...}.

    Without types, returns {'': the machine of any node}. Raises BadInput if no node with such a GPU answers.
    """
    import ray

    needs, types = _needs(), list(gpu_types) or [""]
    calls = [_task(_inspect, needs, name).remote(worker_module) for name in types]
    try:
        return dict(zip(types, ray.get(calls, timeout=INSPECT_SECONDS), strict=True))
    except ray.exceptions.RayError as error:
        raise BadInput(
            "No node of the cluster could start a worker. Is the project there, at the same path as here, and is a GPU "
            "of the type free?"
        ) from error


def make_cells(
    specs: Sequence[RunSpec], machines: Mapping[str, HostInfo], stored: Sequence[RunResult], picture: Path, fresh: bool
) -> list[GridRun]:
    """Returns a cell (a run of the grid) for each spec and type of GPU.

    If a new run on the machine of this type would only repeat a stored result, the cell has that result. With `fresh`
    no cell has one.
    """
    return [
        dataclasses.replace(cell, gpu_type=gpu_type)
        for gpu_type, machine in machines.items()
        for cell in grid.make_cells(specs, stored, machine, picture, fresh)
    ]


def run_cells(
    cells: Sequence[GridRun],
    history: History,
    picture: Path,
    cancel: threading.Event,
    worker_module: str = WORKER_MODULE,
) -> Generator[Done, None, None]:
    """Runs the unfinished cells until `cancel` is set. Stores each result, then yields the finished cell."""
    import ray

    needs, seen = _needs(), ray.put(picture.read_bytes())
    running = {
        _task(_run, needs, cell.gpu_type).remote(cell.spec, picture.name, seen, worker_module): place
        for place, cell in enumerate(cells)
        if not cell.done
    }
    try:
        while running and not cancel.is_set():
            ended, _ = ray.wait(list(running), timeout=POLL_SECONDS)
            for call in ended:
                place = running.pop(call)
                try:
                    answer = ray.get(call)
                except ray.exceptions.RayError as error:
                    answer = f"The cluster could not run it: {' '.join(str(error).split())[-300:]}"
                if isinstance(answer, str):
                    yield Done(place, dataclasses.replace(cells[place], refused=answer))
                else:
                    result = store(answer, history)
                    yield Done(place, dataclasses.replace(cells[place], spec=result.spec, result=result))
    finally:
        for call in running:
            ray.cancel(call, force=True)


def _task(function: Any, needs: Mapping[str, int], gpu_type: str) -> Any:
    import ray

    kind = {"accelerator_type": gpu_type} if gpu_type else {}
    return ray.remote(function).options(max_retries=RETRIES, **needs, **kind)


# On the node


def _inspect(worker_module: str) -> HostInfo:
    with closing(Runner(None, worker_module=worker_module)) as runner:
        return runner.inspect()


def _run(spec: RunSpec, name: str, picture: bytes, worker_module: str) -> RunResult | str:
    """Runs a spec on this node. Returns the result, or a sentence that says why the spec is refused. Stores nothing.

    `name` and `picture`: name and bytes of the picture's file.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(picture)
        try:
            with closing(Runner(None, worker_module=worker_module)) as runner:
                return next(event for event in runner.run(spec, path) if isinstance(event, RunResult))
        except BadInput as refused:
            return str(refused)
