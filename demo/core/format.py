"""Converts numbers to text and back, and makes texts safe to show. Only this file converts seconds to milliseconds."""

import difflib
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress

_LOGIN = re.compile(r"""(?<=://)[^/?#\s'"<>]*@""")
"""Matches user name and password in an address, such as 'me:secret@' in https://me:secret@host/."""
_TOKEN = re.compile(
    r"\b(hf_|api_org_|sk-(?:\w+-)?|gh[opsu]_|github_pat_|glpat-|nvapi-|xox[abpr]-|AKIA|(?i:authorization\W+\w+ ))"
    r"[A-Za-z0-9]{12,}[\w.~+/=-]*"
)
"""Matches tokens of the Hub and of other services by their well-known beginnings, and any token in an HTTP header
Authorization."""
_PATH = re.compile(r"""(?<![\w/.:~-])(?:file://|~)?(?:/[^\s/'"`,;:()<>|]+)+/([^\s/'"`,;:()<>|]*)""")


def capital(phrase: str) -> str:
    return phrase[:1].upper() + phrase[1:]


def sentence(phrase: str) -> str:
    return f"{capital(phrase)}."


def milliseconds(seconds: float) -> float:
    return seconds * 1e3


def significant(value: float) -> str:
    """Returns a number with at least three digits and no exponent: "1.44", "14.4", "144", "1444"."""
    decimals = 2 - (abs(value) >= 10) - (abs(value) >= 100)
    return f"{value:.{decimals}f}"


def latency(seconds: float) -> str:
    """Returns the time of one call as text: "0.0041 ms", "0.43 ms", "14.4 ms", "329 ms", "2.60 s"."""
    value = milliseconds(seconds)
    if 0 < value < 0.1:  # a tiny module of one's own: two decimals would say 0.00
        return f"{value:.{1 - math.floor(math.log10(value))}f} ms"
    return f"{significant(value)} ms" if value < 999.5 else f"{significant(seconds)} s"


def latencies(seconds: Iterable[float]) -> str:
    """Returns the times of several calls as one text: "329 ms → 144 ms"."""
    return " → ".join(map(latency, seconds))


def duration(seconds: float) -> str:
    """Returns a waiting time as text: "9.20 ms", "0.4 s", "12 s", "4 min 20 s", "2 h 10 min", "12 days"."""
    if 0 < seconds < 0.1:
        return latency(seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    if seconds < 48 * 3600:
        hours, rest = divmod(round(seconds / 60), 60)
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{group_thousands(round(seconds / 86400))} days"


def duration_range(low: float, high: float) -> str:
    """Returns a range of waiting times as text: "9.0 to 33 s", "48 s to 2 min 10 s"."""
    first, last = duration(low), duration(high)
    number, _, unit = first.rpartition(" ")
    same = last.count(" ") == 1 and last.endswith(f" {unit}") and " " not in number
    return f"{number if same else first} to {last}"


def rounded_duration(seconds: float) -> str:
    """Returns an estimated time as text, rounded to 1 s, 5 s, minutes or hours: "7 s", "45 s", "12 min", "3 h"."""
    if seconds < 10:
        return f"{max(1, round(seconds))} s"
    if seconds < 90:
        return f"{5 * round(seconds / 5)} s"
    return f"{round(seconds / 60)} min" if seconds < 2 * 3600 else f"{round(seconds / 3600)} h"


def two_digits(number: float) -> int:
    """Returns a number rounded to two significant digits, and to a whole number: 18000 for 18151, 1 for 1.4."""
    return int(round(number, min(0, 2 - len(str(round(number))))))


def ratio(value: float) -> str:
    """Returns a speed-up as text: "2.29×", "0.10×", "12.3×"."""
    return f"{significant(value)}×" if value >= 1 else f"{value:.2f}×"


def estimate(value: float, low: float, high: float) -> str:
    """Returns a speed-up with as many digits as its interval allows: "1.36×" for 1.33 to 1.39, "2×" for 1.4 to 2.9.

    A speed-up below 1.95 has at least one decimal, because "1×" would mean no gain.
    """
    decimals = max(0 if value >= 1.95 else 1, math.ceil(-math.log10(max(high - low, 1e-9)) - 1e-9))
    return f"{value:.{decimals}f}×" if decimals < 2 else ratio(value)


def ends(low: float, high: float) -> str:
    """Returns the two ends of an interval as text: "1.41 to 1.45×". Ends closer than 0.02 get three decimals."""
    decimals = 3 if high - low < 0.02 else 2
    return f"{low:.{decimals}f} to {high:.{decimals}f}×"


def two_ends(low: float, high: float) -> str:
    """Returns the two ends of a wide interval with two digits each: "1.2 to 13×", "0.21 to 0.45×".

    An end is never rounded to 1 or past 1, because that would suggest another verdict.
    """

    def digits(end: float) -> str:
        texts = [f"{end:.{places}f}" if end >= 10 else f"{end:#.{places + 2}g}" for places in range(7)]
        return next((text for text in texts if float(text) != 1), texts[-1])

    return f"{digits(low)} to {digits(high)}×"


def group_thousands(number: int) -> str:
    """Returns a whole number with narrow spaces between thousands: "18 000"."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def count(number: int, noun: str) -> str:
    """Returns a number with its noun: "0 breaks", "1 break", "1 200 calls"."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{group_thousands(number)} {noun}{ending}"


def percent(share: float) -> str:
    """Returns a share from 0 to 1 as text: "58 %", "0.4 %"."""
    return f"{share * 100:.0f} %" if abs(share) >= 0.0995 else f"{share * 100:.1f} %"


def size(count: float, units: Sequence[str] = ("B", "kB", "MB", "GB")) -> str:
    """Returns a number of bytes as text in decimal units: "812 kB", "1.20 GB"."""
    text, (unit, *larger) = f"{round(count)}", units
    while count >= 1000 and larger:
        count /= 1000
        text, unit = significant(count), larger.pop(0)
    return f"{text} {unit}"


def parameters(count: int) -> str:
    """Returns a number of weights as text: "2.51 B", "86.6 M", "431 k"."""
    return size(count, ("", "k", "M", "B"))


def shorten(text: str, most: int) -> str:
    """Returns the text, cut to `most` characters with an ellipsis at the end if it is longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def without_folders(text: str) -> str:
    """Returns `text` with each absolute path cut to its last part: "model.py" for "/home/me/model.py".

    A path with one part, such as "/tmp", stays, and so do Windows paths. A space ends a path."""
    return _PATH.sub(lambda path: path[1] or "…", text)


def minute(at: str) -> str:
    """Returns a time in ISO 8601 cut to the minute: "2026-11-21 09:00"."""
    return at[:16].replace("T", " ")


def without_secrets(text: str) -> str:
    """Returns `text` without logins in addresses. Known tokens are cut to their beginning and '…', such as 'hf_…'."""
    return _TOKEN.sub(lambda token: f"{token[1]}…", _LOGIN.sub("", text))


def redact(text: str) -> str:
    """Returns an error's text without folders of this machine, secrets and control characters, for a browser."""
    return printable(without_folders(without_secrets(text)))


_JOINER = re.compile("(?<=[^\\s\0-\u058f\u2000-\u206f])[\u200c\u200d]")
"""Matches a zero-width joiner or non-joiner, except after a Latin, Greek, Cyrillic or Armenian character."""


def printable(text: str, kept: str = "\n\t") -> str:
    """Returns `text` with U+FFFD in place of invisible characters, and of those that change the direction of writing.

    Characters in `kept` stay. A zero-width joiner stays if it follows an emoji, or a letter of a script that uses
    joiners.
    """
    joiners = {match.start() for match in _JOINER.finditer(text)}

    def stays(place: int, letter: str) -> bool:
        return letter.isprintable() or letter in kept or place in joiners or unicodedata.category(letter) == "Zs"

    return "".join(letter if stays(place, letter) else "\N{REPLACEMENT CHARACTER}" for place, letter in enumerate(text))


def excerpt(value: object) -> str:
    """Returns at most 80 characters of `repr(value)`, for an error message."""
    return shorten(repr(value), 80)


USUAL_NAMES = {"gpu": "cuda", "bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32"}
"""{a word that users type: the value of an option that it means}. Without this, 'gpu' would be taken for a misspelt
'cpu'."""


def did_you_mean(text: object, known: Iterable[str], likeness: float = 0.7) -> str:
    """Returns " Did you mean 'freezing'?" for the word of `known` that is most like `text`; "" if no word is like it.

    Upper and lower case count as equal. A missing owner is ignored: 'resnet50' is like 'microsoft/resnet-50'.
    `likeness`: the least `difflib` ratio of two words that are alike, 0 to 1.
    """
    words = list(known)
    spellings = {word.rpartition("/")[2].lower(): word for word in words} | {word.lower(): word for word in words}
    typed = str(text).strip().lower()
    near = [name] if (name := USUAL_NAMES.get(typed)) in words else []
    near = near or difflib.get_close_matches(typed, spellings, n=1, cutoff=likeness)
    return f" Did you mean {spellings[near[0]]!r}?" if near else ""


def parse_whole(value: object) -> object:
    """Returns an int for a whole float (2.0) or the text of an int ("2"); any other value unchanged."""
    with suppress(ValueError):
        return int(value) if isinstance(value, str) or (isinstance(value, float) and value.is_integer()) else value
    return value


def parse_number(value: object) -> object:
    """Returns a float for the text of a finite number ("1.5"); any other value unchanged."""
    with suppress(ValueError):
        return float(value) if isinstance(value, str) and math.isfinite(float(value)) else value
    return value
