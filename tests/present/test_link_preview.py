"""What is told of a run where its link is shared: title, sentence, badge, card."""

import dataclasses
import io
import re
from xml.etree import ElementTree

import numpy as np
from page_support import HOSTILE, noisy_result
from PIL import Image
from samples import ENVIRONMENT, GPU, failed_result, full_result, measurement, ok_result, text_result

from demo.core.languages import ENGLISH, LANGUAGES
from demo.core.measurement import Compilation
from demo.core.result import Failure, RunResult
from demo.core.spec import OWN_MODEL, RunSpec
from demo.present import link_preview, pictures, sentences
from demo.present.pictures import PAGE_PAPER, rgb

SVG = "{http://www.w3.org/2000/svg}"


def test_the_title_of_the_window_tells_the_answer_and_no_ratio_of_an_unsure_run() -> None:
    for result, title in [
        (ok_result(), "shapes-vit 2.00× faster"),
        (ok_result(compiled=measurement(0.004)), "shapes-vit 2.00× slower"),
        (noisy_result(), "shapes-vit: too noisy to tell"),
        (ok_result(compiled=measurement(0.002)), "shapes-vit: no difference"),
        (failed_result(), "owlvit-base-patch32: Out of memory"),
    ]:
        assert link_preview.title(result, ENGLISH) == title


def test_what_no_page_can_hold_is_left_out() -> None:
    hostile, failure = "\ud800\x00\u202e", failed_result().failure
    ran = ok_result(
        spec=RunSpec(f"a{hostile}b", "image-classification"),
        environment=dataclasses.replace(ENVIRONMENT, device_name=f"a{hostile}b"),
    )
    failed = failed_result(failure=dataclasses.replace(failure, message=f"a{hostile}b"))
    for result in (ran, failed):
        for told in (
            link_preview.title(result, ENGLISH),
            link_preview.description(result, ENGLISH),
            link_preview.badge(result),
        ):
            assert told.encode() and not set(hostile) & set(told)
    assert link_preview.title(ran, ENGLISH) == "a b 2.00× faster" and "; a b;" in link_preview.description(
        failed, ENGLISH
    )


def test_the_sentence_has_answer_interval_device_and_versions_in_every_language() -> None:
    said = link_preview.description(full_result(), ENGLISH)
    assert said.startswith("2.00× faster; speed-up 2.0") and "95 % confidence" in said
    assert said.endswith("; Tesla T4, torch 2.13.0, transformers 5.23.0.")
    failure = failed_result()
    endless = dataclasses.replace(failure.failure, message="x" * 5000)
    for lang in LANGUAGES.values():
        assert "Tesla T4" in link_preview.description(full_result(), lang)
        assert failure.failure.message[:-1] in link_preview.description(failure, lang)
        assert len(link_preview.description(failed_result(failure=endless), lang)) == link_preview.MAX_SENTENCE


def test_a_badge_says_the_answer_within_its_fields_and_holds_nothing_from_outside() -> None:
    for result, words, colour in [
        (full_result(), "2.00× faster on Tesla T4", pictures.COMPILED),
        (ok_result(compiled=measurement(0.004)), "2.00× slower on Example CPU", pictures.EAGER),
        (ok_result(compiled=measurement(0.002)), "no difference on Example CPU", pictures.PAD),
        (noisy_result(environment=GPU), "too noisy to tell on Tesla T4", pictures.PAD),
        (failed_result(environment=None), "out of memory", pictures.PAD),
        (
            ok_result(
                spec=RunSpec(HOSTILE, "image-classification"),
                environment=dataclasses.replace(ENVIRONMENT, device_name=f'"&\x00\u202e{HOSTILE * 9}'),
            ),
            '2.00× faster on "& <img src=x onerror=alert(1)><script>aler…',
            pictures.COMPILED,
        ),
    ]:
        source = link_preview.badge(result)
        badge = ElementTree.fromstring(source)
        assert {element.tag.removeprefix(SVG) for element in badge.iter()} == {"svg", "title", "g", "rect", "text"}
        assert not re.search(r"href|url\(|<script|<style", source)
        about, answer = badge.iter(f"{SVG}text")
        assert (about.text, answer.text) == ("torch.compile", words)
        assert badge.get("role") == "img" and badge.get("aria-label") == badge.findtext(f"{SVG}title")
        assert words in (badge.get("aria-label") or "")
        fields = list(badge.iter(f"{SVG}rect"))
        assert fields[1].get("fill") == colour
        assert pictures.contrast(answer.get("fill") or "", colour) >= 4.5
        widths = [float(field.get("width", 0)) for field in fields[:2]]
        lengths = [float(text.get("textLength", 0)) for text in (about, answer)]
        assert all(length + 10 <= width for length, width in zip(lengths, widths, strict=True))
        assert float(badge.get("width", 0)) == sum(widths)


def test_of_a_model_on_this_machine_no_folder_is_told() -> None:
    own = ok_result(spec=RunSpec("/home/alice/models/net.py:make", OWN_MODEL, device="cpu"))
    assert link_preview.model(own) == "net.py:make"
    assert link_preview.title(own, ENGLISH) == "net.py:make 2.00× faster"
    assert "alice" not in link_preview.badge(own) + link_preview.description(own, ENGLISH)


LONG = RunSpec(
    "an-organisation-with-a-long-name/" + "a-model-with-a-long-name-" * 9, "image-classification", 256,
    "max-autotune-no-cudagraphs", dtype="bfloat16", device="cpu", weights="random", fullgraph=True, threads=16,
)  # fmt: skip
BOX = dataclasses.replace(
    ENVIRONMENT, device_name="Processor of a long name " * 9, torch="2.14.0.dev20261120+" + "x" * 60
)
RESULTS = {
    "slower": ok_result(compiled=measurement(0.004)),
    "same": ok_result(compiled=measurement(0.002)),
    "noisy": noisy_result(),
    "text": text_result(),
    "own model": ok_result(spec=RunSpec("model.py:make", OWN_MODEL, device="cpu")),
    "void": ok_result(compilation=Compilation(1.0, "cold", 1, recompiles_while_timing=1)),
    "seconds": ok_result(eager=measurement(2600.0), compiled=measurement(2000.0), control_times=measurement(2600.0)),
    "failed": failed_result(),
    "failed at length": failed_result(failure=Failure("compile", "x" * 9000, "Try again. " * 60)),
    "no figures": failed_result(failure=None, status="interrupted", environment=None),
    "long": ok_result(spec=LONG, environment=BOX),
    "hostile": ok_result(
        spec=RunSpec(f"\u202e{HOSTILE}\x00 🐈 猫 قطة", "image-classification"),
        environment=dataclasses.replace(ENVIRONMENT, device_name="\ud800\n\u202e🐈"),
    ),
}


def drawn(result: RunResult) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(link_preview.card(result))).convert("RGB"))


def test_every_card_is_of_its_own_has_its_size_and_nothing_runs_over_its_edge() -> None:
    assert {sentences.outcome(one) for one in RESULTS.values()} >= {"faster", "slower", "same", "unsure", "void", None}
    cards = [drawn(result) for result in RESULTS.values()]
    assert len({pixels.tobytes() for pixels in cards}) == len(RESULTS)
    for pixels in cards:
        assert pixels.shape == (630, 1200, 3)
        paper = (pixels == rgb(PAGE_PAPER)).all(axis=2)[:620]
        # a letter may lean over the edge by a few pixels
        assert paper[:, :42].all() and paper[:, -42:].all() and paper[:30].all() and paper[610:].all()
        assert not paper[90:610].all()


def test_no_line_of_a_card_lies_over_another() -> None:
    """Between what was asked, the answer, the bars and the interval a few rows of pixels are empty."""
    for name in ["slower", "noisy", "void", "long"]:
        paper = (drawn(RESULTS[name]) == rgb(PAGE_PAPER)).all(axis=(1, 2))
        filled = np.flatnonzero(np.diff(np.concatenate(([False], ~paper, [False])).astype(int)))
        bands = filled.reshape(-1, 2)  # first row of each band, and the first row after it
        bars = next(place for place, (top, _) in enumerate(bands) if top == 392)
        assert bands[bars].tolist() == [392, 440] and bands[bars + 1].tolist() == [454, 502]
        assert len(bands) - bars == 5  # interval, foot, and the line at the edge
