"""Tests of a sweep over a real local Ray cluster of two nodes, one of which is killed meanwhile."""

import importlib.util
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fake_runner import FakeRunner
from support.samples import ok_result

from demo.cli.main import main
from demo.core.options import BadInput
from demo.store.history import History
from demo.sweep import ray_cluster
from demo.sweep.grid import PICTURE, GridRun, make_specs

needs_ray = pytest.mark.skipif(
    not importlib.util.find_spec("ray"), reason="Ray is not installed: pip install -r requirements-sweep.txt"
)
QUICK = "tests.support.quick_worker"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def connection(tmp_path_factory) -> Iterator[tuple[Any, Path]]:
    """Yields a local Ray cluster, connected, and the file to which its workers write their jobs."""
    from ray.cluster_utils import Cluster

    log = tmp_path_factory.mktemp("cluster") / "log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUICK_LOG", str(log))
        patch.setenv("QUICK_HOLD", str(log.with_name("hold")))
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("RAY_health_check_period_ms", "500")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            with ray_cluster.connect(cluster.address):
                yield cluster, log
        finally:
            cluster.shutdown()


@pytest.fixture
def two_nodes(connection: tuple[Any, Path]) -> tuple[Any, Path]:
    """Returns the cluster with two nodes, each a raylet of its own, and the file of jobs, which does not exist yet."""
    cluster, log = connection
    log.unlink(missing_ok=True)
    if not cluster.worker_nodes:
        cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    return connection


def wait_for_lines(log: Path, count: int) -> None:
    while not log.exists() or len(log.read_text().splitlines()) < count:
        time.sleep(0.02)


@needs_ray
def test_the_cells_of_a_lost_node_are_run_again(two_nodes: Any, history: History) -> None:
    cluster, log = two_nodes
    (second,) = cluster.worker_nodes
    machines = ray_cluster.machines([], QUICK)
    specs = make_specs({"checkpoints": "shapes-vit", "batch_sizes": list(range(4, 7))})
    grid = ray_cluster.make_cells(specs, machines, [], PICTURE, fresh=False)
    hold = log.with_name("hold")
    hold.touch()  # each node keeps a cell in hand

    def lose_the_second() -> None:
        wait_for_lines(log, 2)
        cluster.remove_node(second, allow_graceful=False)
        hold.unlink()

    threading.Thread(target=lose_the_second, daemon=True).start()
    events = list(ray_cluster.run_cells(grid, history, PICTURE, threading.Event(), QUICK))
    assert sorted(event.place for event in events) == list(range(3))
    assert {event.cell.value for event in events} == {"2.0×"}
    assert Counter(result.spec.batch_size for result in history.all()) == Counter(range(4, 7))
    assert len(log.read_text().splitlines()) == 4  # the lost cell twice
    again = ray_cluster.make_cells(specs, machines, history.all(), PICTURE, fresh=False)
    assert all(cell.done and cell.stored for cell in again)


@needs_ray
def test_a_failed_cell_has_its_status_as_value(two_nodes: Any, tmp_path) -> None:
    _, log = two_nodes
    (tmp_path / "file").touch()
    refusing = History(tmp_path / "file" / "history.sqlite3")
    cells = [GridRun(spec) for spec in make_specs({"checkpoints": "shapes-vit", "batch_sizes": [103, 104, 1, 4, 5]})]
    cells_by_place = {}
    for event in ray_cluster.run_cells(cells[:3], refusing, PICTURE, threading.Event(), QUICK):
        cells_by_place[event.place] = event.cell
    assert cells_by_place[0].value.startswith("crashed: ")
    assert cells_by_place[1].value == "refused: This one is not to be had."
    assert cells_by_place[2].value == "2.0×" and "This result was not stored" in cells_by_place[2].result.warnings[-1]

    cancel, hold = threading.Event(), log.with_name("hold")
    hold.touch()  # neither of the others is answered

    def cancel_both() -> None:
        wait_for_lines(log, 5)
        cancel.set()

    threading.Thread(target=cancel_both, daemon=True).start()
    assert list(ray_cluster.run_cells(cells[3:], refusing, PICTURE, cancel, QUICK)) == []
    hold.unlink()


@needs_ray
def test_a_type_of_gpu_without_a_node_is_refused(two_nodes: Any, monkeypatch) -> None:
    monkeypatch.setattr(ray_cluster, "INSPECT_SECONDS", 0.5)
    with pytest.raises(BadInput, match="is a GPU of the type free"):
        ray_cluster.machines(["T4"], QUICK)


def test_a_cell_leaves_no_worker_on_its_node(monkeypatch) -> None:
    fake = FakeRunner(lambda spec, image: ok_result(spec=spec))
    monkeypatch.setattr(ray_cluster, "Runner", lambda *_, **named: fake)
    assert ray_cluster._run(ok_result().spec, "a.png", b"", QUICK).status == "ok" and fake.closed


def test_without_ray_the_engine_says_how_to_get_it(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(BadInput, match=r"requirements-sweep\.txt"), ray_cluster.connect(None):
        pass


@needs_ray
def test_an_address_where_nothing_listens_is_refused_at_once(capsys) -> None:
    assert main(["sweep", "--preset", "smoke", "--engine", "ray", "--address", "127.0.0.1:1"]) == 2
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("Connecting to Ray") and "127.0.0.1:1" in last and "Connection refused" in last
