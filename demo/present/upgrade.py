"""Should I upgrade? One verdict on two runs of one spec in two environments, such as two releases of torch.

Covered: eager and compiled, each as one environment's seconds over the other's across the processes that ran beside
each other; the first compiled call and the peak of memory, as figures; whether the outputs agree as a user would judge
it, and with their own eager. A model that fails in one environment only is a verdict.

Not covered: processes that ran more than `BESIDE_SECONDS` apart, since what changed on the machine meanwhile would
count as the environment's; raw outputs across environments, which only a run has at hand.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from demo.core import format as fmt, outputs, stats
from demo.core.languages import Language
from demo.core.machine import Environment
from demo.core.result import RunResult
from demo.present import sentences
from demo.store.reruns import compiled_spec

BESIDE_SECONDS = 3600.0
FEWEST_PROCESSES = 3
"""Of each environment, for a verdict on times: from two of each, equal environments were called different too often on
a machine whose processes differ much."""
Verdict = Literal["fails", "mends", "differs", "faster", "slower", "mixed", "same", "unsure"]
"""Each has a text `upgrade_<verdict>`."""


@dataclass(frozen=True)
class Upgrade:
    """What the second environment is beside the first. Ratios are the first's seconds over the second's."""

    verdict: Verdict
    eager: stats.Interval | None = None
    compiled: stats.Interval | None = None
    outputs: Literal["match", "differ", "not comparable"] = "not comparable"


def comparable(first: RunResult, second: RunResult) -> bool:
    """Whether the two ran the same spec and picture on the same device, in environments that differ."""
    here, there = first.environment, second.environment
    pictures = {one.image.sha256 for one in (first, second) if one.image is not None}
    # "auto" may stand in the spec of a run that failed early: the device's name decides
    specs = {dataclasses.replace(compiled_spec(one.spec), device="auto") for one in (first, second)}
    if here is None or there is None or len(specs) > 1 or len(pictures) > 1:
        return False
    return here.device_name == there.device_name and _versions(here) != _versions(there)


def compare(first: RunResult, second: RunResult) -> Upgrade | None:
    """The verdict on two runs that are `comparable`; None where neither has an answer, or one was only broken off."""
    statuses = {first.status, second.status}
    if "ok" not in statuses or statuses & {"cancelled", "interrupted"}:
        return None
    worked = [one.status == "ok" for one in (first, second)]
    if not all(worked):
        return Upgrade("fails" if worked[0] else "mends")
    outputs = _outputs(first, second)
    ours, theirs = beside(first, second)
    if not enough(ours, theirs) or first.threads != second.threads:
        return Upgrade("differs" if outputs == "differ" else "unsure", outputs=outputs)
    spread = max((one.spread or stats.ASSUMED).deviation for one in (first, second))

    def ratio(seconds: str) -> stats.Interval:
        slow, fast = ([getattr(one, seconds) for one in side] for side in (ours, theirs))
        return stats.level_ratio(slow, fast, spread, comparisons=2)

    eager, compiled = ratio("eager_seconds"), ratio("compiled_seconds")
    found = {stats.verdict(one, None) for one in (eager, compiled)}
    if outputs == "differ":
        return Upgrade("differs", eager, compiled, outputs)
    order: tuple[Verdict, ...] = ("faster", "slower", "unsure", "same")
    verdict = "mixed" if {"faster", "slower"} <= found else next(one for one in order if one in found)
    return Upgrade(verdict, eager, compiled, outputs)


def beside(first: RunResult, second: RunResult) -> tuple[list[stats.ProcessResult], list[stats.ProcessResult]]:
    """The processes that ran within `BESIDE_SECONDS` of one of the other's, if they say when; both empty or neither."""
    # the last process may have no answer, on a machine that was too busy: those before it have theirs
    pools = (run.as_processes() or run.earlier for run in (first, second))
    ours, theirs = ([one for one in pool if one.started_at] for pool in pools)

    def near(some: Sequence[stats.ProcessResult], others: Sequence[stats.ProcessResult]) -> list[stats.ProcessResult]:
        return [one for one in some if any(_seconds_apart(one, other) <= BESIDE_SECONDS for other in others)]

    return near(ours, theirs), near(theirs, ours)


def enough(ours: Sequence[stats.ProcessResult], theirs: Sequence[stats.ProcessResult]) -> bool:
    return min(len(ours), len(theirs)) >= FEWEST_PROCESSES


def told(first: RunResult, second: RunResult, names: tuple[str, str], lang: Language) -> str:
    """The verdict and its figures, as sentences; '' where the two are not `comparable` or neither has an answer.

    `names` are what the two are called, such as 'A' and 'B'; their versions are added.
    """
    found = compare(first, second) if comparable(first, second) else None
    if found is None:
        return ""
    old, new = (
        lang.plain_value(f"{name} ({versions})") for name, versions in zip(names, _apart(first, second), strict=True)
    )
    failed = second if found.verdict == "fails" else first
    verdict = lang.composed(f"upgrade_{found.verdict}", old=old, new=new, status=sentences.status(failed, lang))
    if found.verdict in ("fails", "mends"):
        why = lang.plain_quoted(failed.failure.message) if failed.failure is not None else ""
        return f"{verdict} {why}".strip()
    costs = [one.compilation.known_costs if one.compilation else {} for one in (first, second)]
    cache = "cold" if all("cold" in one for one in costs) else "warm"
    peaks = [one.compiled.peak_memory_bytes if one.compiled else None for one in (first, second)]
    figures = lang.composed(
        "upgrade_figures",
        eager=_ratio(found.eager, lang),
        compiled=_ratio(found.compiled, lang),
        cache=lang.plain(f"head_{cache}"),
        first=lang.plain_value(" → ".join(fmt.duration(one[cache]) if cache in one else "–" for one in costs)),
        memory=lang.plain_value(" → ".join(fmt.size(one) for one in peaks if one) if all(peaks) else "–"),
        outputs=sentences.worker_word("parity", found.outputs, lang),
    )
    return f"{verdict} {figures}"


def _versions(environment: Environment) -> dict[str, str]:
    known = {"torch": environment.torch, "transformers": environment.transformers, "Python": environment.python}
    return {**known, "triton": environment.triton or "–", "environment": environment.interpreter or "–"}


def _apart(first: RunResult, second: RunResult) -> list[str]:
    """The versions of each as far as they differ; torch's always."""
    sides = [_versions(one.environment) for one in (first, second) if one.environment is not None]
    names = [name for name in sides[0] if name == "torch" or len({side[name] for side in sides}) > 1]
    return [", ".join(f"{name} {side[name]}" for name in names) for side in sides]


def _outputs(first: RunResult, second: RunResult) -> Literal["match", "differ", "not comparable"]:
    """'differ' where eager or compiled shows something else, or where compiled agrees with its eager in one only."""
    parity = [one.parity.verdict if one.parity else "not comparable" for one in (first, second)]
    if sorted(parity) == ["differ", "match"]:
        return "differ"
    ours, theirs = first.predictions, second.predictions
    if not ours or not theirs:
        return "not comparable"
    shown = [outputs.difference(ours[name], theirs[name]) for name in ours if name in theirs]
    return "differ" if any(shown) else "match"


def _seconds_apart(one: stats.ProcessResult, other: stats.ProcessResult) -> float:
    moments = [datetime.fromisoformat(process.started_at) for process in (one, other)]
    return abs((moments[0] - moments[1]).total_seconds())


def _ratio(interval: stats.Interval | None, lang: Language) -> str:
    """'1.08× faster (1.03 to 1.13×)', 'no difference (0.98 to 1.02×)', 'too noisy to tell (0.90 to 1.20×)'; '–'."""
    if interval is None:
        return "–"
    verdict = stats.verdict(interval, None)
    answer = lang.composed(f"answer_{verdict}", ratio=lang.plain_value(sentences.figure(interval)))
    if verdict == "slower":
        interval = stats.Interval(1 / interval.ratio, 1 / interval.high, 1 / interval.low)
    return sentences.with_ends(answer, interval, lang)
