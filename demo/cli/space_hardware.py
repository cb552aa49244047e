"""The kinds of hardware of a Hugging Face Space: what to expect there, and what an upload writes for each.

Prices, cores and memory are the Hub's: https://huggingface.co/docs/hub/spaces-gpus, read in its version of 2026-08-22.
docs/space.md has the same sentences with their sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

ZERO_GPU = "zero-a10g"
"""ZeroGPU's name in the Hub's API, from the time when its cards were A10G."""


@dataclass(frozen=True)
class Hardware:
    """One kind of hardware, by its name in the Hub's API."""

    title: str
    expect: str
    """One sentence, in English."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables of docs/settings.md that suit it; an owner may set others."""
    torch: str | None = None
    """The version to ask for instead of that of requirements.txt."""


HARDWARE = {
    "cpu-basic": Hardware(
        "CPU basic",
        "Two cores and 16 GB: first calls take some 20 to 70 s, answers a minute or two, and a model near the limit "
        "below takes several.",
        {"WORTH_COMPILING_BATCH": "16", "WORTH_COMPILING_PARAMETERS": "500000000", "WORTH_COMPILING_TIMEOUT": "900"},
    ),
    ZERO_GPU: Hardware(
        "ZeroGPU",
        "torch.compile is timed on the Space's CPU; only a package (compiler aot) is timed on the GPU, which is lent "
        "for two minutes at a time.",
        {"WORTH_COMPILING_BATCH": "16", "WORTH_COMPILING_PARAMETERS": "500000000", "WORTH_COMPILING_TIMEOUT": "900"},
        torch="2.11.0",
    ),
    "t4-small": Hardware(
        "T4 small",
        "The cheapest GPU and the guide's smallest: float16 has hardware of its own, bfloat16 has not, and "
        "max-autotune leaves out matrix products for want of multiprocessors.",
        {"WORTH_COMPILING_PARAMETERS": "1000000000"},
    ),
    "l4x1": Hardware(
        "L4",
        "24 GB, all number formats, and a low power limit: read the clock and power figures of a result before its "
        "speed-up.",
    ),
    "a10g-small": Hardware(
        "A10G small",
        "24 GB and all number formats, but four cores for the compiler: a first call takes longer than on A10G large.",
    ),
    "a100-large": Hardware(
        "A100",
        "80 GB and the guide's own card: its figures stand beside yours, and small batches are bound by launches.",
    ),
}
"""By the name in the Hub's API. Kinds that are not listed, such as l40sx1, start as well, with the defaults."""


def for_space(file: str, text: str, hardware: str | None) -> str:
    """The text of README.md or requirements.txt as a Space with this hardware should get it; other files unchanged.

    ZeroGPU installs a torch of a list of its own, and is no value of `suggested_hardware`. None is the Hub's choice.
    """
    known = HARDWARE.get(hardware or "")
    if file == "requirements.txt" and known is not None and known.torch is not None:
        return re.sub(r"^torch==\S+", f"torch=={known.torch}", text, count=1, flags=re.MULTILINE)
    if file == "README.md" and hardware is not None:
        suggested = "" if hardware == ZERO_GPU else f"suggested_hardware: {hardware}\n"
        return re.sub(r"^suggested_hardware: .*\n", suggested, text, count=1, flags=re.MULTILINE)
    return text
