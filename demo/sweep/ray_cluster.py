"""A sweep over a Ray cluster: one cell at a time on each GPU, or on each node where there are no GPUs.

Covered: only this process, the driver, writes into the history. A node that is lost loses only the cells that it was
running, and they are run again elsewhere.
Not covered: a driver that is lost ends the sweep; started again, it goes on with what the history holds. The project
must lie at the same path on every node, with its requirements installed. Nodes are trusted.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import socket
import tempfile
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.core import codec
from demo.core.errors import BadInput
from demo.core.machine import HostInfo
from demo.core.refusals import on_machine
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.runs.outcome import stored
from demo.runs.runner import WORKER_MODULE, Runner
from demo.store.history import History
from demo.sweep import cells as local_cells
from demo.sweep.cells import Cell
from demo.sweep.run_grid import Done

POLL_SECONDS = 0.2
INSPECT_SECONDS = 180.0
"""A node that has not described its machine by then is left out: others may be using its GPUs."""
CONNECT_SECONDS = 5.0
MAX_LOSSES = 3
"""How many lost nodes or processes are taken for bad luck before the cell, or the node, is given up."""
_PREFIX = "accelerator_type:"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Node:
    id: str
    slots: int
    """How many cells it runs at a time: one for each GPU."""
    gpu_types: frozenset[str]
    """By Ray's names, such as 'T4' and 'A100'."""
    gpu: bool
    """Whether its cells run on GPUs."""
    machine: HostInfo

    def takes(self, cell: Cell) -> bool:
        return not cell.gpu_type or cell.gpu_type in self.gpu_types


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Ray at this address ('auto': the cluster this machine is part of), or a local one.

    Raises BadInput where it cannot be reached or is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise BadInput("The engine ray needs Ray: pip install -r requirements-sweep.txt.") from error
    try:
        _check_listening(address or "")
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        where = f"at {address!r}" if address else "on this machine"
        raise BadInput(f"Ray {where} does not answer: {' '.join(str(error).split())[:300]}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_listening(address: str) -> None:
    """Raises OSError where nothing listens at a 'host:port': Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()


def nodes(gpu_types: Sequence[str], worker_module: str = WORKER_MODULE) -> list[Node]:
    """The nodes that can run cells, with their machines as workers describe them. Raises BadInput if there are none."""
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
    chosen, gpu = wanted or alive, bool(wanted)
    calls = {_task(_inspect, node["NodeID"], gpu).remote(worker_module): node for node in chosen}
    answered, silent = ray.wait(list(calls), num_returns=len(calls), timeout=INSPECT_SECONDS)
    for call in silent:
        ray.cancel(call, force=True)
    if silent:
        _log.warning("%d of %d nodes did not answer in time and go unused", len(silent), len(calls))
    found = []
    for call in answered:
        with suppress(ray.exceptions.RayError):  # the node is lost, or without the project
            node, machine = calls[call], codec.load(HostInfo, ray.get(call))
            slots = int(node["Resources"]["GPU"]) if gpu else 1
            found.append(Node(node["NodeID"], slots, frozenset(_types(node)), gpu, machine))
    if not found:
        raise BadInput(
            "No node of the cluster could start a worker. Is the project there, at the same path as here, and is a GPU "
            "free?"
        )
    return found


def _types(node: dict[str, Any]) -> set[str]:
    return {name.removeprefix(_PREFIX) for name in node["Resources"] if name.startswith(_PREFIX)}


def make_cells(
    specs: Sequence[RunSpec],
    gpu_types: Sequence[str],
    fleet: Sequence[Node],
    stored: Sequence[RunResult],
    picture: Path,
    fresh: bool = False,
) -> list[Cell]:
    """One cell for each spec and type of GPU that was asked for, with its result where the history has one of a machine
    with that type."""
    found = []
    for gpu_type in gpu_types or [""]:
        machines = {node.machine for node in fleet if node.takes(Cell(specs[0], gpu_type=gpu_type))}
        for spec in specs:
            on_each = (local_cells.make_cells([spec], stored, machine, picture, fresh)[0] for machine in machines)
            done = next((cell for cell in on_each if cell.done), Cell(spec))
            found.append(dataclasses.replace(done, gpu_type=gpu_type))
    return found


def run_cells(
    cells: Sequence[Cell],
    fleet: Sequence[Node],
    picture: Path,
    history: History,
    cancel: threading.Event,
    worker_module: str = WORKER_MODULE,
) -> Generator[Done, None, None]:
    """Runs the cells that have no value on the fleet; each result is in the history when its event comes.

    Where the history refuses a result, the result says so in a warning, and the sweep goes on. Ends early when `cancel`
    is set. At the end, however it comes, the cells in progress are ended.
    """
    import ray

    sweep = _ClusterSweep(cells, fleet, picture, history, worker_module)
    try:
        while sweep.goes_on and not cancel.is_set():
            left = sweep.nodes_left()
            yield from sweep.give_up(left)
            sweep.start(left)
            yield from sweep.collect()
    finally:
        for call in sweep.running:
            ray.cancel(call, force=True)


class _ClusterSweep:
    """Which cells wait, which run where, and what was lost."""

    def __init__(
        self, cells: Sequence[Cell], fleet: Sequence[Node], picture: Path, history: History, worker_module: str
    ) -> None:
        import ray

        self.running: dict[Any, tuple[int, Node]] = {}
        """By Ray's call: the cell's index in the grid and its node."""
        self._cells = cells
        self._waiting = [place for place, cell in enumerate(cells) if not cell.done]
        self._fleet = fleet
        self._picture = picture.name, ray.put(picture.read_bytes())
        self._history = history
        self._worker_module = worker_module
        self._cell_losses: Counter[int] = Counter()
        self._node_losses: Counter[str] = Counter()

    @property
    def goes_on(self) -> bool:
        return bool(self._waiting or self.running)

    def nodes_left(self) -> list[Node]:
        import ray

        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        return [node for node in self._fleet if node.id in alive and self._node_losses[node.id] < MAX_LOSSES]

    def give_up(self, left: Sequence[Node]) -> Iterator[Done]:
        """Refuses the cells that no node can run any more."""
        for place in [place for place in self._waiting if not any(node.takes(self._cells[place]) for node in left)]:
            self._waiting.remove(place)
            cell = self._cells[place]
            kind = f" with a {cell.gpu_type}" if cell.gpu_type else ""
            yield Done(place, dataclasses.replace(cell, refused=f"No node{kind} is left in the cluster."))

    def start(self, left: Sequence[Node]) -> None:
        """Gives each free slot the first waiting cell that its node takes."""
        busy = Counter(node.id for _, node in self.running.values())
        name, picture = self._picture
        for node in left:
            for _ in range(node.slots - busy[node.id]):
                place = next((place for place in self._waiting if node.takes(self._cells[place])), None)
                if place is None:
                    break
                self._waiting.remove(place)
                spec = codec.plain(on_machine(self._cells[place].spec, node.machine))
                call = _task(_run, node.id, node.gpu).remote(spec, name, picture, self._worker_module)
                self.running[call] = (place, node)

    def collect(self) -> Iterator[Done]:
        """The cells that have ended, after waiting for one for POLL_SECONDS. A lost cell waits again."""
        import ray

        ended, _ = ray.wait(list(self.running), timeout=POLL_SECONDS) if self.running else ([], [])
        for call in ended:
            place, node = self.running.pop(call)
            try:
                answer = ray.get(call)
            except ray.exceptions.RayTaskError as error:
                answer = {"refused": f"The node could not run it: {str(error.cause).strip()[:300]}"}
            except ray.exceptions.RayError:
                self._cell_losses[place] += 1
                self._node_losses[node.id] += 1
                if self._cell_losses[place] < MAX_LOSSES:
                    self._waiting.insert(0, place)
                    continue
                answer = {"refused": f"Its node or its process was lost {MAX_LOSSES} times."}
            yield Done(place, self._stored(self._cells[place], answer))

    def _stored(self, cell: Cell, answer: dict[str, Any]) -> Cell:
        """The cell with its value; a result is appended to the history."""
        if "refused" in answer:
            return dataclasses.replace(cell, refused=answer["refused"])
        result = stored(RunResult.from_json(answer["result"]), self._history)
        return dataclasses.replace(cell, spec=result.spec, result=result)


def _task(function: Any, node_id: str, gpu: bool) -> Any:
    """`function` as a task on this node only, which Ray does not retry."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)
    return ray.remote(function).options(num_cpus=0, num_gpus=1 if gpu else 0, max_retries=0, scheduling_strategy=there)


# On the node


def _inspect(worker_module: str) -> dict[str, Any]:
    machine: dict[str, Any] = codec.plain(Runner(None, worker_module=worker_module).inspect())
    return machine


def _run(spec: dict[str, Any], name: str, picture: bytes, worker_module: str) -> dict[str, Any]:
    """Runs one cell on this node: {"result": ...} or {"refused": ...}. Nothing is stored here."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(picture)
        try:
            *_, result = Runner(None, worker_module=worker_module).run(codec.load(RunSpec, spec), path)
        except BadInput as refused:
            return {"refused": str(refused)}
    if not isinstance(result, RunResult):
        raise RuntimeError("the runner ended without a result")
    return {"result": result.to_json()}
