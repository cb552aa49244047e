"""Numbers to text. The only place that turns seconds into milliseconds."""

from __future__ import annotations

import re

_PATH = re.compile(r"""(?<![\w/.:~-])(?:file://|~)?(?:/[^\s/'"`,;:()<>|]+)+/([^\s/'"`,;:()<>|]*)""")


def milliseconds(seconds: float) -> float:
    return seconds * 1e3


def _significant(value: float) -> str:
    """`value` with about three significant digits and never in exponent form: 1.44, 14.4, 144, 1444."""
    magnitude = abs(value)
    decimals = 2
    while magnitude >= 10 and decimals > 0:
        magnitude /= 10
        decimals -= 1
    return f"{value:.{decimals}f}"


def latency(seconds: float) -> str:
    """'0.43 ms', '14.4 ms', '329 ms', '2.60 s'."""
    if milliseconds(seconds) < 999.5:
        return f"{_significant(milliseconds(seconds))} ms"
    return f"{_significant(seconds)} s"


def duration(seconds: float) -> str:
    """How long somebody waits: '0.4 s', '12 s', '4 min 20 s'."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def ratio(value: float) -> str:
    """A speed-up: '2.29×', '0.10×', '12.3×'."""
    return f"{_significant(value)}×" if value >= 1 else f"{value:.2f}×"


def ratio_interval(low: float, high: float) -> str:
    """'1.41 to 1.45×'."""
    return " to ".join(ratio_ends(low, high))


def ratio_ends(low: float, high: float) -> tuple[str, str]:
    """'1.41' and '1.45×'."""
    return f"{low:.2f}", f"{high:.2f}×"


def percent(share: float) -> str:
    """'58 %', '0.4 %'."""
    return f"{share * 100:.0f} %" if abs(share) >= 0.0995 else f"{share * 100:.1f} %"


def size(count: float) -> str:
    """Bytes: '812 kB', '1.2 GB' (decimal units, as disks and GPUs are sold)."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{_significant(count) if unit != 'B' else round(count)} {unit}"
        count /= 1000
    return f"{_significant(count)} GB"


def parameters(count: int) -> str:
    """'86.6 M', '431 k'."""
    return f"{_significant(count / 1e6)} M" if count >= 1_000_000 else f"{round(count / 1e3)} k"


def rate(per_second: float) -> str:
    """'694': of anything, a second."""
    return _significant(per_second)


def without_folders(text: str) -> str:
    """`text` with every absolute path cut down to its last part: what a stranger may read of an error."""
    return _PATH.sub(lambda path: path[1] or "…", text)


def for_a_stranger(text: str) -> str:
    """An error's text as it may reach a browser: no folder of this machine, nothing that moves a cursor."""
    return printable(without_folders(text))


def printable(text: str) -> str:
    """`text` with what moves a terminal's cursor or turns its letters around replaced; line ends and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
