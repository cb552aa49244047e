"""A speed-up in words: the verdict for large letters and in short, the ratio, and the interval."""

from ..core import format as fmt
from ..core.comparison import Speedup
from ..core.stats import Interval

HEADLINES: dict[str, tuple[str, str, str]] = {
    "faster": ("Compiled is", "{ratio}", "faster"),
    "slower": ("Compiled is", "{ratio}", "slower"),
    "same": ("Compiled makes", "no difference", ""),
    "narrow": ("", "No clear difference", ""),
    "unsure": ("", "Too noisy", "to tell"),
    "busy": ("", "Too busy", "to tell"),
    "void": ("", "Void:", "recompiled while timed"),
}
"""The headline of a run in three texts, by `_headline_key`; the page shows the second one large."""
WIDE = 0.1
"""If only the interval leaves the verdict open, the headline is 'No clear difference' for an interval of up to ±10 %,
and 'Too noisy to tell' for a wider one."""
RANGE = 0.3
"""If an interval is wider than ±30 %, only the interval is stated, without the ratio: '1.2 to 13× faster'."""


def _headline_key(speedup: Speedup) -> str:
    """Returns a key of `HEADLINES`: the verdict, or in place of 'unsure' a word that says why, such as 'busy'."""
    if speedup.open_because == "recompiled":
        return "void"
    if speedup.verdict != "unsure":
        return speedup.verdict
    if speedup.open_because == "machine":
        return "busy"
    return "narrow" if speedup.open_because == "interval" and speedup.half_width <= WIDE else "unsure"


def headline_texts(speedup: Speedup) -> tuple[str, str, str]:
    """Returns the verdict in three texts: 'Compiled is', '1.44×', 'faster'. The second is for large letters."""
    before, middle, after = HEADLINES[_headline_key(speedup)]
    return before, middle.format(ratio=ratio_above_one(speedup)), after


def in_short(speedup: Speedup) -> str:
    """Returns the verdict in short: '1.44× faster', 'too noisy to tell'."""
    _, middle, after = headline_texts(speedup)
    text = f"{middle} {after}".strip()
    return text[:1].lower() + text[1:]


def ratio_or_range(interval: Interval) -> str:
    """Returns the ratio of the speed-up, '1.44×', or only its interval, '1.2 to 13×'.

    It returns the interval if the interval's half-width is over `RANGE` (±30 %).
    """
    if interval.half_width > RANGE:
        return fmt.two_ends(interval.low, interval.high)
    return fmt.estimate(interval.ratio, interval.low, interval.high)


def ratio_above_one(interval: Interval) -> str:
    """Returns how many times faster or slower compiled is, never below 1: '1.44×'.

    It has as many digits as the interval allows. If the interval's half-width is over `RANGE` (±30 %), the interval is
    returned instead: '1.2 to 13×'.
    """
    if interval.ratio < 1:
        return ratio_or_range(Interval(1 / interval.ratio, 1 / interval.high, 1 / interval.low))
    return ratio_or_range(interval)


def with_ends(text: str, interval: Interval) -> str:
    """Returns `text` followed by the interval: '1.44× (1.41 to 1.45×)'."""
    return f"{text} ({fmt.ends(interval.low, interval.high)})"
