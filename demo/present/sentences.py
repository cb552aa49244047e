"""Short sentences about a result, the same ones on the page, in the terminal and in an export.

All are plain text in the language asked for; `Language.marked` makes HTML of them.
"""

import re
from collections.abc import Iterable
from typing import Any, Literal

from demo.core import format as fmt, stats
from demo.core.languages import ENGLISH, Language
from demo.core.measurement import Compilation, Measurement
from demo.core.result import BreakEven, RunResult
from demo.core.spec import OPTIONS, RunSpec


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
Three = tuple[str, str, str]
"""The text before a large figure, the figure, and the text after it."""


def headline_parts(result: RunResult, lang: Language) -> Three | None:
    """The headline as (text before, the figure, text after); None for a run without a speed-up."""
    speedup = _decided_speedup(result)
    if speedup is None:
        return None
    kind = _kind(speedup)
    about = "_about" if kind in ("faster", "slower") and speedup.half_width > WIDE else ""
    before, shown, after = _three(f"headline_{kind}{about}", figure(speedup), lang)
    if result.rough and kind in ("faster", "slower", "same"):
        after = f"{after} {lang.plain('rough')}".strip()
    return before, shown, after


def _three(key: str, ratio: str, lang: Language) -> Three:
    """The parts of a text that has bars between them."""
    before, shown, after = (part.strip() for part in lang.plain(key, ratio=ratio).split("|"))
    return before, shown, after


def _decided_speedup(result: RunResult) -> stats.Speedup | None:
    """The speed-up of a run that has an outcome."""
    return result.speedup if outcome(result) is not None else None


def figure(speedup: stats.Interval) -> str:
    """How many times faster, or slower where it is, with the digits that its interval allows."""
    if speedup.ratio < 1:
        return fmt.estimate(1 / speedup.ratio, 1 / speedup.high, 1 / speedup.low)
    return fmt.estimate(speedup.ratio, speedup.low, speedup.high)


def _kind(speedup: stats.Speedup) -> str:
    """The verdict; of an open one what it tells: 'narrow', 'unsure', 'busy' or 'void'. The end of the texts' keys."""
    if speedup.open_because == "recompiled":
        return "void"
    if speedup.verdict != "unsure":
        return speedup.verdict
    if speedup.open_because == "machine":
        return "busy"
    return "narrow" if speedup.open_because == "interval" and speedup.half_width <= WIDE else "unsure"


def answer(result: RunResult, lang: Language) -> str:
    """The answer in short: 'about 1.5× faster (rough)', 'no difference', 'too noisy to tell'; '' without one."""
    speedup = _decided_speedup(result)
    if speedup is None:
        return ""
    kind, ratio = _kind(speedup), lang.plain_value(figure(speedup))
    if speedup.half_width > WIDE:
        ratio = lang.composed("about", value=ratio)
    told = lang.composed(f"answer_{kind}", ratio=ratio)
    return f"{told} {lang.plain('rough')}" if result.rough and kind in ("faster", "slower") else told


def speedup(result: RunResult, lang: Language) -> str:
    """The speed-up in short where it is known: '1.44×', of a loss '0.80×'; else `answer`."""
    known = _decided_speedup(result)
    if known is not None and outcome(result) in ("faster", "slower"):
        return lang.plain_value(fmt.estimate(known.ratio, known.low, known.high))
    return answer(result, lang)


def speedup_in_full(result: RunResult, lang: Language) -> str:
    """'1.44× (1.41 to 1.45×)', 'too noisy to tell (0.90 to 1.90×)'; '' without one."""
    interval = _decided_speedup(result)
    return "" if interval is None else with_ends(speedup(result, lang), interval, lang)


def with_ends(told: str, interval: stats.Interval, lang: Language) -> str:
    """'1.44× (1.41 to 1.45×)'."""
    low, high = map(lang.plain_value, ends(interval.low, interval.high))
    return lang.composed("row_speedup_value", ratio=told, low=low, high=high)


def summary(result: RunResult) -> str:
    """'shapes-vit on AMD EPYC: 1.25× (1.24 to 1.26×), compiled against eager (from 3 processes)', or ''."""
    answer = speedup_in_full(result, ENGLISH)
    about = f"{result.spec.checkpoint} on {where(result)}"
    return answer and f"{about}: {answer}, compiled against eager ({basis(result, ENGLISH)})"


def break_parts(result: RunResult, lang: Language) -> Three | None:
    """What an added graph break costs, in the headline's three parts; None where it was not measured."""
    cost = result.break_cost
    if cost is None or outcome(result) in (None, "void"):
        return None
    # the verdict is that of the model without the break
    keys = {"faster": "break_slower", "slower": "break_faster", "same": "break_same", "unsure": "break_unsure"}
    return _three(keys[cost.verdict], figure(cost), lang)


def short(checkpoint: str) -> str:
    """A Hub id without its owner, for sentences."""
    return checkpoint.rsplit("/", 1)[-1]


def where(result: RunResult) -> str:
    """The name of the device that ran it; without one, the device that was asked for."""
    return result.environment.device_name if result.environment else result.spec.device


def machine(result: RunResult) -> list[str]:
    """The device, torch and transformers with their versions; nothing where the run did not get so far."""
    known = result.environment
    return [known.device_name, f"torch {known.torch}", f"transformers {known.transformers}"] if known else []


def status(result: RunResult, lang: Language) -> str:
    """'Finished', 'Out of memory'."""
    return lang.plain(f"status_{result.status}")


def settings_line(spec: RunSpec, lang: Language) -> str:
    """'shapes-vit · batch 4 · default · float32', then the options that `settings_apart` lists."""
    return f"{lang.plain_value(spec.checkpoint)} · {settings(spec, lang)}"


def settings(spec: RunSpec, lang: Language) -> str:
    """'batch 4 · default · float32': `settings_line` without the checkpoint."""
    return " · ".join(settings_apart(spec, lang))


def settings_apart(spec: RunSpec, lang: Language) -> list[str]:
    """Batch, mode and number format, then what is not at its default: options with a text `asked_<name>`, switches."""
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
    """'speed-up 1.41 to 1.45×, 95 % confidence, from 3 processes'; '' without a speed-up."""
    return lang.listed([interval_alone(result, lang), basis(result, lang)]) if result.speedup is not None else ""


def interval_alone(result: RunResult, lang: Language) -> str:
    """'speed-up 1.41 to 1.45×, 95 % confidence'; '' without a speed-up."""
    speedup = result.speedup
    return _confident(range_of(speedup, speedup.verdict == "slower", lang), lang) if speedup is not None else ""


def range_of(interval: stats.Interval, slower: bool, lang: Language) -> str:
    """'speed-up 1.41 to 1.45×'; where it is `slower` the slow-down, which has more digits than 0.10×."""
    low, high = ends(1 / interval.high, 1 / interval.low) if slower else ends(interval.low, interval.high)
    return lang.plain("history_slowdown" if slower else "history_speedup", low=low, high=high)


def _confident(told: str, lang: Language) -> str:
    return lang.listed([told, lang.plain("confidence", confidence="95 %")])


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
    texts, floor = [], fmt.percent(stats.noise_floor(result.pooled_control))
    if speedup.open_because in ("interval", "control", "machine"):
        texts.append(lang.plain(f"decided_{speedup.open_because}", floor=floor))
    if speedup.widened:
        texts.append(lang.plain("widened"))
    return " ".join(texts)


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
    without = stats.Interval(1 / cost.ratio, 1 / cost.high, 1 / cost.low)
    return _confident(range_of(without, cost.verdict != "slower", lang), lang)


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
    return with_ends(" ".join(filter(None, parts)), cost, lang) if parts and cost else ""


def compiled_first(result: RunResult, lang: Language) -> list[str]:
    """Graphs and breaks of compiling before any eager call, where they differ, and what to do; else empty."""
    here = result.compilation
    if here is None or (first := here.compiled_first) is None:
        return []
    found = [count(first.graphs, "graph", lang), count(len(first.graph_breaks), "break", lang)]
    texts = [lang.composed("compiled_first", found=lang.listed(found))]
    if (len(first.graph_breaks), first.graphs) > (len(here.graph_breaks), here.graphs):
        texts.append(lang.plain("compiled_first_advice"))
    return [lang.sentence(text) for text in texts]


def count(number: int, thing: str, lang: Language) -> str:
    """'0 breaks', '1 break', '1 200 calls': the text holds both forms, that of one first."""
    one, many = lang.plain(f"count_{thing}", count=grouped(number)).split(" | ")
    return one if number == 1 else many


def calls_to_pay(even: BreakEven | None, lang: Language) -> str:
    """'10 000 to 140 000 calls', 'about 20 000 calls', of a text model tokens, by the interval's ends; 'never'."""
    if even is None or even.calls is None or even.low is None:
        return lang.plain("never")
    thing, each = ("call", 1.0) if even.answers is None else ("token", (even.images or 0) / max(even.calls, 1))
    low = fmt.two_digits(even.low * each)
    if even.high is None:
        return lang.composed("at_least", low=count(low, thing, lang))
    high = fmt.two_digits(even.high * each)
    if low == high:
        return lang.composed("about", value=count(low, thing, lang))
    return lang.composed("between", low=lang.plain_value(grouped(low)), high=count(high, thing, lang))


def caveats(result: RunResult, lang: Language) -> list[str]:
    """What to know before using the figures, each once."""
    return [lang.retold(text) for text in dict.fromkeys(result.warnings)]


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


def timed(result: RunResult) -> dict[str, Measurement | None]:
    """Each timed variant by its name. With an added graph break there are two compiled models."""
    broken = {"with_break": result.with_break} if result.with_break is not None else {}
    return {"eager": result.eager, "compiled": result.compiled, **broken}


def latencies(result: RunResult) -> dict[str, float | None]:
    """Seconds of one call by the same names as `timed`: `RunResult.latencies`, and that with added breaks."""
    known = {**result.latencies, "with_break": result.with_break_latency}
    return {name: known.get(name) for name in timed(result)}


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


def cache_state(compiled: Compilation, cache: str, lang: Language) -> str:
    """The state of the compile cache, or of a package, before a first call: 'empty cache'."""
    if cache == "partly":
        return lang.plain_quoted("partly filled cache")
    return lang.plain(f"head_{cost_key(compiled, cache)}")


def rounded_duration(seconds: float) -> str:
    """An estimate's precision: whole seconds up to 10 s, steps of 5 s up to 90 s, then whole minutes, then hours."""
    if seconds < 10:
        return f"{max(1, round(seconds))} s"
    if seconds < 90:
        return f"{5 * round(seconds / 5)} s"
    return f"{round(seconds / 60)} min" if seconds < 2 * 3600 else f"{round(seconds / 3600)} h"


def named_setting(name: str, value: Any, lang: Language) -> str:
    """An option and its value as the form names them: 'Freezing: on'."""
    return lang.composed("setting", name=lang.plain(name), value=shown_value(value, lang))


def shown_value(value: Any, lang: Language) -> str:
    """An option's value as the form names it."""
    if isinstance(value, bool):
        return lang.plain("choice_on" if value else "choice_off")
    return lang.plain(key) if (key := f"choice_{value}") in lang.texts else lang.plain_value(value)
