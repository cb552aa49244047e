"""Rows of results that somebody shared in a dataset: a copy fetched from the Hub in a thread, read without trusting it.

The files are flat Parquet of `export.EXPORTED`, kept in huggingface_hub's folder of assets.

What is covered: a Hub that is slow, refuses, or cannot be reached (the last copy stays, and the answer says of when it
is); a dataset with more or larger files than fit (the newest days are fetched). A file that is no Parquet, is too
large, has a text that is too long, or has other columns is left out as a whole; a row with a value that is missing,
impossible or could mislead a reader is left out and counted.
What is not covered: a restart without the Hub shows no rows; a Hub that sends a file slower than anybody waits holds up
later fetches until it ends; a file that was changed and has kept its size is not fetched again; a Hub that is gone in
the middle may leave an older version of a file; false figures that look true; files made to exploit the Parquet reader
itself; an option that only a newer version of this program knows.
"""

import logging
import math
import re
import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from demo.core import format as fmt, hub, stats
from demo.core.result import STATUSES
from demo.core.spec import MAX_PROMPT, OPTIONS, OWN_MODEL, BadInput, RunSpec
from demo.core.stats import Verdict
from demo.store.export import EXPORTED

if TYPE_CHECKING:
    import pandas as pd

ROWS = "rows"
"""The folder of the dataset with the files of rows, `DAY-PROGRAM.parquet`."""
RENEW_SECONDS = 300.0
"""Age from which a copy that somebody looks at is fetched again, and time to the next try after one that failed."""
REQUEST_SECONDS = 10.0
MAX_FILES, MAX_FILE_BYTES = 200, 4_000_000
_NAME = re.compile(rf"{ROWS}/\d{{4}}-\d\d-\d\d-[A-Za-z0-9]{{1,40}}\.parquet")
SHOWN = ("ok", "out_of_memory", "compile_failed")
"""Statuses that say something about a model on a device. Rows of the others are read and not kept."""
MAX_ROWS = 20_000
"""Rows of one file, and rows that are shown."""
MAX_DECODED = 64_000_000
"""Bytes of a file's columns without compression."""
QUOTIENT_TOLERANCE = 0.05
"""Eager over compiled is the speed-up, also of repeats. Another program may have rounded the figures."""
_ALL_NOISE = stats.Interval(1.0, 0.0, math.inf)
_PATTERNS = {
    "id": r"[\w-]{1,60}",
    "started_at": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "checkpoint": r"(?=.{1,96}$)\w[\w.-]*(/\w[\w.-]*)?",
    "torch": r"\d[\w.+-]{0,39}",
    "transformers": r"\d[\w.+-]{0,39}",
    "device_name": r"[ -;=?-\[\]-_a-{}~]{1,120}",  # what can be printed, without < > ` | and the backslash
}
"""What a text has to match as a whole, where `\\w` and `\\d` are ASCII."""
_MOST = {"eager_ms": 3_600_000.0, "compiled_ms": 3_600_000.0} | dict.fromkeys(
    ("speedup", "speedup_low", "speedup_high"), 1_000.0
)
"""The largest value of each figure. Its inverse is the smallest."""
_OPTION_COLUMNS = {name: "threads_asked" if name == "threads" else name for name in OPTIONS}
_NEEDED = (*_PATTERNS, *_MOST, "task", "status", "threads", "verdict")
_COLUMNS = list(dict.fromkeys((*_NEEDED, *_OPTION_COLUMNS.values())))
_OF_THE_CELL = ("device", "threads", "text", "prompt", "tokens")
_COMPARED = tuple(
    name for name, option in OPTIONS.items() if name == "protocol" or not (option.timing or name in _OF_THE_CELL)
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SharedRow:
    id: str
    started_at: str
    status: str
    """One of `SHOWN`. The figures of all but 'ok' are None."""
    spec: RunSpec
    torch: str
    transformers: str
    device_name: str
    threads: int
    eager_ms: float | None
    compiled_ms: float | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    verdict: Verdict | None

    @property
    def device(self) -> tuple[str, int | None]:
        """The device's name, and torch's threads where they decide the speed: on a CPU."""
        return self.device_name, self.threads if self.spec.device == "cpu" else None

    @property
    def model(self) -> tuple[str, tuple[str, ...], str, int]:
        """The checkpoint with what it is asked for: queries, prompt and tokens."""
        return self.spec.checkpoint, self.spec.text, self.spec.prompt, self.spec.tokens

    @cached_property
    def setting(self) -> tuple[Any, ...]:
        """What must be the same for two rows to stand side by side: versions, what is compiled how, and the protocol.

        The model, what it is asked for, and the device are not part of it: a row has those in its cell.
        """
        return (self.torch, self.transformers, *(getattr(self.spec, name) for name in _COMPARED))


_COPIED = tuple(name for name in SharedRow.__dataclass_fields__ if name != "spec")


def read(path: Path) -> tuple[list[SharedRow], int]:
    """The rows of one file, and how many others make no sense.

    Raises ValueError, or an error of pandas or pyarrow, for a file that is no table of this kind or too large.
    """
    table = _table(path)
    told = table["status"].isin(SHOWN) & (table["torch"].notna() | (table["status"] == "ok"))
    table = table[told | ~table["status"].isin(STATUSES)]  # the others are runs that tell nothing
    sensible = table[_sensible(table)].astype(object)
    make_spec = cache(_spec)  # most rows repeat one
    rows = []
    for line in sensible.where(sensible.notna(), None).to_dict("records"):
        spec = make_spec(*(line[name] for name in ("checkpoint", "task", *_OPTION_COLUMNS.values())))
        if line["status"] != "ok":
            line |= dict.fromkeys((*_MOST, "verdict"))
        else:
            speedup = stats.Interval(line["speedup"], line["speedup_low"], line["speedup_high"])
            # without noise, with noise that hides any difference, or where threads lacked cores
            if line["verdict"] not in (stats.verdict(speedup, None), stats.verdict(speedup, _ALL_NOISE), "unsure"):
                continue
        if spec is not None:
            rows.append(SharedRow(spec=spec, **{name: line[name] for name in _COPIED}))
    return rows, len(table) - len(rows)


def _table(path: Path) -> "pd.DataFrame":
    """The known columns, with the types of an export. Raises as `read` does."""
    import pandas as pd  # here, because only a page with a dataset needs them
    from pyarrow import parquet

    about = parquet.read_metadata(path)
    size = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    if about.num_rows > MAX_ROWS or size > MAX_DECODED:
        raise ValueError("too large")
    present = [name for name in _COLUMNS if name in about.schema.names]
    texts = [name for name in present if EXPORTED[name].kind == "string"]
    # a dictionary holds each text once, however often it stands in the file
    frame = pd.read_parquet(path, columns=present, dtype_backend="numpy_nullable", read_dictionary=texts)
    for name in present:
        if EXPORTED[name].kind == "Int64" and frame[name].dtype.kind == "f":  # `astype` would cut it
            raise ValueError(f"{name} is no whole number")
        if name in texts and any(len(text) > MAX_PROMPT for text in frame[name].dropna().unique()):
            raise ValueError(f"a text in {name} is too long")
    if missing := set(_NEEDED) - set(frame):
        raise ValueError(f"no {', '.join(missing)}")
    return frame.astype({name: EXPORTED[name].kind for name in present}).reindex(columns=_COLUMNS)


def _sensible(table: "pd.DataFrame") -> "pd.Series[bool]":
    """Which rows have possible values, and where a run ended well figures that agree with each other."""
    import pandas as pd

    started = pd.to_datetime(table["started_at"], format="%Y-%m-%dT%H:%M:%SZ", utc=True, errors="coerce")
    sensible = table["status"].isin(SHOWN) & table["threads"].between(1, 4096)
    sensible &= started < datetime.now(UTC) + timedelta(days=1)
    for name, pattern in _PATTERNS.items():
        sensible &= table[name].str.fullmatch(pattern, flags=re.ASCII)
    agree = table["speedup"].between(table["speedup_low"], table["speedup_high"])
    agree &= (table["eager_ms"] / table["compiled_ms"] / table["speedup"] - 1).abs() <= QUOTIENT_TOLERANCE
    for name, most in _MOST.items():
        agree &= table[name].between(1 / most, most)
    return (sensible & (agree | (table["status"] != "ok"))).fillna(False)


def _spec(checkpoint: str, task: str, *options: Any) -> RunSpec | None:
    """The spec of these cells; what is missing has its default. None where no run of the page could have it."""
    given = {name: value for name, value in zip(_OPTION_COLUMNS, options, strict=True) if value is not None}
    texts = [value for value in given.values() if isinstance(value, str)]
    if task == OWN_MODEL or any(fmt.printable(text) != text for text in texts):
        return None
    try:
        return RunSpec(checkpoint, task, **{name: OPTIONS[name].parsed(value) for name, value in given.items()})
    except (BadInput, TypeError):
        return None


@lru_cache(maxsize=MAX_FILES)
def _read_once(place: Path, modified_ns: int) -> tuple[list[SharedRow], int]:
    """What `read` gives, once for each version of a file."""
    return read(place)


# The copy


@dataclass(frozen=True)
class Shared:
    """What is known of the dataset's rows at a moment."""

    dataset: str
    rows: tuple[SharedRow, ...] = ()
    """Newest first."""
    unreadable_rows: int = 0
    unreadable_files: int = 0
    cut: bool = False
    """There are more rows than are shown."""
    fetched_at: str = ""
    """UTC, of the last complete look at the Hub; '' if there has been none."""
    fetching: bool = False
    problem: Literal["failed", "busy"] | None = None
    """Why the copy is not a new one: the Hub did not give it, or a run goes on."""


class SharedCopy:
    """The copy of one dataset. All pages of a server share it."""

    def __init__(self, dataset: str) -> None:
        self._shared = Shared(dataset)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._due = 0.0
        """From when the Hub is asked again."""

    def look(self, busy: bool = False) -> Shared:
        """What is known now. It waits for nothing; an old copy is fetched again in a thread.

        While the machine is `busy` with a measurement no fetch begins; one that goes on is not stopped.
        """
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return replace(self._shared, fetching=True)
            if time.monotonic() < self._due or (busy and self._shared.fetched_at):
                return self._shared
            if busy:
                return replace(self._shared, fetching=True, problem="busy")
            self._due = time.monotonic() + RENEW_SECONDS
            self._thread = threading.Thread(target=self._renew, daemon=True)
            self._thread.start()
            return replace(self._shared, fetching=True)

    def _renew(self) -> None:
        try:
            self._shared = self._fetched()
        except Exception as error:  # huggingface_hub and its client raise many kinds, and nobody waits for this
            _log.warning("the dataset %s was not read: %s", self._shared.dataset, error)
            self._shared = replace(self._shared, problem="failed")

    def _fetched(self) -> Shared:
        """The newest rows of the newest files, fetched where not on this disk. Raises what huggingface_hub raises."""
        from huggingface_hub import HfApi, cached_assets_path, constants, hf_hub_download  # it takes some 60 ms
        from huggingface_hub.utils import disable_progress_bars

        disable_progress_bars()
        dataset, endpoint = self._shared.dataset, hub.endpoint()
        folder = cached_assets_path("worth-compiling", dataset, assets_dir=constants.HF_ASSETS_CACHE)
        about = HfApi(endpoint=endpoint).dataset_info(dataset, files_metadata=True, timeout=REQUEST_SECONDS)
        # files of a day to come, by a wrong clock, would always be the newest
        tomorrow = f"{ROWS}/{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}~"
        listed = [file for file in about.siblings or () if _NAME.fullmatch(file.rfilename)]
        sizes = {file.rfilename: file.size or 0 for file in listed if file.rfilename < tomorrow}
        names = sorted(name for name, size in sizes.items() if size <= MAX_FILE_BYTES)[-MAX_FILES:]
        # what is listed is what is fetched, whatever is pushed in between
        asked: dict[str, Any] = {"revision": about.sha, "endpoint": endpoint, "etag_timeout": REQUEST_SECONDS}
        for name in names:
            if not (folder / name).exists() or (folder / name).stat().st_size != sizes[name]:
                hf_hub_download(dataset, name, repo_type="dataset", local_dir=folder, **asked)
        for file in (folder / ROWS).glob("*.parquet"):
            if f"{ROWS}/{file.name}" not in names:
                file.unlink()
        rows: dict[str, SharedRow] = {}
        bad_rows = bad_files = 0
        for name in reversed(names):
            if len(rows) >= MAX_ROWS:
                break
            try:
                found, bad = _read_once(folder / name, (folder / name).stat().st_mtime_ns)
            except Exception:  # pandas and pyarrow raise several kinds; none of them may cost more than this file
                bad_files += 1
            else:
                rows |= {row.id: row for row in found}
                bad_rows += bad
        cut = len(names) < len(sizes) or len(rows) >= MAX_ROWS
        newest = sorted(rows.values(), key=lambda row: (row.started_at, row.id), reverse=True)
        shown = tuple(newest[:MAX_ROWS])
        return Shared(dataset, shown, bad_rows, bad_files, cut, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
