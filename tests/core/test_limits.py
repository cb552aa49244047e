"""What a machine is told by its environment."""

from demo.core import limits


def test_zero_gpu_is_told_as_the_package_spaces_tells_it() -> None:
    for given, expected in [("true", True), ("1", True), ("T", True), ("false", False), ("", False)]:
        assert limits.on_zero_gpu({"SPACES_ZERO_GPU": given}) is expected
