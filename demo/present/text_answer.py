"""What a text model's run tells beside the time of a token: the first token, the whole answer, generate(), the cache.

Plain text in the language asked for; nothing for a run of another task.
"""

from __future__ import annotations

from demo.core import format as fmt
from demo.core.agreement import same_tokens
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.core.speedup import Speedup
from demo.present.sentences import ends

Row = tuple[str, str, str]


def rows(result: RunResult, lang: Language) -> list[Row]:
    """As (name, value, explanation in one line)."""
    first, answer, asked = result.prefill_latencies, result.answer_seconds, result.generation
    found: list[Row] = []
    if first is not None and asked is not None:
        value = lang.listed([_pair(first, lang), *_interval(result.prefill_speedup, lang)])
        words = lang.plain("row_first_token_why", tokens=asked.prompt_tokens)
        found.append((lang.plain("row_first_token"), value, words))
    if answer is not None:
        words = lang.plain("row_answer_why", steps=result.spec.tokens - 1)
        found.append((lang.plain("row_answer"), _pair(answer, lang), words))
    if asked is None:
        return found
    words = lang.plain("row_key_values_why", places=asked.cache_tokens)
    found.append((lang.plain("row_key_values"), lang.plain_value(fmt.size(asked.cache_bytes)), words))
    if asked.generate_seconds is not None:
        automatic = asked.automatic_seconds
        key = "row_generate_why" if automatic is None else "row_generate_automatic_why"
        seconds = [asked.generate_seconds, *([automatic] if automatic is not None else [])]
        value = lang.plain_value(" → ".join(map(fmt.latency, seconds)))
        found.append((lang.plain("row_generate"), value, lang.plain(key)))
    return found


def parted_at(result: RunResult) -> int | None:
    """The index of the first token in which the two answers differ; None where they do not."""
    written = [one.token_ids for one in (result.predictions or {}).values() if one.token_ids is not None]
    if len(written) < 2 or written[0] == written[1]:
        return None
    return same_tokens(*written)


def parted(result: RunResult, lang: Language) -> str:
    """From where on the answers differ, and what that means; '' where they do not."""
    at = parted_at(result)
    if at is None:
        return ""
    words = lang.plain("answer_parted", number=at + 1)
    if result.spec.dtype != "float32":
        words += " " + lang.plain("answer_rounding", dtype=result.spec.dtype)
    return words


def _pair(seconds: tuple[float, float], lang: Language) -> str:
    return lang.plain_value(" → ".join(map(fmt.latency, seconds)))


def _interval(speedup: Speedup | None, lang: Language) -> list[str]:
    if speedup is None:
        return []
    low, high = ends(speedup.low, speedup.high)
    return [lang.plain("row_speedup_value", ratio=fmt.ratio(speedup.ratio), low=low, high=high)]
