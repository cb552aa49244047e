"""Tests of a user's own model: what its function may return, what is refused, and a whole run."""

import copy
import importlib
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from support.own_workload import result_of, without_inductor

from demo.backend import compile_model, effects, first_call, profiling, run_steps
from demo.backend.effects import tensors
from demo.backend.tasks import own_model
from demo.core import catalog
from demo.core.files import LFS_POINTER
from demo.core.options import BadInput
from demo.core.result import RunResult
from demo.core.result_json import from_json, to_json

CPU = torch.device("cpu")
SOURCE = """
import asyncio, collections, dataclasses, threading, torch
from neighbour import WIDTH

def failing(): raise ValueError("no such size\\nmore")
def leaving(): raise SystemExit("bye")
def cancelled(): raise asyncio.CancelledError

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, WIDTH, 3)
        self.register_buffer("steps", torch.arange(3))
    def forward(self, x, parts=None, scale=1.0):
        more = 0.0 if parts is None else parts["more"][0].sum()
        return {"y": self.conv(x).relu() * scale + more, "steps": self.steps}

class Wave(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
        self.scale = torch.nn.Parameter(torch.ones(1))
        self.lock = threading.Lock()
        self.fine = torch.nn.Buffer(torch.ones(3, dtype=torch.float64))
    def train(self, mode=True): pass
    def forward(self, x): return x.sum() * self.turn * self.scale

class Eighth(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2, 2).to(torch.float8_e4m3fn), requires_grad=False)
        self.scale = torch.nn.Parameter(torch.ones(2))
    def forward(self, x): return x @ self.weight.to(x.dtype) * self.scale
def meta(): return torch.nn.Linear(2, 2, device="meta"), torch.ones(2)
def eighth(): return Eighth(), torch.ones(1, 2)

helper = torch.compile(lambda x: x.relu(), backend="eager")
class Helped(torch.nn.Linear):
    def forward(self, x): return helper(super().forward(x))
def within(): return torch.nn.Sequential(torch.compile(Net())), {"input": X}
def helped(): return Helped(8, 8), X
class Decorated(torch.nn.Linear):
    @torch.compile
    def forward(self, x): return super().forward(x)
def decorated(): return torch.nn.Sequential(Decorated(8, 8)), X
def replaced():
    net = Net()
    net.forward = torch.compile(net.forward)
    return net, X

@dataclasses.dataclass
class Answer:
    y: torch.Tensor
class Wrapped(torch.nn.Linear):
    def forward(self, x): return Answer(super().forward(x).to_sparse())
def wrapped(): return Wrapped(2, 2), torch.ones(1, 2, dtype=torch.float64)

class Kept(torch.nn.Linear):
    kept = None
    def forward(self, x):
        if self.kept is None:
            self.kept = super().forward(x)
        return self.kept
class Uncaptured(torch.nn.Linear):
    @torch.compiler.disable
    def forward(self, x): return super().forward(x)
class Seeded(torch.nn.Linear):
    def forward(self, x):
        torch.manual_seed(0)
        return super().forward(x) + torch.rand(2)
class Halving(torch.nn.Linear):
    def forward(self, x): return super().forward(x.mul_(0.5))
class Masked(torch.nn.Linear):
    def forward(self, x, mask): return super().forward(x.mul_(0.5)) * mask
def masked(): return Masked(2, 2), (torch.ones(3, 2), torch.ones(1, 2).expand(3, 2))
class Threaded(torch.nn.Linear):
    def forward(self, x):
        torch.set_num_threads(3)
        return super().forward(x)
def threaded(): return Threaded(2, 2), torch.ones(2)
class Constant(torch.nn.Linear):
    def forward(self, x): return torch.zeros(3)
class Unread(torch.nn.Linear):
    def forward(self, x): return self.weight.sin() + 1
class Rarely(torch.nn.Linear):
    def forward(self, x): return super().forward(x) + (torch.rand(()) < 1e-9)
def constant(): return Constant(2, 2), torch.ones(2)
def unread(): return Unread(2, 2), torch.ones(2)
def rarely(): return Rarely(2, 2), torch.ones(2)
def kept(): return Kept(2, 2), torch.ones(2)
def uncaptured(): return Uncaptured(2, 2), torch.ones(2)
def seeded(): return Seeded(2, 2), torch.ones(2)
def halving(): return Halving(2, 2), torch.ones(2)

X = torch.ones(2, 3, 8, 8)
def one(): return Net(), X
def by_position(): return Net(), (X, {"more": [X]}, 2.0)
def by_name(): return Net(), {"x": X, "scale": 3}
def by_mapping(): return Net(), collections.UserDict(x=X)
def exported(): return torch.export.export(Net(), (X,)).module(), X
def exported_by_name(): return torch.export.export(Net(), (), {"x": X}).module(), X
def wave(): return Wave(), X
def raising(): return Net(), torch.ones(2, 5, 8, 8)
class Leaving(torch.nn.Linear):
    def forward(self, x): raise SystemExit(3)
class Interrupted(torch.nn.Linear):
    def forward(self, x): raise KeyboardInterrupt
def quitting(): return Leaving(2, 2), torch.ones(2)
def interrupted(): return Interrupted(2, 2), torch.ones(2)
def half(): return Net().bfloat16(), X
def alone(): return Net()
def no_module(): return X, X
def no_tensor(): return Net(), 5
in_memory = no_tensor
def misfit(): return Net(), {"pixels": X}
no_function = 5

class Star(torch.nn.Linear):
    def forward(self, *args): return super().forward(*args)
class Stars(torch.nn.Linear):
    def forward(self, *args, **named): return super().forward(*args, **named)
class First(torch.nn.Linear):
    def forward(self, x, /): return super().forward(x)
def star(): return Star(8, 8), X
def stars(): return Stars(8, 8), X
def stars_by_name(): return Stars(8, 8), {"input": X}
def first(): return First(8, 8), X
def scripted(): return torch.jit.script(torch.nn.Sequential(torch.nn.Linear(8, 8))), X
def unfetched():
    from pathlib import Path
    from safetensors.torch import load_file
    return load_file(Path(__file__).with_name("weights.safetensors")), X
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "neighbour.py").write_text("WIDTH = 4\n")
    (folder / "mine.py").write_text(SOURCE)
    (folder / "broken.py").write_text("import torch\nx = (\ndef build(): pass\n")
    (folder / "weights.safetensors").write_bytes(LFS_POINTER + b"v1\n")
    (folder / "lacking.py").write_text("\nimport no_such_library\ndef build(): pass\n")
    return folder / "mine.py"


def load(file: Path, function: str, **options: object) -> own_model.OwnModel:
    return own_model.load(catalog.own_model_spec(f"{file}:{function}", **options), CPU)


@pytest.mark.parametrize(
    ("function", "names"),
    [("one", ["x"]), ("by_position", ["x", "parts", "scale"]), ("by_name", ["x", "scale"]), ("by_mapping", ["x"])],
)
def test_inputs_become_arguments_by_name(function: str, names: list[str], file: Path) -> None:
    workload = load(file, function)
    assert list(workload.batch) == names
    assert workload.eager()["y"].shape == (2, 4, 6, 6) and not workload.model.training


def test_nested_inputs_get_the_runs_formats(file: Path) -> None:
    workload = load(file, "by_position", dtype="bfloat16", channels_last=True)
    assert workload.model.conv.weight.dtype == workload.batch["parts"]["more"][0].dtype == torch.bfloat16
    assert workload.batch["x"].is_contiguous(memory_format=torch.channels_last)
    assert workload.model.steps.dtype == torch.int64


def test_outputs_in_a_dataclass_are_compared(file: Path) -> None:
    workload = load(file, "wrapped")  # with inputs of float64, which become float32 as the weights do
    (own,) = workload.outputs(workload.model)
    assert own.dtype == torch.float32
    (exact,) = tensors(workload.exact_outputs(copy.deepcopy(workload.model).double()))
    assert torch.allclose(own.double(), exact)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_get_the_runs_dtype_unless_complex_or_8_bits(dtype: str, file: Path) -> None:
    assert load(file, "half", dtype=dtype).eager()["y"].dtype == getattr(torch, dtype)
    assert load(file, "exported_by_name", dtype=dtype).eager()["y"].dtype == getattr(torch, dtype)
    wave = load(file, "wave", dtype=dtype)
    assert wave.eager().is_complex() and wave.model.scale.dtype == getattr(torch, dtype)
    eighth = load(file, "eighth", dtype=dtype)
    assert (eighth.model.weight.dtype, eighth.eager().dtype) == (torch.float8_e4m3fn, getattr(torch, dtype))


@pytest.mark.parametrize(
    ("function", "dtype", "given"),
    [
        ("half", "float32", ["bfloat16"]),
        ("wrapped", "float32", ["float64"]),  # its inputs
        ("half", "bfloat16", []),  # asked for
        ("one", "float32", []),
        ("eighth", "float32", []),  # stays as it is
    ],
)
def test_a_model_that_was_given_in_another_format_has_a_caveat(
    function: str, dtype: str, given: list[str], file: Path
) -> None:
    caveats = load(file, function, dtype=dtype).caveats
    assert [caveat.values["given"] for caveat in caveats if caveat.key == "given_dtype"] == given


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("missing", "has no function missing"),
        ("no_function", "has no function no_function"),
        ("alone", "returned an object of class Net. It must return (module, inputs)"),
        ("no_module", "returned (Tensor, Tensor). It must return"),
        ("no_tensor", "hold no tensor. It must return"),
        ("in_memory", "The inputs of the measured model hold no tensor. Give a tensor"),
        ("misfit", "do not fit its module's forward: missing a required argument: 'x'"),
        ("failing", "failed: ValueError: no such size (mine.py, line 5)"),
        ("leaving", "failed: SystemExit: bye (mine.py, line 6)"),
        ("cancelled", "failed: CancelledError (mine.py, line 7)"),
        ("within", "is compiled already, or a part of it"),
        ("decorated", "is compiled already, or a part of it"),
        ("replaced", "is compiled already, or a part of it"),
        ("star", "forward of Star takes *args by position only, and inputs are given by name. Give forward a named"),
        ("stars", "takes *args by position only, and inputs are given by name. Return them as a dict by name"),
        ("first", "forward of First takes x by position only"),
        ("exported", "takes its inputs by position, and inputs are given by name. Export it by name"),
        ("meta", "returned weights or inputs on the meta device, which hold no numbers. Load the weights"),
        ("scripted", "returned TorchScript, which torch.compile refuses. Return the module it was made of."),
        ("unfetched", "Git LFS pointers are beside it: weights.safetensors. Run `git lfs pull` in"),
    ],
)
def test_what_a_function_may_not_return_is_refused(function: str, says: str, file: Path) -> None:
    with pytest.raises(BadInput) as refused:
        load(file, function)
    assert says in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(("name", "error"), [("broken", "SyntaxError"), ("lacking", "ModuleNotFoundError")])
def test_a_file_that_cannot_be_imported_is_named_with_its_line(name: str, error: str, file: Path) -> None:
    with pytest.raises(BadInput, match=rf"{name}.py cannot be imported: {error}: .*\({name}.py, line 2\)"):
        load(file.with_name(f"{name}.py"), "build")


@pytest.mark.parametrize("name", ["demo", "tools"])
def test_a_neighbour_may_be_named_like_a_part_of_this_program(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text("scale = 3.0\n")
    source = f"import torch\nfrom {name} import scale\ndef build(): return torch.nn.Identity(), torch.ones(2) * scale\n"
    (tmp_path / "own.py").write_text(source)
    with patch.dict(sys.modules), patch.object(sys, "meta_path", sys.meta_path[:]):
        sys.modules.pop("tools", None)
        assert load(tmp_path / "own.py", "build").batch["input"].tolist() == [3.0, 3.0]


def test_a_neighbour_named_like_a_module_of_python_hides_it_from_nobody(tmp_path: Path) -> None:
    (tmp_path / "cProfile.py").write_text("raise RuntimeError('of the user')\n")
    (tmp_path / "own.py").write_text("import torch\ndef build(): return torch.nn.Identity(), torch.ones(2)\n")
    with patch.dict(sys.modules), patch.object(sys, "meta_path", sys.meta_path[:]):
        load(tmp_path / "own.py", "build")
        sys.modules.pop("cProfile", None)
        assert importlib.import_module("cProfile").Profile


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("import torch".encode("utf-16"), "it is in UTF-16. Save it as UTF-8."),
        (b"import torch\0", "it holds a null byte. Save it as UTF-8 text."),
        (LFS_POINTER, "it is a Git LFS pointer, not the file itself. Run `git lfs pull`"),
    ],
    ids=["UTF-16", "null byte", "pointer"],
)
def test_a_file_that_is_no_source_is_named(data: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_bytes(data)
    with pytest.raises(BadInput, match=f"mine.py cannot be imported: {says}"):
        load(tmp_path / "mine.py", "build")


def test_a_wrapper_gets_its_inputs_by_name(file: Path) -> None:
    assert load(file, "stars_by_name").eager().shape == (2, 3, 8, 8)


def test_a_file_that_switches_compiling_off_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def build():\n    import torch\n    return torch.nn.ReLU(), torch.ones(2)\n")
    with torch._dynamo.config.patch(disable=True), pytest.raises(BadInput, match=r"^mine.py: torch._dynamo.config.dis"):
        load(tmp_path / "mine.py", "build")


def run_of(file: Path, function: str, **options: object) -> RunResult:
    return result_of(catalog.own_model_spec(f"{file}:{function}", device="cpu", iterations=10, **options))


def test_a_run_of_an_own_model_has_every_figure(file: Path) -> None:
    result = run_of(file, "by_position", profile="on")
    assert (result.status, result.failure) == ("ok", None)
    assert not any("could not" in warning or "gave nothing" in warning for warning in result.warnings)
    assert result.speedup is not None and result.compilation.graphs == 1 and result.roofline is not None
    assert result.parity.verdict == "match" and result.environment.settings["attention"] == "none"
    assert (result.image, result.predictions, result.end_to_end) == (None, None, None)
    assert from_json(to_json(result)).spec == result.spec


def test_a_part_that_compiles_itself_is_a_caveat(file: Path) -> None:
    result = run_of(file, "helped")
    assert result.status == "ok" and "compiles_itself" in [caveat.key for caveat in result.caveats]


@pytest.fixture
def quick(monkeypatch) -> None:
    monkeypatch.setattr(compile_model, "apply_compile", without_inductor)


@pytest.mark.parametrize(
    ("function", "what"), [("kept", "computed"), ("constant", "computed"), ("uncaptured", "compiled")]
)
def test_a_run_that_does_nothing_has_no_speedup(function: str, what: str, file: Path, quick: None) -> None:
    result = run_of(file, function)
    assert result.status == "failed" and result.failure.message.startswith(f"Nothing was {what}, so there is no speed")
    assert (
        result.speedup is None and result.break_even(1.0) is None and result.latencies.keys() == {"eager", "compiled"}
    )


@pytest.mark.parametrize(
    ("function", "verdict", "keys"),
    [
        pytest.param("seeded", "match", {"draws"}, id="draws what the eager backend draws as well"),
        pytest.param("halving", "match", {"given_back"}, id="changes its input"),
        pytest.param("unread", "match", {"unread"}, id="ignores its input"),
        pytest.param("rarely", "match", {"drew"}, id="draws what changes nothing yet"),
        pytest.param("by_position", "match", set(), id="neither"),
    ],
)
def test_what_a_call_does_besides_is_told(function: str, verdict: str, keys: set[str], file: Path, quick: None) -> None:
    result = run_of(file, function)
    assert (result.status, result.parity.verdict) == ("ok", verdict)
    assert {caveat.key for caveat in result.caveats} & {
        *("not_compared", "given_back", "draws", "not_watched", "unread", "drew")
    } == keys


def test_the_threads_that_a_model_sets_itself_are_told(file: Path, quick: None) -> None:
    before = torch.get_num_threads()
    try:
        assert run_of(file, "threaded").threads == 3 != before
    finally:
        torch.set_num_threads(before)


def test_a_first_call_writes_only_to_inputs_that_calls_change(file: Path, quick: None) -> None:
    """The model's mask is an expanded tensor, to which torch refuses to write."""
    spec = catalog.own_model_spec(f"{file}:masked", device="cpu")
    assert first_call.measure_first_call(spec, None, None)[0].first_call_seconds > 0


def test_memory_growth_and_a_slow_format_are_warnings(file: Path, quick: None, monkeypatch) -> None:
    monkeypatch.setattr(run_steps, "MUCH_MEMORY", -(10**12))
    monkeypatch.setattr(effects, "growth_per_call", lambda call: 5_000_000)
    monkeypatch.setattr(profiling, "float32_advantage", lambda dtype: 72.4)
    warnings = " ".join(run_of(file, "by_position", dtype="bfloat16").warnings)
    assert "grows by 5.00 MB with each call" in warnings
    assert "no fast bfloat16" in warnings and "72 times faster" in warnings


@pytest.mark.parametrize("function", ["raising", "quitting", "interrupted"])
def test_a_forward_that_fails_is_named_with_its_line(function: str, file: Path) -> None:
    result = run_of(file, function)
    assert (result.status, result.failure.stage) == ("failed", "warm up")
    assert "(mine.py, line " in result.failure.message and "with its inputs" in result.failure.remedy


@pytest.mark.parametrize("init", [True, False], ids=["package", "namespace"])
def test_a_module_of_a_package_is_found_by_its_dotted_name(tmp_path, monkeypatch, init: bool):
    package = tmp_path / "a repository" / f"models_{init}"
    package.mkdir(parents=True)
    (package / "width.py").write_text("WIDTH = 8")
    source = (
        "import torch\nfrom .width import WIDTH\ndef build(): return torch.nn.Linear(WIDTH, 2), torch.ones(1, WIDTH)"
    )
    (package / "net.py").write_text(source)
    if init:
        (package / "__init__.py").touch()
    monkeypatch.chdir(package.parent)
    spec = catalog.own_model_spec(f"{package.name}.net:build")
    assert own_model.load(spec, CPU).model.in_features == 8
    assert catalog.own_model_parts(spec.checkpoint) == (package / "net.py", "build")


def test_a_file_of_a_package_may_import_its_neighbours_by_relative_names(tmp_path):
    package = tmp_path / "relative_models"
    package.mkdir()
    (package / "__init__.py").write_text("WIDTH = 4")
    (package / "net.py").write_text(
        "import torch\nfrom . import WIDTH\ndef build(): return torch.nn.Linear(WIDTH, 2), torch.ones(WIDTH)"
    )
    assert own_model.load(catalog.own_model_spec(f"{package / 'net.py'}:build"), CPU).model.in_features == 4


def test_a_package_named_as_another_module_of_the_worker_is_refused(tmp_path, monkeypatch):
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "net.py").write_text("def build(): pass")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=r"in a package demo, and the process .* another module of this name"):
        own_model.load(catalog.own_model_spec("demo.net:build"), CPU)
