"""Short sentences about a result, the same ones on the page, in the terminal and in an export.

All are plain text in the language asked for; `Language.marked` makes HTML of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

from demo.core import format as fmt
from demo.core import stats
from demo.core.languages import ENGLISH, Language
from demo.core.measurement import BreakEven, Compilation, CompiledFirst, GraphBreak, Measurement
from demo.core.result import RunResult
from demo.core.spec import OPTIONS, RunSpec
from demo.core.speedup import Speedup

Timed = TypeVar("Timed")


def headline(result: RunResult) -> str:
    """The result in one English sentence, or the failure's message; before it what added graph breaks cost."""
    parts = headline_parts(result, ENGLISH)
    if parts is None:
        return result.failure.message if result.failure else ENGLISH.plain("no_figures")
    answer = f"{' '.join(filter(None, parts))}, {times(result)}"
    cost = break_cost(result, ENGLISH)
    return f"{cost}. {ENGLISH.plain('without_break')} {answer}" if cost else answer


Outcome = Literal["void", "faster", "slower", "same", "unsure"]


def outcome(result: RunResult) -> Outcome | None:
    """The verdict that the headline states; None for a run without a speed-up."""
    if result.failure is not None or result.speedup is None:
        return None
    return "void" if result.void else result.speedup.verdict


WIDE = 0.1
"""From this half-width of the interval on the figure is told as 'about', and an open verdict as noise."""
_OPEN = {
    "narrow": ("answer_narrow", "", "answer_narrow"),
    "noise": ("unsure_figure", "unsure_after", "answer_unsure"),
    "busy": ("busy_figure", "busy_after", "answer_busy"),
    "void": ("void_figure", "void_after", "answer_void"),
}
"""Keys of the figure, the text after it, and both in short."""


def headline_parts(result: RunResult, lang: Language) -> tuple[str, str, str] | None:
    """The headline as (text before, the figure, text after); None for a run without a speed-up."""
    speedup, verdict = _decided_speedup(result), outcome(result)
    if speedup is None:
        return None
    if verdict in ("void", "unsure"):
        middle, after, _ = _OPEN[_openness(speedup)]
        return "", lang.capital(lang.plain(middle)), lang.plain(after) if after else ""
    rough = [lang.plain("rough")] if result.rough else []
    if verdict == "same":
        return lang.plain("same_before"), lang.plain("same_figure"), " ".join(rough)
    about = speedup.half_width > WIDE
    if verdict == "faster":
        before, after = "faster_about_before" if about else "faster_before", "faster_after"
    else:
        before, after = "slower_about_before" if about else "slower_before", "slower_after"
    return lang.plain(before), lang.plain_value(figure(speedup)), " ".join([lang.plain(after), *rough])


def _decided_speedup(result: RunResult) -> Speedup | None:
    """The speed-up of a run that has an outcome."""
    return result.speedup if outcome(result) is not None else None


def figure(speedup: Speedup) -> str:
    """How many times faster, or slower where it is, with the digits that its interval allows."""
    if speedup.verdict == "slower":
        return fmt.estimate(1 / speedup.ratio, 1 / speedup.high, 1 / speedup.low)
    return fmt.estimate(speedup.ratio, speedup.low, speedup.high)


def _openness(speedup: Speedup) -> str:
    """The key of `_OPEN` for an open verdict."""
    known = {"recompiled": "void", "machine": "busy"}
    narrow = speedup.open_because == "interval" and speedup.half_width <= WIDE
    return known.get(speedup.open_because, "narrow" if narrow else "noise")


def answer(result: RunResult, lang: Language) -> str:
    """The answer in short: 'about 1.5× faster (rough)', 'no difference', 'too noisy to tell'; '' without one."""
    speedup, verdict = _decided_speedup(result), outcome(result)
    if speedup is None:
        return ""
    if verdict not in ("faster", "slower"):
        return lang.plain("answer_same" if verdict == "same" else _OPEN[_openness(speedup)][2])
    ratio = lang.plain_value(figure(speedup))
    if speedup.half_width > WIDE:
        ratio = lang.composed("about", value=ratio)
    told = lang.composed("answer_faster" if verdict == "faster" else "answer_slower", ratio=ratio)
    return " ".join([told, lang.plain("rough")]) if result.rough else told


def speedup(result: RunResult, lang: Language) -> str:
    """The speed-up in short: '1.44×', of a loss '0.80×', or 'no difference', 'too noisy to tell'; '' without one.

    A ratio is shown only where the verdict is faster or slower.
    """
    known = _decided_speedup(result)
    if known is not None and outcome(result) in ("faster", "slower"):
        return lang.plain_value(fmt.estimate(known.ratio, known.low, known.high))
    return answer(result, lang)


def speedup_in_full(result: RunResult, lang: Language) -> str:
    """'1.44× (1.41 to 1.45×)', 'too noisy to tell (0.90 to 1.90×)'; '' without one."""
    interval = _decided_speedup(result)
    if interval is None:
        return ""
    low, high = map(lang.plain_value, ends(interval.low, interval.high))
    return lang.composed("row_speedup_value", ratio=speedup(result, lang), low=low, high=high)


def summary(result: RunResult) -> str:
    """'shapes-vit on AMD EPYC: compiled ran 1.25 ± 0.01 times faster than eager (from 3 processes)', in English.

    '' without a speed-up. The number after ± is half the width of the 95 % interval, with as many decimals as it needs
    not to be 0.
    """
    interval, verdict = _decided_speedup(result), outcome(result)
    if interval is None:
        return ""
    if verdict in ("faster", "slower"):
        ends_shown = (interval.ratio, interval.low, interval.high)
        ratio, low, high = ends_shown if verdict == "faster" else (1 / value for value in ends_shown)
        half = abs(high - low) / 2
        digits = next((digits for digits in (2, 3, 4) if round(half, digits) > 0), None)
        figure = f"{ratio:.{digits}f} ± {half:.{digits}f}" if digits else f"{ratio:.2f}"
        answer = f"compiled ran {figure} times {verdict} than eager"
    else:
        answer = f"{speedup_in_full(result, ENGLISH)}, compiled against eager"
    return f"{result.spec.checkpoint} on {where(result)}: {answer} ({basis(result, ENGLISH)})"


def break_parts(result: RunResult, lang: Language) -> tuple[str, str, str] | None:
    """What an added graph break costs, in the headline's three parts; None where it was not measured."""
    cost = result.break_cost
    if cost is None or outcome(result) in (None, "void"):
        return None
    match cost.verdict:
        case "faster" | "slower":  # the verdict is that of the model without the break
            effect = "slower" if cost.verdict == "faster" else "faster"
            ends_shown = (cost.low, cost.high) if cost.ratio > 1 else (1 / cost.high, 1 / cost.low)
            shown = lang.plain_value(fmt.estimate(max(cost.ratio, 1 / cost.ratio), *ends_shown))
            return lang.plain(f"break_{effect}_before"), shown, lang.plain(f"{effect}_after")
        case "same":
            return lang.plain("break_same_before"), lang.plain("same_figure"), ""
        case _:
            return "", lang.plain("unsure_figure"), lang.plain("break_unsure_after")


def short(checkpoint: str) -> str:
    """A Hub id without its owner, for sentences."""
    return checkpoint.rsplit("/", 1)[-1]


def where(result: RunResult) -> str:
    """The name of the device that ran it; without one, the device that was asked for."""
    return result.environment.device_name if result.environment else result.spec.device


def status(result: RunResult, lang: Language) -> str:
    """'Finished', 'Out of memory'."""
    return lang.plain(f"status_{result.status}")


def settings_line(spec: RunSpec, lang: Language) -> str:
    """'shapes-vit · batch 4 · default · float32', then the options that are not at their default, switches last.

    Only switches and options with a text `asked_<name>` are listed.
    """
    return f"{lang.plain_value(spec.checkpoint)} · {settings(spec, lang)}"


def settings(spec: RunSpec, lang: Language) -> str:
    """'batch 4 · default · float32': `settings_line` without the checkpoint."""
    return " · ".join(settings_apart(spec, lang))


def settings_apart(spec: RunSpec, lang: Language) -> list[str]:
    """Batch, mode and number format, then each option that is not at its default."""
    parts = [lang.plain("asked_batch", size=spec.batch_size)] if spec.unit != "call" else []
    parts += [lang.plain_value(spec.mode), lang.plain_value(spec.dtype)]
    for option in sorted(OPTIONS.values(), key=lambda option: option.kind == "switch"):
        value = getattr(spec, option.name)
        if value == option.default:
            continue
        if option.name == "threads":
            parts.append(count(value, "thread", lang))
        elif (key := f"asked_{option.name}") in lang.texts:
            parts.append(lang.plain(key, **{option.name: value}))
        elif option.kind == "switch":
            parts.append(lang.plain(option.name).lower())
    return parts


def times(result: RunResult) -> str:
    """'329 ms → 144 ms': a call, eager then compiled."""
    return times_of(result.latencies.values()) if len(result.latencies) == 2 else ""


def times_of(seconds: Iterable[float]) -> str:
    return " → ".join(map(fmt.latency, seconds))


def interval(result: RunResult, lang: Language) -> str:
    """'speed-up 1.41 to 1.45×, 95 % confidence, from 3 processes'; of a loss the slow-down, which has more digits than
    0.10×."""
    return lang.listed([interval_alone(result, lang), basis(result, lang)]) if result.speedup is not None else ""


def interval_alone(result: RunResult, lang: Language) -> str:
    """'speed-up 1.41 to 1.45×, 95 % confidence'; '' without a speed-up."""
    speedup = result.speedup
    if speedup is None:
        return ""
    slower = speedup.verdict == "slower"
    low, high = (1 / speedup.high, 1 / speedup.low) if slower else (speedup.low, speedup.high)
    return _interval("history_slowdown" if slower else "history_speedup", low, high, lang)


def basis(result: RunResult, lang: Language) -> str:
    """What the interval rests on: 'from 3 processes, how they differ counted in'; '' without a speed-up."""
    speedup = result.speedup
    if speedup is None:
        return ""
    if speedup.basis == "within one process":
        return lang.plain("basis_within_one_process")
    processes = count(speedup.processes, "process", lang)
    if speedup.processes > 1:
        return lang.composed("basis_many", processes=processes)
    return lang.composed("basis_one", processes=processes, spread=lang.plain_value(fmt.percent(speedup.deviation)))


def decided(result: RunResult, lang: Language) -> str:
    """What left the verdict open, and whether this process disagrees with those before it; '' where neither is so."""
    speedup = _decided_speedup(result)
    if speedup is None:
        return ""
    floor = fmt.percent(stats.noise_floor(result.pooled_control))
    reasons = {
        "interval": lang.plain("decided_interval"),
        "control": lang.plain("decided_control", floor=floor),
        "machine": lang.plain("decided_machine"),
    }
    return " ".join(filter(None, [reasons.get(speedup.open_because), lang.plain("widened") if speedup.widened else ""]))


def open_between_processes(result: RunResult) -> bool:
    """Whether the verdict is unsure only because processes differ: longer timing would not help, a repeat would."""
    return outcome(result) == "unsure" and not unsure_within(result)


def unsure_within(result: RunResult) -> bool:
    """Whether the calls of this process alone leave the verdict open."""
    return result.speedup is not None and stats.verdict(result.speedup.within, result.control) == "unsure"


def break_interval(result: RunResult, lang: Language) -> str:
    """The interval of an added graph break's cost; where it makes a call faster, of that speed-up."""
    cost = result.break_cost
    if cost is None:
        return ""
    if cost.verdict == "slower":
        return _interval("history_speedup", 1 / cost.high, 1 / cost.low, lang)
    return _interval("history_slowdown", cost.low, cost.high, lang)


def _interval(key: str, low: float, high: float, lang: Language) -> str:
    least, most = ends(low, high)
    return lang.listed([lang.plain(key, low=least, high=most), lang.plain("confidence", confidence="95 %")])


def ends(low: float, high: float) -> tuple[str, str]:
    """'1.41' and '1.45×'; with a third decimal where the ends are closer than 0.02."""
    return (f"{low:.3f}", f"{high:.3f}×") if high - low < 0.02 else fmt.ratio_ends(low, high)


def noise_floor(result: RunResult, lang: Language) -> str:
    """The A/A control: how far eager differs from itself on this machine."""
    if result.control is None:
        return lang.plain("noise_floor_none")
    return lang.plain("noise_floor", floor=fmt.percent(stats.noise_floor(result.control)))


def break_cost(result: RunResult, lang: Language) -> str:
    """What the added graph break costs a compiled call; '' where none was added or the cost was not measured."""
    parts, cost = break_parts(result, lang), result.break_cost
    if parts is None or cost is None:
        return ""
    low, high = map(lang.plain_value, ends(cost.low, cost.high))
    return lang.composed("row_speedup_value", ratio=" ".join(filter(None, parts)), low=low, high=high)


def compiled_first(result: RunResult, lang: Language) -> list[str]:
    """Graphs and breaks of compiling before any eager call, where they differ, and what to do; else empty."""
    if result.compilation is None or (first := result.compilation.compiled_first) is None:
        return []
    texts = [lang.composed("compiled_first", found=captured(first, lang))]
    if first.fullgraph_error:
        texts.append(
            lang.composed("compiled_first_refused", reason=lang.plain_quoted(first.fullgraph_error.rstrip(".")))
        )
    here = result.compilation
    if (len(first.graph_breaks), first.graphs) > (len(here.graph_breaks), here.graphs):
        texts.append(lang.plain("compiled_first_advice"))
    return [lang.sentence(text) for text in texts]


def count(number: int, thing: str, lang: Language) -> str:
    """'0 breaks', '1 break', '1 200 calls': the text holds both forms, that of one first."""
    one, many = lang.plain(f"count_{thing}", count=grouped(number)).split(" | ")
    return one if number == 1 else many


def calls_to_pay(even: BreakEven | None, lang: Language) -> str:
    """'10 000 to 140 000 calls', 'about 20 000 calls', of a text model tokens; 'never' where it never pays.

    From one end of the speed-up's interval to the other, each end with two digits.
    """
    if even is None or even.calls is None or even.low is None:
        return lang.plain("never")
    thing, each = ("call", 1.0) if even.answers is None else ("token", (even.images or 0) / max(even.calls, 1))
    low = fmt.two_digits(even.low * each)
    if even.high is None:
        return lang.composed("at_least", low=count(low, thing, lang))
    high = fmt.two_digits(even.high * each)
    if low == high:
        return lang.composed("about", value=count(low, thing, lang)) if low >= 100 else count(low, thing, lang)
    return lang.composed("between", low=lang.plain_value(grouped(low)), high=count(high, thing, lang))


def caveats(result: RunResult, lang: Language) -> list[str]:
    """What to know before using the figures, each once."""
    known = {caveat.text: caveat for caveat in result.caveats if caveat.key in lang.texts}
    return [
        lang.plain(known[text].key, **known[text].values) if text in known else lang.retold(text)
        for text in dict.fromkeys(result.warnings)
    ]


def remedy(english: str, lang: Language) -> str:
    """What to do after a failure, sentence by sentence."""
    return " ".join(map(lang.retold, re.split(r"(?<=[.!?]) (?=[A-Z])", english)))


def variant(name: str, lang: Language) -> str:
    """'eager' or 'compiled' in lower case, as at a bar of a chart."""
    return lang.plain(f"variant_{name}").lower()


def out_of_memory(lang: Language) -> str:
    """'out of memory', in place of a figure."""
    return lang.plain("status_out_of_memory").lower()


def enumerated(phrases: Iterable[str], lang: Language) -> str:
    """'1', '1 and 4', '1, 4 and 16'; the phrases are in this language already."""
    *most, last = phrases
    return lang.composed("chart_both", most=lang.listed(most), last=last) if most else last


def grouped(number: int) -> str:
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def break_reason(graph_break: GraphBreak) -> str:
    """torch's reason, without the empty message that dynamo prints for a graph break inserted by hand."""
    return graph_break.reason.replace(" Message: None", "")


def rate(per_second: float, spec: RunSpec, lang: Language) -> str:
    """'694 images/s'."""
    return lang.plain(f"rate_{spec.unit}", rate=fmt.rate(per_second))


def by_variant(eager: Timed, compiled: Timed, with_break: Timed, graph_break: bool) -> dict[str, Timed]:
    """One value for each timed variant, by its name. With added graph breaks there are two compiled models."""
    known = {"eager": eager, "compiled": compiled}
    return known | {"with_break": with_break} if graph_break else known


def timed(result: RunResult) -> dict[str, Measurement | None]:
    """`by_variant` of a result. An older one may have asked for a graph break and was not timed without it."""
    return by_variant(result.eager, result.compiled, result.with_break, result.with_break is not None)


def latencies(result: RunResult) -> dict[str, float | None]:
    """Seconds of one call by the same names as `timed`: `RunResult.latencies`, and that with added breaks."""
    both = result.latencies
    return by_variant(both.get("eager"), both.get("compiled"), result.with_break_latency, result.with_break is not None)


def variants(result: RunResult, lang: Language) -> list[tuple[str, str, Measurement]]:
    """('eager', its name in this language, its measurement) and the same of 'compiled', where measured."""
    sides = (("eager", result.eager), ("compiled", result.compiled))
    return [(name, lang.plain(f"variant_{name}"), side) for name, side in sides if side is not None]


def worker_word(kind: str, word: str, lang: Language) -> str:
    """The text of a code that a worker sends; an unknown code, as of a newer worker, is quoted as it is."""
    key = f"{kind}_{word.replace(' ', '_')}"
    return lang.plain(key) if key in lang.texts else lang.plain_quoted(word)


def cost_key(compiled: Compilation, cache: str) -> str:
    """The end of a text's key about a first call: 'cold' or 'warm'; 'built' or 'loaded' where it is of a package."""
    return {"cold": "built", "warm": "loaded"}.get(cache, cache) if compiled.package_bytes is not None else cache


def captured(first: CompiledFirst, lang: Language) -> str:
    return lang.listed([count(first.graphs, "graph", lang), count(len(first.graph_breaks), "break", lang)])


def rounded_duration(seconds: float) -> str:
    """An estimate's precision: whole seconds up to 10 s, steps of 5 s up to 90 s, then whole minutes, then hours."""
    if seconds < 10:
        return f"{max(1, round(seconds))} s"
    if seconds < 90:
        return f"{5 * round(seconds / 5)} s"
    return f"{round(seconds / 60)} min" if seconds < 2 * 3600 else f"{round(seconds / 3600)} h"


def named_setting(name: str, value: Any, lang: Language) -> str:
    """An option and its value as the form names them: 'Freezing: on'."""
    if isinstance(value, bool):
        shown = lang.plain("choice_on" if value else "choice_off")
    else:
        shown = lang.plain(key) if (key := f"choice_{value}") in lang.texts else lang.plain_value(value)
    return lang.composed("setting", name=lang.plain(name), value=shown)
