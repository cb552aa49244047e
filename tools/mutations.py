"""Do the tests catch faults? Puts each fault of `tools.mutation_list` into a copy of a tree and runs tests there.

    python -m tools.mutations TREE LABEL [--only 1-10,14] [--named] [--again] [--check]

TREE is a checkout, LABEL a column of the table ('before', 'after'). A fault is caught when a test fails that passes in
an unchanged copy of the same tree. The tests named beside a fault run first. Where none of them fails, the tests that
import the changed file, those of its room and `test_end_to_end.py` run, too. If none of those fails either, the fault
is not caught. Tests that hang catch a fault where they do not hang in the unchanged copy.

Outcomes are added to `benchmarks/results/mutations.json` one by one, so that a run which was stopped goes on where it
was; `mutations.md` beside it is the table of all of them. Not covered: slow tests, several faults at once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.mutation_list import MUTATIONS, ROOMS, Mutation

ROOT = Path(__file__).resolve().parent.parent
OUTCOMES = ROOT / "benchmarks" / "results" / "mutations.json"
TABLE = OUTCOMES.with_suffix(".md")
LABELS = ("before", "after")
NAMED_SECONDS, BROAD_SECONDS = 180.0, 600.0
"""Limits of one run of pytest: of the named tests, and of the broader selection."""
LOT = 6
"""Faults whose catching tests are run in the unchanged copy together."""
NOTHING_SELECTED = 5
"""pytest's exit code where `-k` fits no test: those of the named files then run without it."""


class BadList(ValueError):
    """A snippet is not there, or there more than once."""


@dataclass(frozen=True)
class Place:
    file: Path
    """Relative to the tree."""
    old: str
    new: str


def sources(tree: Path) -> list[Path]:
    found = [path for path in (tree / "demo").rglob("*") if path.suffix in (".py", ".js", ".css")]
    return sorted([*found, tree / "app.py"])


def find(mutation: Mutation, tree: Path) -> Place:
    """The first of the mutation's snippets that the tree holds. Raises BadList unless it stands there exactly once."""
    for old, new in mutation.swaps:
        counts = {path: path.read_text(encoding="utf-8").count(old) for path in sources(tree)}
        holding = [path for path, count in counts.items() if count]
        if sum(counts.values()) == 1:
            return Place(holding[0].relative_to(tree), old, new)
        if holding:
            raise BadList(f"{mutation.fault}: {old!r} stands {sum(counts.values())} times in {holding}")
    raise BadList(f"{mutation.fault}: {mutation.swaps[0][0]!r} is nowhere in {tree}")


def named_tests(mutation: Mutation, tree: Path) -> list[str]:
    """The test files of the mutation as paths in this tree; of 'new|old' the first that is there. Raises BadList."""
    found = []
    for name in mutation.tests.split():
        there = [f"tests/{each}.py" for each in name.split("|") if (tree / "tests" / f"{each}.py").is_file()]
        if not there:
            raise BadList(f"{mutation.fault}: there is no test file {name}")
        found.append(there[0])
    return found


def broad_tests(mutation: Mutation, place: Place, tree: Path, named: Sequence[str]) -> list[str]:
    """Further test files: those that name the changed file, those of its room, and the run from end to end."""
    word = re.compile(rf"\b{re.escape(place.file.stem)}\b")
    found = []
    for path in sorted((tree / "tests").rglob("test_*.py")):
        name = path.relative_to(tree).as_posix()
        in_room = name.startswith(f"tests/{mutation.room}/")
        in_browser = name.startswith("tests/browser/")
        imports = "\n".join(re.findall(r"^(?:from|import) .*|^    \w+,$", path.read_text(encoding="utf-8"), re.M))
        of_file = in_browser if place.file.suffix != ".py" else bool(word.search(imports)) and not in_browser
        if (in_room or of_file or path.name == "test_end_to_end.py") and "tests/gpu/" not in name:
            found.append(name)
    return [name for name in found if name not in named]


@dataclass(frozen=True)
class Ended:
    code: int | None
    """pytest's exit code; None where it did not end in time."""
    failed: tuple[str, ...]
    """The tests that failed, without their parameters."""


def run_tests(
    copy: Path, tests: Iterable[str], only: str, limit: float, without: Iterable[str] = (), first_only: bool = True
) -> Ended:
    """pytest in `copy`, until the first failure or to the end."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "--tb=no", "-rfE"]
    command += [*(["-x"] if first_only else []), *(["-k", only] if only else [])]
    command += [*(f"--deselect={test}" for test in without), *tests]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(copy.parent / "tmp")}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=copy, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            _end_leftovers(str(copy.parent / "tmp"))
        output.seek(0)
        failures = re.findall(r"^(?:FAILED|ERROR) (\S+)", output.read(), re.M)
    return Ended(code, tuple(dict.fromkeys(test.partition("[")[0] for test in failures)))


def _end_leftovers(temporary: str) -> None:
    """Ends what a fault has kept from ending: processes that have `temporary` in their environment (Linux only)."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if temporary.encode() in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


@dataclass
class Copies:
    """Two copies of a tree below one temporary folder: one stays as it is, the other gets a fault at a time."""

    folder: Path
    broken: set[str] = field(default_factory=set)
    """Tests that fail in the unchanged copy, too: they catch nothing."""

    @classmethod
    def of(cls, tree: Path, folder: Path) -> Copies:
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=tree, check=True, capture_output=True, text=True).stdout.split("\0")
        (folder / "tmp").mkdir()
        for copy in (folder / "clean", folder / "mutated"):
            for name in filter(None, names):
                if (tree / name).is_file():
                    (copy / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(tree / name, copy / name)
            _git(copy, "init", "-q")
            _git(copy, "add", "-A")
            _git(copy, "commit", "-q", "-m", "the tree")
        return cls(folder)

    @property
    def clean(self) -> Path:
        return self.folder / "clean"

    @property
    def mutated(self) -> Path:
        return self.folder / "mutated"

    def find_broken(self, tests: Iterable[str]) -> None:
        """Runs these in the unchanged copy."""
        if tests := sorted(set(tests)):
            ended = run_tests(self.clean, tests, "", BROAD_SECONDS, first_only=False)
            if ended.code not in (0, 1):
                raise RuntimeError(f"pytest ended with {ended.code} in the unchanged copy: {' '.join(tests)}")
            self.broken |= set(ended.failed)


def _git(copy: Path, *arguments: str) -> None:
    who = ["-c", "user.name=mutations", "-c", "user.email=mutations@localhost", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=copy, check=True)


def judge(mutation: Mutation, tree: Path, copies: Copies, only_named: bool = False) -> str:
    """The test that catches the mutation, '' where none does. The mutated copy is as it was afterwards."""
    place = find(mutation, tree)
    named = named_tests(mutation, tree)
    path = copies.mutated / place.file
    original = path.read_text(encoding="utf-8")
    path.write_text(original.replace(place.old, place.new), encoding="utf-8")
    _git(copies.mutated, "commit", "-q", "-a", "-m", mutation.fault)  # tests may ask git for the tree's state
    try:
        by = _caught(copies, named, mutation.only, NAMED_SECONDS)
        if by or only_named:
            return by
        return _caught(copies, broad_tests(mutation, place, tree, named), "", BROAD_SECONDS)
    finally:
        _git(copies.mutated, "reset", "-q", "--hard", "HEAD~")


def _caught(copies: Copies, tests: Sequence[str], only: str, limit: float) -> str:
    ended = run_tests(copies.mutated, tests, only, limit, copies.broken)
    if ended.code == NOTHING_SELECTED and only:
        ended, only = run_tests(copies.mutated, tests, "", limit, copies.broken), ""
    if ended.code in (0, NOTHING_SELECTED):
        return ""
    if ended.code is None:
        hangs_anyway = run_tests(copies.clean, tests, only, limit, copies.broken).code is None
        return "" if hangs_anyway else f"{' '.join(tests)} (does not end)"
    if not ended.failed:
        raise RuntimeError(f"pytest ended with {ended.code} and named no test: {' '.join(tests)}")
    return ended.failed[0]


def judge_all(
    chosen: Sequence[tuple[int, Mutation]], tree: Path, copies: Copies, only_named: bool
) -> Iterator[tuple[int, Mutation, str]]:
    """Each with the test that catches it. What caught a lot of them runs in the unchanged copy in one go."""
    for lot in (chosen[start : start + LOT] for start in range(0, len(chosen), LOT)):
        open_ = list(lot)
        while open_:
            caught = [(number, one, judge(one, tree, copies, only_named)) for number, one in open_]
            copies.find_broken(by for *_, by in caught if "::" in by)
            yield from (each for each in caught if each[2] not in copies.broken)
            open_ = [(number, one) for number, one, by in caught if by in copies.broken]


def read_outcomes() -> dict[str, dict[str, str]]:
    return json.loads(OUTCOMES.read_text(encoding="utf-8")) if OUTCOMES.is_file() else {}


def keep(label: str, fault: str, by: str) -> None:
    """Adds one outcome to what is stored, and writes the table anew."""
    outcomes = read_outcomes()
    outcomes.setdefault(label, {})[fault] = by
    for name, content in ((OUTCOMES, json.dumps(outcomes, indent=1) + "\n"), (TABLE, table(outcomes))):
        draft = name.with_name(f".{name.name}.{os.getpid()}")
        draft.write_text(content, encoding="utf-8")
        draft.replace(name)


def table(outcomes: dict[str, dict[str, str]]) -> str:
    """Markdown: a line for each mutation, and the totals by room."""

    def cell(label: str, mutation: Mutation) -> str:
        by = outcomes.get(label, {}).get(mutation.fault)
        if by is None:
            return "not run"
        return f"`{by.replace('tests/', '')}`" if by else "**no**"

    lines = [
        "# Faults put into the code, and the tests that catch them",
        "",
        "`python -m tools.mutations TREE LABEL` puts each of these faults alone into a copy of the tree. A fault is "
        "caught when a test fails that passes without it; the column names the first such test. The faults were chosen "
        "by reading the code, before any of them was tried. 'before' is the commit before the modules were sorted into "
        "rooms, 'after' the state that this file was committed with.",
        "",
        *_rows(("room", "faults", *(f"caught {label}" for label in LABELS)), _totals(outcomes)),
        "",
        *_rows(
            ("", "room", "fault", *(f"caught {label} by" for label in LABELS)),
            [
                (str(number), one.room, one.fault.replace("|", "\\|"), *(cell(label, one) for label in LABELS))
                for number, one in enumerate(MUTATIONS, 1)
            ],
        ),
    ]
    return "\n".join(lines) + "\n"


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]


def _totals(outcomes: dict[str, dict[str, str]]) -> list[tuple[str, ...]]:
    rows = []
    for room in (*ROOMS, "all"):
        ours = [one for one in MUTATIONS if room in (one.room, "all")]
        caught = [
            str(sum(bool(known.get(one.fault)) for one in ours)) if (known := outcomes.get(label)) else "not run"
            for label in LABELS
        ]
        rows.append((room, str(len(ours)), *caught))
    return rows


def _chosen(only: str) -> list[int]:
    """Numbers, counted from 1, of '1-10,14'; all for ''."""
    if not only:
        return list(range(1, len(MUTATIONS) + 1))
    ends = [part.partition("-")[::2] for part in only.split(",")]
    return [number for first, last in ends for number in range(int(first), int(last or first) + 1)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tree", type=Path, metavar="TREE", help="the checkout to put the faults into a copy of")
    parser.add_argument("label", choices=LABELS, metavar="LABEL", help=f"the column of the table: {', '.join(LABELS)}")
    parser.add_argument("--only", default="", help="these by their numbers, such as 1-10,14")
    parser.add_argument("--named", action="store_true", help="run the named tests only, and keep what they catch")
    parser.add_argument("--again", action="store_true", help="also those that have an outcome already")
    parser.add_argument("--check", action="store_true", help="only look whether each fault and its tests are found")
    options = parser.parse_args(arguments)
    tree = options.tree.resolve()
    chosen = [(number, MUTATIONS[number - 1]) for number in _chosen(options.only)]
    if options.check:
        return _check(tree, [mutation for _, mutation in chosen])
    known: dict[str, Any] = {} if options.again else read_outcomes().get(options.label, {})
    with tempfile.TemporaryDirectory(prefix="mutations-", ignore_cleanup_errors=True) as folder:
        copies = Copies.of(tree, Path(folder))
        left = [(number, one) for number, one in chosen if one.fault not in known]
        for number, mutation, by in judge_all(left, tree, copies, options.named):
            if by or not options.named:
                keep(options.label, mutation.fault, by)
            print(f"{number:2} {mutation.room:8} {by or 'NOT CAUGHT'}: {mutation.fault}", flush=True)
    return 0


def _check(tree: Path, mutations: Sequence[Mutation]) -> int:
    problems = []
    for mutation in mutations:
        try:
            find(mutation, tree)
            named_tests(mutation, tree)
        except BadList as problem:
            problems.append(str(problem))
    print("\n".join(problems) or f"All {len(mutations)} are found: {dict(Counter(one.room for one in mutations))}.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
