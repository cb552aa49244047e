"""Numbers to text and back. The only place that turns seconds into milliseconds."""

import math
import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

_PATH = re.compile(r"""(?<![\w/.:~-])(?:file://|~)?(?:/[^\s/'"`,;:()<>|]+)+/([^\s/'"`,;:()<>|]*)""")


def capital(phrase: str) -> str:
    return phrase[:1].upper() + phrase[1:]


def sentence(phrase: str) -> str:
    """The phrase with a capital letter and a full stop."""
    return f"{capital(phrase)}."


def milliseconds(seconds: float) -> float:
    return seconds * 1e3


def significant(value: float) -> str:
    """Three significant digits, never in exponent form: 1.44, 14.4, 144, 1444."""
    decimals = 2 - (abs(value) >= 10) - (abs(value) >= 100)
    return f"{value:.{decimals}f}"


def latency(seconds: float) -> str:
    """'0.0041 ms', '0.43 ms', '14.4 ms', '329 ms', '2.60 s'."""
    value = milliseconds(seconds)
    if 0 < value < 0.1:  # a tiny module of one's own: two decimals would say 0.00
        return f"{value:.{1 - math.floor(math.log10(value))}f} ms"
    return f"{significant(value)} ms" if value < 999.5 else f"{significant(seconds)} s"


def latencies(seconds: Iterable[float]) -> str:
    """'329 ms → 144 ms'."""
    return " → ".join(map(latency, seconds))


def duration(seconds: float) -> str:
    """A waiting time: '0.4 s', '12 s', '4 min 20 s'."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def rounded_duration(seconds: float) -> str:
    """An estimated time: whole seconds up to 10 s, steps of 5 s up to 90 s, then whole minutes, then hours."""
    if seconds < 10:
        return f"{max(1, round(seconds))} s"
    if seconds < 90:
        return f"{5 * round(seconds / 5)} s"
    return f"{round(seconds / 60)} min" if seconds < 2 * 3600 else f"{round(seconds / 3600)} h"


def start_time(seconds: float) -> str:
    """A first call or a part of one: '9.20 ms', '0.4 s', '28 s'."""
    return latency(seconds) if 0 < seconds < 0.1 else duration(seconds)


def two_digits(number: float) -> int:
    """An uncertain whole number: 18 151 becomes 18 000, 99 stays."""
    return int(round(number, min(0, 2 - len(str(round(number))))))


def ratio(value: float) -> str:
    """A speed-up: '2.29×', '0.10×', '12.3×'."""
    return f"{significant(value)}×" if value >= 1 else f"{value:.2f}×"


def estimate(value: float, low: float, high: float) -> str:
    """A speed-up with the digits that its interval allows: '1.36×' for 1.33 to 1.39, '1.4×' for 1.3 to 1.5.

    '2×' for 1.4 to 2.9. Below 1.95 there is always a decimal: '1×' would say that nothing is gained.
    """
    decimals = max(0 if value >= 1.95 else 1, math.ceil(-math.log10(max(high - low, 1e-9)) - 1e-9))
    return f"{value:.{decimals}f}×" if decimals < 2 else ratio(value)


def ends(low: float, high: float) -> str:
    """An interval: '1.41 to 1.45×', with a third decimal if the ends are closer than 0.02."""
    decimals = 3 if high - low < 0.02 else 2
    return f"{low:.{decimals}f} to {high:.{decimals}f}×"


def group_thousands(number: int) -> str:
    """'18 000'."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def count(number: int, thing: str) -> str:
    """'0 breaks', '1 break', '1 200 calls'."""
    ending = "" if number == 1 else "es" if thing.endswith("s") else "s"
    return f"{group_thousands(number)} {thing}{ending}"


def percent(share: float) -> str:
    """'58 %', '0.4 %'."""
    return f"{share * 100:.0f} %" if abs(share) >= 0.0995 else f"{share * 100:.1f} %"


def size(count: float) -> str:
    """Bytes: '812 kB', '1.2 GB' (decimal units, as disks and GPUs are sold)."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{significant(count) if unit != 'B' else round(count)} {unit}"
        count /= 1000
    return f"{significant(count)} GB"


def parameters(count: int) -> str:
    """'2.51 B', '86.6 M', '431 k'."""
    if count >= 1_000_000_000:
        return f"{significant(count / 1e9)} B"
    return f"{significant(count / 1e6)} M" if count >= 1_000_000 else f"{round(count / 1e3)} k"


def shorten(text: str, most: int) -> str:
    """The text, cut to `most` characters with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def without_folders(text: str) -> str:
    """`text` with every absolute path cut to its last part, so that no folder of this machine is shown."""
    return _PATH.sub(lambda path: path[1] or "…", text)


def minute(at: str) -> str:
    """'2026-11-21 09:00' of a time in ISO 8601."""
    return at[:16].replace("T", " ")


def redact(text: str) -> str:
    """An error's text for a browser: without folders of this machine, without control characters."""
    return printable(without_folders(text))


def printable(text: str, kept: str = "\n\t") -> str:
    """`text` with U+FFFD for each character that is invisible or changes the direction of writing, except `kept`.

    That also hits the joiners within some emoji and in Persian and Hindi.
    """

    def is_visible(character: str) -> bool:
        return character.isprintable() or character in kept or unicodedata.category(character) == "Zs"

    return "".join(character if is_visible(character) else "\N{REPLACEMENT CHARACTER}" for character in text)


def excerpt(value: Any) -> str:
    """At most 80 characters of `repr(value)`, for an error message."""
    return shorten(repr(value), 80)


def parse_whole(value: Any) -> Any:
    """An int for a whole float or the text of an int; any other value unchanged."""
    with suppress(ValueError):
        return int(value) if isinstance(value, str) or (isinstance(value, float) and value.is_integer()) else value
    return value


def parse_number(value: Any) -> Any:
    """A float for the text of a finite number; any other value unchanged."""
    with suppress(ValueError):
        return float(value) if isinstance(value, str) and math.isfinite(float(value)) else value
    return value
