"""What a machine is told by its environment."""

import pytest

from demo.core import limits


@pytest.mark.parametrize(
    ("given", "expected"), [("true", True), ("1", True), ("T", True), ("false", False), ("", False)]
)
def test_zero_gpu_is_told_as_the_package_spaces_tells_it(given: str, expected: bool) -> None:
    assert limits.on_zero_gpu({"SPACES_ZERO_GPU": given}) is expected
