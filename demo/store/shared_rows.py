"""Rows of results that somebody shared: flat Parquet files of `columns.EXPORTED`, read without trusting them.

What is covered: a file that is no Parquet, is too large, has a text that is too long, or has other columns is left out
as a whole; a row with a value that is missing, impossible or could mislead a reader is left out and counted.
What is not covered: false figures that look true; files made to exploit the Parquet reader itself; an option that only
a newer version of this program knows.
"""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.core import format as fmt, stats
from demo.core.result import STATUSES
from demo.core.spec import MAX_PROMPT, OPTIONS, OWN_MODEL, BadInput, RunSpec
from demo.core.stats import Verdict
from demo.store.columns import EXPORTED

if TYPE_CHECKING:
    import pandas as pd

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
        elif not _may_say(line["verdict"], stats.Interval(line["speedup"], line["speedup_low"], line["speedup_high"])):
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


def _may_say(verdict: str | None, speedup: stats.Interval) -> bool:
    """Whether this verdict fits: without noise, with noise that hides any difference, or where threads lacked cores."""
    return verdict in (stats.verdict(speedup, None), stats.verdict(speedup, _ALL_NOISE), "unsure")


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
