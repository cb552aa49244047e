"""What a Space gets for its hardware."""

from pathlib import Path

from demo.cli.space_hardware import HARDWARE, ZERO_GPU, for_space
from demo.core import limits

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = (ROOT / "requirements.txt").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_zero_gpu_gets_a_torch_that_it_has_and_the_rest_as_it_is() -> None:
    ours, theirs = REQUIREMENTS.splitlines(), for_space("requirements.txt", REQUIREMENTS, ZERO_GPU).splitlines()
    assert [(a, b) for a, b in zip(ours, theirs, strict=True) if a != b] == [("torch==2.13.0", "torch==2.11.0")]
    assert for_space("requirements.txt", REQUIREMENTS, "t4-small") == REQUIREMENTS


def test_the_readme_suggests_the_hardware_it_is_sent_to_where_that_can_be_suggested() -> None:
    assert "\nsuggested_hardware: l4x1\n" in for_space("README.md", README, "l4x1")
    on_zero = for_space("README.md", README, ZERO_GPU)
    assert "suggested_hardware" not in on_zero and '\npython_version: "3.12.12"\n' in on_zero  # it has that one
    assert for_space("app.py", "torch==2.13.0", ZERO_GPU) == "torch==2.13.0"


def test_the_settings_of_each_hardware_are_allowed() -> None:
    for name in HARDWARE:
        assert limits.read({"SPACE_ID": "somebody/space", **HARDWARE[name].settings})
