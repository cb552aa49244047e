"""A run compared with the guide's rows for the same checkpoint: which rows, and what differs, as sentences.

Each setting that the guide's examples name and in which the run differs has a sentence. One more tells the guide's
picture and precision.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from demo.core import catalog, format as fmt
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.core.spec import PUBLISHED_CALLS, RunSpec
from demo.present import sentences
from demo.store import published
from demo.store.published import PublishedRow


@dataclass(frozen=True)
class GuideComparison:
    """The guide's nearest row for each GPU, and the settings in which the run differs."""

    rows: tuple[PublishedRow, ...]
    sentences: tuple[str, ...]
    """'On an A100 with torch 2.0.1 the guide saw 1.52×.', one for each row."""
    ratio: float | None
    """This run's speed-up; None where none may be stated: out of memory, void, too noisy to tell, or no difference."""
    here: str
    """This run's result: 'Here: 1.61× (1.58 to 1.64×), with torch 2.13.0 on Tesla T4.'"""
    differences: tuple[str, ...]


def compare_with_guide(result: RunResult, lang: Language) -> GuideComparison | None:
    """How a run compares; None where the guide lacks the checkpoint or the run a result, as which out of memory counts,
    and a void run."""
    spec = result.spec
    nearest = nearest_rows(spec.checkpoint, spec.mode, spec.batch_size)
    answered = result.status == "out_of_memory" or (result.status == "ok" and result.speedup is not None)
    if not answered or not nearest:
        return None
    ratio = result.speedup.ratio if result.speedup and sentences.outcome(result) in ("faster", "slower") else None
    texts = tuple(_sentence(row, spec, lang) for row in nearest)
    return GuideComparison(nearest, texts, ratio, _here(result, lang), tuple(_differences(result, nearest, lang)))


def nearest_rows(checkpoint: str, mode: str = "default", batch_size: int = 1) -> tuple[PublishedRow, ...]:
    """One row of the guide for each of its GPUs: in this mode, else in 'default'; then the nearest batch size by ratio,
    of two equally far ones the smaller, and of two tables the first."""

    def distance(row: PublishedRow) -> tuple[float, int]:
        return round(abs(math.log(row.batch_size / batch_size)), 9), row.batch_size

    nearest = []
    for gpu in ("A100", "V100", "T4"):
        own = [row for row in published.rows() if (row.gpu, row.checkpoint) == (gpu, checkpoint)]
        own = [row for row in own if row.mode == mode] or [row for row in own if row.mode == "default"]
        if own:
            nearest.append(min(own, key=distance))
    return tuple(nearest)


def _here(result: RunResult, lang: Language) -> str:
    if result.status == "out_of_memory" or result.speedup is None:
        saw = sentences.out_of_memory(lang)
    else:  # a void run has an answer and no figure
        saw = sentences.answer(result, lang) if result.void else sentences.speedup_in_full(result, lang)
    torch = result.environment.torch if result.environment is not None else "–"
    where = {"torch": lang.plain_value(torch), "device": lang.plain_value(sentences.where(result))}
    setting = lang.composed("beside_where", result=saw, **where)
    return lang.sentence(lang.composed("chart_here_setting", setting=setting))


def _sentence(row: PublishedRow, spec: RunSpec, lang: Language) -> str:
    setting = [lang.plain("asked_batch", size=row.batch_size)] if row.batch_size != spec.batch_size else []
    setting += [lang.plain("beside_mode", mode=row.mode)] if row.mode != spec.mode else []
    return lang.composed(
        "beside_saw",
        gpu=lang.plain_value(row.gpu),
        torch=lang.plain_value(row.torch),
        setting=lang.composed("beside_setting", setting=lang.listed(setting)) if setting else "",
        saw=sentences.out_of_memory(lang) if row.speedup is None else lang.plain_value(fmt.ratio(row.speedup)),
    )


def _differences(result: RunResult, rows: tuple[PublishedRow, ...], lang: Language) -> Iterator[str]:
    spec, machine = result.spec, result.environment
    guide: dict[str, set[Any]] = {
        "batch_size": {row.batch_size for row in rows},
        "mode": {row.mode for row in rows},
        "dtype": {"float32"},
        "weights": {"pretrained"},
        "channels_last": {False},
    }
    for name, there in guide.items():
        here = getattr(spec, name)
        if others := sorted(there - {here}):
            values = [sentences.shown_value(value, lang) for value in (here, *others)]
            both = {"here": values[0], "there": sentences.enumerated(values[1:], lang)}
            yield lang.composed("beside_setting_differs", name=lang.plain(name), **both)
    if machine is not None and "sdpa" in machine.settings.get("attention", ""):
        yield "Attention: SDPA here, plain (eager) in the guide of 2023. --attention eager compares like with like."
    if result.eager is not None and (result.eager.launch_seconds or 0.0) > 0.5 * result.eager.median_seconds:
        yield "More than half of an eager call is launching kernels here: the host's processor decides the speed-up."
    if spec.device == "cpu":
        yield lang.plain("beside_cpu")
    known = catalog.find(spec.checkpoint)
    key = "beside_input" if known is not None and known.takes_text else "beside_picture"
    yield lang.plain(key, size="640 × 480", gpu="A100", dtype="TF32")
    ours = f"torch {machine.torch}, transformers {machine.transformers}" if machine else "–"
    torch = sorted({row.torch for row in rows})
    yield lang.composed(
        "beside_versions",
        here=lang.plain_value(ours),
        torch=sentences.enumerated(map(lang.plain_value, torch), lang),
        year=lang.plain_value(2023),
    )
    if spec.protocol != "as published":
        yield lang.plain("beside_protocol", calls=PUBLISHED_CALLS)


def versions(rows: Sequence[PublishedRow], lang: Language) -> str:
    """'torch 2.0.1, mode default', of rows in one mode."""
    torch = [lang.plain_value(f"torch {name}") for name in dict.fromkeys(row.torch for row in rows)]
    return lang.listed([sentences.enumerated(torch, lang), lang.plain("beside_mode", mode=rows[0].mode)])
