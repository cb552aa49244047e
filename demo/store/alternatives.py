"""What other ways to compile brought on this machine, as its stored runs show it.

Covered: two runs with the same versions that differ in one way to compile alone, and the ratio of their speed-ups. Not
covered: options that change eager as well, such as the number format, and differences below the spread of reruns,
which is for the reader of a `Gain` to know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from demo.core.catalog import is_folder
from demo.core.result import RunResult
from demo.core.speedup import Gain
from demo.core.stats import geometric_mean
from demo.store.reruns import StoredRun, rerun_of

WAYS = ("mode", "compiler", "scope", "freezing", "dynamic")
"""Options that change the compiled model and leave eager as it is."""


def gains(of: RunResult, others: Iterable[StoredRun]) -> tuple[Gain, ...]:
    """For each other value of a way to compile what it brought in place of the value that `of` has.

    From runs of the same checkpoint where there are any, else from those of others. `others` are earlier runs on the
    same device with the same torch. Folders count for themselves only.
    """
    own = rerun_of(of)
    if own is None:
        return ()
    ratios: dict[tuple[str, str, Any], dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    # The name of a folder is not for other models' readers.
    shown = [one for one in others if one.spec.checkpoint == own.spec.checkpoint or not is_folder(one.spec.checkpoint)]
    for one in (own, *shown):
        fields = vars(one.spec)
        for way in WAYS:
            alike = (*(value for name, value in fields.items() if name != way), *one.settings)
            ratios[way, one.spec.checkpoint, alike][fields[way]].append(one.within.ratio)
    brought: dict[tuple[str, Any], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (way, checkpoint, _), values in ratios.items():
        without = values.pop(getattr(own.spec, way), [])
        for value, found in values.items() if without else ():
            brought[way, value][checkpoint].append(geometric_mean(found) / geometric_mean(without))
    return tuple(
        _gain(way, value, {own.spec.checkpoint: found[own.spec.checkpoint]} if own.spec.checkpoint in found else found)
        for (way, value), found in brought.items()
    )


def _gain(way: str, value: Any, found: dict[str, list[float]]) -> Gain:
    return Gain(way, value, geometric_mean([geometric_mean(ratios) for ratios in found.values()]), tuple(sorted(found)))
