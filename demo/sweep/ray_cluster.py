"""A sweep over a Ray cluster: one cell a GPU at a time, or one a node where there are no GPUs.

The nodes run cells and give the results back; only this process, the driver, writes into the history, so a node that is
lost loses its cells' results and nothing else: they are run again elsewhere. The project must lie at the same path on
every node, with its requirements installed.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import socket
import tempfile
import threading
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.core import result as schema
from demo.core.result import BadInput, Machine, RunResult, RunSpec
from demo.runs.runner import WORKER_MODULE, Runner
from demo.store.history import History, HistoryError
from demo.sweep import grid as sweep
from demo.sweep.grid import Cell, Done

POLL_SECONDS = 0.2
INSPECT_SECONDS = 180.0
"""A node that has not said by then what it is goes unused: its GPUs may be busy with somebody else's work."""
KNOCK_SECONDS = 5.0
MOST_LOSSES = 3
"""After so many lost nodes or processes it is the cell that takes them down."""
_PREFIX = "accelerator_type:"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Node:
    id: str
    slots: int
    """Cells at a time: one a GPU."""
    gpu_types: frozenset[str]
    """By Ray's names, such as 'T4' and 'A100'."""
    gpu: bool
    machine: Machine

    def takes(self, cell: Cell) -> bool:
        return not cell.gpu_type or cell.gpu_type in self.gpu_types


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Ray at this address ('auto': the cluster this machine is part of), or a local one. Raises BadInput."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise BadInput("The engine ray needs Ray: pip install -r requirements-sweep.txt.") from error
    try:
        _knock(address or "")
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        where = f"at {address!r}" if address else "on this machine"
        raise BadInput(f"Ray {where} does not answer: {' '.join(str(error).split())[:300]}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raises OSError where nobody listens at a 'host:port': Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_SECONDS).close()


def nodes(gpu_types: Sequence[str], worker_module: str = WORKER_MODULE) -> list[Node]:
    """The nodes that can take cells, with what their workers say of them. Raises BadInput where there are none."""
    import ray

    alive = [node for node in ray.nodes() if node["Alive"]]
    asked = frozenset(gpu_types)
    with_gpu = [node for node in alive if node["Resources"].get("GPU", 0) >= 1]
    wanted = [node for node in with_gpu if not asked or _types(node) & asked]
    if asked and not wanted:
        there = sorted(set().union(*map(_types, with_gpu))) if with_gpu else []
        raise BadInput(
            f"The cluster has no GPU of type {' or '.join(gpu_types)}. It has: {', '.join(there) or 'no GPU at all'}."
        )
    chosen = wanted or alive
    asks = [_task(_inspect, node["NodeID"], gpu=bool(wanted)).remote(worker_module) for node in chosen]
    answered, silent = ray.wait(asks, num_returns=len(asks), timeout=INSPECT_SECONDS)
    for ask in silent:
        ray.cancel(ask, force=True)
    if silent:
        _log.warning("%d of %d nodes did not answer in time and go unused", len(silent), len(asks))
    found = []
    for node, ask in zip(chosen, asks, strict=True):
        if ask not in answered:
            continue
        try:
            machine = schema.load(Machine, ray.get(ask))
        except ray.exceptions.RayError:
            continue  # lost, or without the project
        slots = int(node["Resources"]["GPU"]) if wanted else 1
        found.append(Node(node["NodeID"], slots, frozenset(_types(node)), bool(wanted), machine))
    if not found:
        raise BadInput(
            "No node of the cluster could start a worker. Is the project there, at the same path as here, and is a GPU "
            "free?"
        )
    return found


def _types(node: dict[str, Any]) -> set[str]:
    return {name.removeprefix(_PREFIX) for name in node["Resources"] if name.startswith(_PREFIX)}


def cells(
    specs: Sequence[RunSpec],
    gpu_types: Sequence[str],
    fleet: Sequence[Node],
    stored: Sequence[RunResult],
    picture: Path,
    fresh: bool = False,
) -> list[Cell]:
    """The grid, once for each type of GPU that was asked for; done where a machine of the type has stored it before."""
    found = []
    for gpu_type in gpu_types or [""]:
        machines = {node.machine for node in fleet if node.takes(Cell(specs[0], gpu_type=gpu_type))}
        for spec in specs:
            on_each = (sweep.cells([spec], stored, machine, picture, fresh)[0] for machine in machines)
            done = next((cell for cell in on_each if cell.done), Cell(spec))
            found.append(dataclasses.replace(done, gpu_type=gpu_type))
    return found


def run(
    grid: Sequence[Cell],
    fleet: Sequence[Node],
    picture: Path,
    history: History,
    cancel: threading.Event,
    worker_module: str = WORKER_MODULE,
) -> Generator[Done, None, None]:
    """Runs the cells that have no value on the fleet; each result is in the history when its event comes.

    Where the history refuses, the result has a warning that says so, and the first one is logged: the sweep goes on.
    Ends early when `cancel` is set; leaving it, in whatever way, ends the cells in hand.
    """
    import ray

    photo = ray.put(picture.read_bytes())
    waiting = [place for place, cell in enumerate(grid) if not cell.done]
    running: dict[Any, tuple[int, Node]] = {}
    cell_losses: Counter[int] = Counter()
    node_losses: Counter[str] = Counter()
    refused = False
    try:
        while (waiting or running) and not cancel.is_set():
            alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
            left = [node for node in fleet if node.id in alive and node_losses[node.id] < MOST_LOSSES]
            for place in [place for place in waiting if not any(node.takes(grid[place]) for node in left)]:
                waiting.remove(place)
                kind = f" with a {grid[place].gpu_type}" if grid[place].gpu_type else ""
                yield Done(place, dataclasses.replace(grid[place], refused=f"No node{kind} is left in the cluster."))
            for node in _free(left, [taken for _, taken in running.values()]):
                for place in [place for place in waiting if node.takes(grid[place])][:1]:
                    waiting.remove(place)
                    spec = schema.plain(sweep.on_machine(grid[place].spec, node.machine))
                    call = _task(_run, node.id, node.gpu).remote(spec, picture.name, photo, worker_module)
                    running[call] = (place, node)
            ended, _ = ray.wait(list(running), timeout=POLL_SECONDS) if running else ([], [])
            for call in ended:
                place, node = running.pop(call)
                try:
                    answer = ray.get(call)
                except ray.exceptions.RayTaskError as error:
                    answer = {"refused": f"The node could not run it: {str(error.cause).strip()[:300]}"}
                except ray.exceptions.RayError:
                    cell_losses[place] += 1
                    node_losses[node.id] += 1
                    if cell_losses[place] < MOST_LOSSES:
                        waiting.insert(0, place)
                        continue
                    answer = {"refused": f"Its node or its process was lost {MOST_LOSSES} times."}
                cell, problem = _kept(grid[place], answer, history)
                if problem and not refused:
                    refused = True
                    _log.warning("%s", problem)
                yield Done(place, cell)
    finally:
        for call in running:
            ray.cancel(call, force=True)


def _free(fleet: Iterable[Node], taken: Sequence[Node]) -> Iterator[Node]:
    """Each node as often as it has a free slot."""
    for node in fleet:
        yield from [node] * (node.slots - sum(other.id == node.id for other in taken))


def _kept(cell: Cell, answer: dict[str, Any], history: History) -> tuple[Cell, str]:
    """The cell with its value, its result stored; and why the history did not take it, or took it elsewhere, if so."""
    if "refused" in answer:
        return dataclasses.replace(cell, refused=answer["refused"]), ""
    result = RunResult.from_json(answer["result"])
    try:
        problem = history.append(result) or ""
    except HistoryError as error:
        problem = f"This result was not stored: {error}"
    if problem:
        result = dataclasses.replace(result, warnings=(*result.warnings, problem))
    return dataclasses.replace(cell, spec=result.spec, result=result), problem


def _task(function: Any, node_id: str, gpu: bool) -> Any:
    """`function` as a task on this node and no other, which Ray does not try again by itself."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)
    return ray.remote(function).options(num_cpus=0, num_gpus=1 if gpu else 0, max_retries=0, scheduling_strategy=there)


# On the node


def _inspect(worker_module: str) -> dict[str, Any]:
    machine: dict[str, Any] = schema.plain(Runner(None, worker_module=worker_module).inspect())
    return machine


def _run(spec: dict[str, Any], name: str, picture: bytes, worker_module: str) -> dict[str, Any]:
    """One cell on the node that runs this: {"result": ...} or {"refused": ...}. Nothing is stored there."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(picture)
        try:
            *_, result = Runner(None, worker_module=worker_module).run(schema.load(RunSpec, spec), path)
        except BadInput as refused:
            return {"refused": str(refused)}
    if not isinstance(result, RunResult):
        raise RuntimeError("the runner ended without a result")
    return {"result": result.to_json()}
