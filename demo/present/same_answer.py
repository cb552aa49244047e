"""Whether eager and compiled gave the same answer, as sentences."""

from __future__ import annotations

from demo.core import format as fmt
from demo.core.agreement import same_tokens
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.present.sentences import worker_word


def agreement(result: RunResult, lang: Language) -> str:
    """Whether eager and compiled predict the same, by the task-level parity; '' where nothing was compared."""
    parity = result.parity
    if parity is None or parity.verdict == "not comparable":
        return ""
    verdict = lang.plain("agree" if parity.verdict == "match" else "differ")
    predictions = (result.predictions or {}).values()
    if predictions and all(one.boxes == () or one.segments == () for one in predictions):
        shares = [lang.plain("share_nothing")]
    else:
        shares = [text for name, share in parity.task.items() if (text := _share(name, share, lang))]
    if not shares:
        return lang.sentence(verdict)
    return lang.sentence(lang.composed("setting", name=verdict, value=lang.listed(shares)))


MIN_SCORE, MIN_PIXELS = 0.005, 0.0005
"""Smaller differences of scores, and smaller shares of the pixels, are not mentioned."""
_SHARES = {
    "top5_agreement": "share_labels",
    "matched_boxes": "share_boxes",
    "mask_iou": "share_masks",
    "same_tokens": "share_tokens",
}


def _share(name: str, share: float, lang: Language) -> str:
    """A task-level figure of parity as text; '' for one too small to mention."""
    if key := _SHARES.get(name):
        return lang.plain(key, share=fmt.percent(share))
    if name == "score_difference" and share >= MIN_SCORE:
        return lang.plain("share_scores", share=f"{share:.2g}")
    if name == "changed_pixels" and share >= MIN_PIXELS:
        return lang.plain("share_pixels", share=fmt.percent(share))
    return ""


def parity(result: RunResult, lang: Language) -> str:
    """'match', 'differ', 'not comparable'; '' where nothing was compared."""
    return worker_word("parity", result.parity.verdict, lang) if result.parity is not None else ""


def parted_at(result: RunResult) -> int | None:
    """The index of the first token in which the two answers differ; None where they do not."""
    written = [one.token_ids for one in (result.predictions or {}).values() if one.token_ids is not None]
    if len(written) < 2 or written[0] == written[1]:
        return None
    return same_tokens(*written)


def parted(result: RunResult, lang: Language) -> str:
    """From where on two texts differ, and what that means; '' where they do not."""
    at = parted_at(result)
    if at is None:
        return ""
    words = lang.plain("answer_parted", number=at + 1)
    if result.spec.dtype != "float32":
        words += " " + lang.plain("answer_rounding", dtype=result.spec.dtype)
    return words
