"""Tests that inductor's instruction probe builds its programs once for a cache, before the first compile."""

import itertools
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from torch._inductor import cpp_builder

from demo.backend import compile_cache, instruction_probe
from demo.core.measurement import InstructionProbe


@pytest.fixture
def programs(tmp_path, monkeypatch) -> Iterator[list[int]]:
    """Simulates an empty compile cache. The probe builds two programs, with 3 and 5 s of compiler time, and takes 20 s.

    Yields a list of the seconds of each program that is still to be built."""
    still, clock, compilers = [3, 5], itertools.count(step=20), [0.0]

    def build(_: object) -> None:
        compilers[0] += still.pop(0)

    def probe() -> str:
        while still:
            cpp_builder.CppBuilder("a", "b", None, "").build()
        return "avx512"

    monkeypatch.setattr(cpp_builder.CppBuilder, "__init__", lambda *_: None)
    monkeypatch.setattr(cpp_builder.CppBuilder, "build", build)
    monkeypatch.setattr(instruction_probe, "vector_instructions", probe)
    monkeypatch.setattr(instruction_probe, "_compilers_seconds", lambda: compilers[0])
    monkeypatch.setattr(instruction_probe, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    with torch.compiler.config.patch(cache_key_tag=""):
        yield still


def test_a_cache_knows_what_its_probe_took(programs: list[int]) -> None:
    assert instruction_probe.built() is None
    first = instruction_probe.build()
    assert (first.seconds, first.compiler_seconds, programs) == (20.0, 5, [])
    programs += [9]  # what another probe would build
    assert instruction_probe.build() == instruction_probe.built() == first and programs == [9]


def test_another_compiler_builds_its_own_programs(programs: list[int], monkeypatch) -> None:
    instruction_probe.build()
    monkeypatch.setattr(cpp_builder, "get_compiler_version_info", lambda compiler: "another one")
    assert instruction_probe.built() is None
    programs += [9]
    assert instruction_probe.build().compiler_seconds == 9


def test_a_damaged_file_of_the_cache_is_no_knowledge(programs: list[int], tmp_path) -> None:
    instruction_probe.build()
    for text in ("", "[]", '{"key": 1}', "\0"):
        (tmp_path / "cache" / instruction_probe.FILE).write_text(text)
        assert instruction_probe.built() is None


@pytest.mark.usefixtures("programs")
def test_programs_of_another_tool_leave_the_time_unknown(monkeypatch) -> None:
    monkeypatch.setattr(instruction_probe, "vector_instructions", lambda: "avx512")
    assert instruction_probe.build().seconds is None


@pytest.mark.usefixtures("programs")
def test_a_process_that_looks_keeps_its_code_apart_from_that_for_other_instructions() -> None:
    assert instruction_probe.look() == InstructionProbe(20.0, 20.0)  # by a clock that moves 20 s at each look
    assert torch.compiler.config.cache_key_tag == "avx512"


def test_the_programs_of_a_cache_stay_where_its_unfinished_files_go(programs: list[int], tmp_path) -> None:
    instruction_probe.build()
    compile_cache.remove_unfinished(tmp_path / "cache")
    assert instruction_probe.built() is not None
