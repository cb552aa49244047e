"""Says what a result means: the one `Report` from which page, terminal, exports, pictures and API take their texts.

The interval of the speed-up decides the verdict (`stats.compare`). 'unsure': the interval leaves the verdict open.
Sentences have no full stop, except those of `caveat`, `prediction_notes` and a failure. For a run that failed or has no
speed-up, texts on the speed-up are '' and other fields on it None or empty, if not said otherwise.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ..core import catalog, format as fmt
from ..core.caveat import IMPORTANT
from ..core.comparison import BreakEven, Speedup
from ..core.measurement import Compilation, CompileCost
from ..core.options import CUDA_GRAPH_MODES
from ..core.quality import Quality, quality
from ..core.result import RunResult
from ..core.stats import TAKEN_FACTOR
from ..tasks.registry import BY_NAME
from ..tasks.text_generation import parting
from . import naming, speedup_words as words
from .race import RaceLine

Kind = Literal["faster", "slower", "same", "unsure", "void"]
"""The verdict of a run. 'unsure': not decided. 'void', in older results: recompiled while timed; today a run fails."""
OPEN_BECAUSE = {
    "interval": "The range holds 1, so a gain and a loss are both possible",
    "control": (
        "Eager timed against itself differed by {floor} on this machine: a difference of this size says nothing here"
    ),
    "machine": "Other programs took cores, so a gain and a loss are both possible",
}
"""Why the verdict is 'unsure', by `Speedup.open_because`. {floor} is how far two series of eager calls differed."""
STARTS = {"cold": "from nothing", "warm": "with a kept cache", "partly": "with part of the cache kept"}
"""The states of the compile cache before a first call, in words."""
DISTURBED = "disturbed calls"
DRAWN_ONLY = (
    "This model knows drawn shapes only, and this picture is not one of its drawn scenes: its predictions may mean "
    "nothing. The timing is valid."
)
NEVER = BreakEven(calls=None, low=None, high=None, images=None, seconds=None)


@dataclass(frozen=True)
class Start:
    """A first call of the compiled model that finds the compile cache in one state, such as empty."""

    state: str
    """State of the compile cache: a key of `STARTS`."""
    name: str
    """The state in words: 'from nothing' (empty compile cache), 'with a kept cache', 'with the package kept'."""
    seconds: float
    """Seconds of the first call: a mean over runs with the same settings. For a partly filled cache, of one run."""
    cost: CompileCost
    """Time and parts of a single first call in this state, not a mean. `parts` is {} if the parts are not known."""
    paid: BreakEven | None
    """After how many calls compiling has paid; `NEVER` if compiled is not faster; None if that is not known."""

    @property
    def range(self) -> str:
        """When compiling has paid: '10 000 to 140 000 calls', 'about 20 000 tokens', 'never'; '' if not known."""
        return " ".join(self.range_and_noun)

    @property
    def range_and_noun(self) -> tuple[str, ...]:
        """`range` in two parts, ('10 000 to 140 000', 'calls'). ('never',) if it never pays; () if not known."""
        even = self.paid
        if even is None:
            return ()
        if even.calls is None or even.low is None:
            return ("never",)
        singular, each = ("call", 1.0) if even.answers is None else ("token", (even.images or 0) / max(even.calls, 1))
        ends = [fmt.two_digits(end * each) for end in (even.low, even.high) if end is not None]
        numbers = [fmt.group_thousands(end) for end in ends]
        noun = singular if ends[-1] == 1 else f"{singular}s"
        if even.high is None:
            return f"at least {numbers[0]}", noun
        return (f"about {numbers[0]}" if ends[0] == ends[1] else " to ".join(numbers)), noun


@dataclass(frozen=True)
class Report:
    """What one result means. Each field is computed when it is first read, and then kept."""

    result: RunResult

    # ---- the answer

    @cached_property
    def speedup(self) -> Speedup | None:
        return self.result.speedup if self.result.failure is None else None

    @cached_property
    def kind(self) -> Kind | None:
        if self.speedup is None:
            return None
        return "void" if self.result.void else self.speedup.verdict

    @cached_property
    def decided(self) -> bool:
        """Whether compiled is known to be faster or slower. Only then is the ratio stated."""
        return self.kind in ("faster", "slower")

    @cached_property
    def ranged(self) -> bool:
        """Whether only the range of the speed-up is stated: the half-width of its interval is over `RANGE` (±30 %)."""
        return self.decided and self.speedup is not None and self.speedup.half_width > words.RANGE

    @cached_property
    def large(self) -> tuple[str, str, str] | None:
        """The verdict in three texts: 'Compiled is', '1.44×', 'faster'. The middle text is shown in large letters.

        The middle text is the range, '1.2 to 13×', if the speed-up is `ranged`.
        """
        if self.speedup is None:
            return None
        before, middle, after = words.headline_texts(self.speedup)
        if self.result.spec.graph_break:
            after = f"{after} (with added graph breaks)".strip()
        return before, middle, after

    @cached_property
    def sentence(self) -> str:
        """The verdict, 'Compiled is 1.44× faster', or the message of a failure."""
        if self.large is not None:
            return " ".join(filter(None, self.large))
        return self.result.failure.message if self.result.failure else "The run gave no figures."

    @cached_property
    def times(self) -> str:
        """The times of an eager and a compiled call, '329 ms → 144 ms', even of a failed run; '' if one is missing."""
        if len(self.result.latencies) < 2:
            return ""
        return fmt.latencies(self.result.latencies.values()) + (f" in {DISTURBED}" if self.disturbed else "")

    @cached_property
    def disturbed(self) -> bool:
        """Whether other programs took cores during the timing from which the stated speed-up comes."""
        return self.result.speedup is not None and self.result.speedup.pooled.taken

    @cached_property
    def headline(self) -> str:
        """The verdict with the times, 'Compiled is 1.44× faster, 3.87 ms → 2.69 ms', or the message of a failure."""
        return f"{self.sentence}, {self.times}" if self.large is not None else self.sentence

    @cached_property
    def answer(self) -> str:
        """The verdict in short: '1.5× faster', 'no difference', 'too noisy to tell'.

        A doubt is added: '3× faster (rough)', '3× faster (wrong outputs)'.
        """
        if self.speedup is None:
            return ""
        rough = self.quality is not None and self.quality.mark == "rough" and self.speedup.verdict != "unsure"
        return words.in_short(self.speedup) + (self._doubt or (" (rough)" if rough else ""))

    @cached_property
    def ratio(self) -> str:
        """'1.44×' if compiled is faster, '0.80×' if slower, '1.2 to 13×' if `ranged`; `answer` if not `decided`.

        If the outputs are wrong or were not compared, this is added: '1.44× (wrong outputs)'.
        """
        if self.speedup is None or not self.decided:
            return self.answer
        return words.ratio_or_range(self.speedup) + self._doubt

    @cached_property
    def ratio_in_full(self) -> str:
        """'1.44× (1.41 to 1.45×)': `ratio` with its interval. If `ranged`, the interval alone; if 'void', `answer`."""
        if self.speedup is None or self.kind == "void":
            return self.ratio
        if self.ranged:
            return fmt.ends(self.speedup.low, self.speedup.high) + self._doubt
        return words.with_ends(self.ratio, self.speedup)

    @cached_property
    def without_breaks(self) -> str:
        """The latest stored speed-up with equal settings, but no added graph breaks: 'Without the added ...'."""
        known = self.result.without_breaks
        if known is None:
            return ""
        text = words.in_short(known)
        if known.verdict in ("faster", "slower"):
            text = fmt.estimate(known.ratio, known.low, known.high)
        return f"Without the added breaks, stored: {words.with_ends(text, known)}"

    @cached_property
    def title(self) -> str:
        """Model and verdict, or status: 'shapes-vit 1.14× faster', 'shapes-vit: Out of memory'."""
        model = fmt.shorten(fmt.printable(naming.short(self.result.spec.checkpoint)), 60)
        return f"{model}{'' if self.decided else ':'} {self.answer or naming.status_words(self.result)}"

    @cached_property
    def summary(self) -> str:
        """'shapes-vit on AMD EPYC: 1.25× (1.24 to 1.26×), compiled against eager (from 3 processes, ...)'.

        Without a speed-up: the run's status and the failure's message, 'Out of memory: ...'.
        """
        result = self.result
        if self.speedup is None:
            return naming.status_words(result) + (f": {result.failure.message}" if result.failure else "")
        compiled = "compiled with added graph breaks" if result.spec.graph_break else "compiled"
        about = f"{naming.model(result.spec)} on {naming.where(result)}"
        return f"{about}: {self.ratio_in_full}, {compiled} against eager ({self.basis})"

    @cached_property
    def _doubt(self) -> str:
        if self.result.outputs_differ:
            return " (wrong outputs)"
        return " (outputs not compared)" if self.result.outputs_unknown else ""

    # ---- how far it can be relied on

    @cached_property
    def interval(self) -> str:
        """'speed-up 1.41 to 1.45×, 95 % confidence', also of a failed run that was timed.

        If compiled is slower, the slow-down is stated: 'slow-down 9.80 to 10.20×' is more precise than 'speed-up
        0.10×'.
        """
        speedup = self.result.speedup
        if speedup is None:
            return ""
        gain = f"speed-up {fmt.ends(speedup.low, speedup.high)}"
        loss = f"slow-down {fmt.ends(1 / speedup.high, 1 / speedup.low)}"
        return f"{loss if speedup.verdict == 'slower' else gain}, 95 % confidence"

    @cached_property
    def basis(self) -> str:
        """On what `interval` is based: 'from 3 processes, including their differences'."""
        speedup = self.result.speedup
        if speedup is None:
            return ""
        within = speedup.basis == "within one process"
        processes = "within one process" if within else f"from {fmt.count(speedup.processes, 'process')}"
        if self.result.set_aside:
            return f"from {self._quiet}; this one was disturbed and does not count"
        if speedup.widened_by == "machine":
            return f"{processes}, with a factor of {TAKEN_FACTOR:g} at each end for taken cores"
        if within:
            return f"{processes}: a rerun may lie outside"
        if speedup.widened_by == "control":
            return f"{processes}, as wide as eager differed from itself: {fmt.percent(speedup.floor)}"
        if speedup.processes > 1:
            assumed = " (mostly assumed)" if self.result.is_spread_assumed else ""
            return f"{processes}, including their differences{assumed}"
        return f"{processes}, including about {fmt.percent(speedup.deviation)} between processes"

    @property
    def _quiet(self) -> str:
        """'3 quiet processes with 2 threads'. They count in place of this process, which other programs disturbed."""
        earlier = self.result.earlier
        threads = earlier[-1].threads
        quiet = fmt.count(len(earlier), "quiet process")
        others = threads is not None and threads != self.result.threads
        return f"{quiet} with {fmt.count(threads or 0, 'thread')}" if others else quiet

    @cached_property
    def interval_and_basis(self) -> str:
        return ", ".join(filter(None, (self.interval, self.basis)))

    @cached_property
    def noise(self) -> str:
        """Why the verdict is 'unsure'; otherwise the noise floor: how far two series of eager calls differed."""
        speedup = self.speedup
        if speedup is None:
            return ""
        if speedup.open_because in OPEN_BECAUSE:
            return OPEN_BECAUSE[speedup.open_because].format(floor=fmt.percent(speedup.floor))
        if speedup.control is None:
            return "Eager was not timed against itself"
        return f"Eager timed against itself: {fmt.percent(speedup.floor)} apart"

    @cached_property
    def quality(self) -> Quality | None:
        return quality(self.result)

    @cached_property
    def quality_line(self) -> str:
        """How reliable the speed-up is: 'Fair: it rests on 1 process'."""
        return f"{self.quality.mark.capitalize()}: {self.quality.reason}" if self.quality is not None else ""

    @cached_property
    def launching(self) -> str:
        """'Launching kernels is 62 % of an eager call. Mode reduce-overhead launches all of them at once'.

        '' if launching takes a third of a call or less, or with CUDA graphs, scope 'layers' or compiler 'aot'.
        """
        spec, eager = self.result.spec, self.result.eager
        plain = spec.mode not in CUDA_GRAPH_MODES and spec.scope == "model" and spec.compiler == "jit"
        if not plain or eager is None or not eager.host_bound or self.kind in (None, "void"):
            return ""
        share = fmt.percent(eager.launch_share or 0.0)
        return f"Launching kernels is {share} of an eager call. Mode reduce-overhead launches all of them at once"

    @cached_property
    def caveat(self) -> str:
        """The result's caveat that comes first in `IMPORTANT`, as sentences; '' if the result has none of these."""
        texts = {caveat.key: str(caveat) for caveat in reversed(self.result.caveats)}
        return next((texts[key] for key in IMPORTANT if key in texts), "")

    # ---- when compiling pays

    @cached_property
    def starts(self) -> tuple[Start, ...]:
        """The known first calls, by the state of the compile cache that they find; 'from nothing' is first.

        The first call with a partly filled cache is left out if the first call with a filled cache is known.
        """
        compiled = self.result.compilation
        if compiled is None:
            return ()
        costs = {"cold": compiled.cold, "warm": compiled.warm}
        return tuple(
            Start(
                state,
                start_name(compiled, state),
                self.result.starts[state].seconds,
                costs.get(state) or CompileCost(seconds, {}),
                self._paid(state),
            )
            for state, seconds in compiled.known_costs.items()
            if state != "partly" or "warm" not in compiled.known_costs
        )

    def _paid(self, state: str) -> BreakEven | None:
        if self.kind not in ("faster", "same", "slower") or self.result.outputs_differ:
            return None
        return self.result.break_even(state) if self.kind == "faster" else NEVER

    @cached_property
    def pays(self) -> str:
        """When compiling pays, or why that is not known: 'Pays after 9 000 to 30 000 calls from nothing'.

        The numbers are those of `Start.range`. 'From nothing' means: with an empty compile cache.
        """
        if self.kind is None or not self.starts:
            return ""
        if self.kind == "void":
            return "It was recompiled while it was timed: no figure holds"
        if self.result.outputs_differ:
            return "Compiled gives other outputs than eager: whether it pays is not known"
        if self.kind == "unsure":
            return "Whether compiling pays is not known yet"
        paid: list[str] = []
        for start in self.starts:
            if len(start.range_and_noun) < 2:
                return "Never pays here"
            calls, noun = start.range_and_noun
            paid.append(f"{calls}{'' if paid else f' {noun}'} {start.name}")
        return f"Pays after {', '.join(paid)}{', if its outputs are right' if self.result.outputs_unknown else ''}"

    @cached_property
    def request(self) -> str:
        """'A whole request is 1.10× faster: the rest of it is not compiled'; '' if requests were not timed.

        Also '' if not `decided`, if `ranged`, or if 1.10× lies in the interval of a call's speed-up: nothing new.
        """
        speedup, requests = self.speedup, self.result.request_seconds
        if speedup is None or requests is None or not self.decided or self.ranged:
            return ""
        ratio = requests[0] / requests[1]
        if speedup.low <= ratio <= speedup.high:
            return ""
        way = "faster" if ratio > 1 else "slower"
        return f"A whole request is {fmt.ratio(max(ratio, 1 / ratio))} {way}: the rest of it is not compiled"

    @cached_property
    def usable(self) -> bool:
        """Whether the verdict is clear and from undisturbed processes, so that the run need not be made again."""
        return self.kind in ("faster", "slower", "same") and not self.disturbed

    @cached_property
    def start_times(self) -> str:
        """The times of first calls: 'A start takes 28 s from nothing, 1.2 s with a kept cache'; '' if recompiled."""
        if self.kind in (None, "void") or not self.starts:
            return ""
        times = f"A start takes {', '.join(f'{fmt.duration(start.seconds)} {start.name}' for start in self.starts)}"
        return f"{times}{naming.not_counted(self.result)}"

    @cached_property
    def race(self) -> tuple[RaceLine, ...]:
        """Lines of the chart of calls over time. () if no start was measured, or if a start has no `Start.paid`."""
        if self.result.speedup is None or not self.starts or any(start.paid is None for start in self.starts):
            return ()
        eager, compiled = self.result.speedup.latencies
        lines = [RaceLine("eager", "Eager", "answers from the start", 0.0, eager)]
        for start in self.starts:
            even = start.paid or NEVER
            pays = even.calls is not None
            words = f"pays after {start.range}" if pays else "never pays here"
            words += naming.without_probe(self.result) if pays and start.state == "cold" else ""
            ends = (math.inf if calls is None else calls * eager for calls in (even.low, even.calls, even.high))
            kind = "compiled kept" if start.state == "warm" else "compiled"
            low, at, high = ends
            name = f"Compiled {start.name}"
            lines.append(RaceLine(kind, name, words, start.seconds, compiled, (low, at, high) if pays else None))
        return tuple(lines)

    @cached_property
    def source(self) -> str:
        """Settings, machine, day, for below a picture: 'shapes-vit · batch 4 · default · float32 · Tesla T4 · ...'."""
        result = self.result
        return f"{naming.run_line(result)} · {naming.where(result)} · {result.started_at[:10]}"

    # ---- the predictions

    @cached_property
    def agreement(self) -> str:
        """'Eager and compiled agree: 100 % of the labels are shared'; '' if the outputs were not compared."""
        parity = self.result.parity
        if parity is None or parity.verdict == "not comparable":
            return ""
        answer = "Eager and compiled agree" if parity.verdict == "match" else "Eager and compiled differ"
        predictions = (self.result.predictions or {}).values()
        if predictions and all(side.boxes == () or side.segments == () for side in predictions):
            return f"{answer}: neither finds anything"
        words = BY_NAME[self.result.spec.task].shares
        shares = [
            words[name][0].format(share=fmt.percent(share))
            for name, share in parity.task.items()
            if name in words and share >= words[name][1]
        ]
        return f"{answer}: {', '.join(shares)}" if shares else answer

    @cached_property
    def prediction_notes(self) -> list[str]:
        """`DRAWN_ONLY` if predictions may mean nothing, and from which token eager's and compiled's texts differ."""
        result, image = self.result, self.result.image
        notes = []
        if result.predictions and catalog.is_beyond(result.spec.checkpoint, image.sha256 if image else None):
            notes.append(DRAWN_ONLY)
        texts = [side for side in (result.predictions or {}).values() if side.token_ids is not None]
        if len(texts) > 1 and texts[0].token_ids != texts[1].token_ids:
            notes.append(parting(*texts))
            if result.spec.dtype != "float32":
                notes[-1] += (
                    f" In {result.spec.dtype} one rounding can lead to another token, and from there to another text. "
                    "That is no fault; the logits were compared on the same tokens."
                )
        return notes


def start_name(compiled: Compilation, state: str) -> str:
    """Returns `state`, a key of `STARTS`, in words: 'from nothing' (empty compile cache), 'with a kept cache'."""
    if state == "warm" and compiled.package_bytes is not None:
        return "with the package kept"
    return STARTS[state]
