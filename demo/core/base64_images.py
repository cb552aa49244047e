"""Converts masks to small PNGs and pictures to small JPEGs, as base64 text for a stored result, and back."""

import base64
import io

import numpy as np
from PIL import Image

LONG_SIDE = 640
"""Longest side of a stored mask or preview, in pixels."""


def encode_mask(mask: np.ndarray) -> str:
    """Returns a bool mask [height, width] as base64 of a 1-bit PNG, scaled down to `LONG_SIDE` if larger."""
    picture = Image.fromarray(np.ascontiguousarray(mask, dtype=bool))
    return _encode(picture.resize(small_size(picture.size), Image.Resampling.NEAREST), format="PNG", optimize=True)


def decode_mask(mask_png: str) -> np.ndarray:
    """Returns the bool array [height, width] that `encode_mask` wrote. Raises ValueError for damaged text."""
    return np.array(_decode(mask_png, "PNG").convert("1"), dtype=bool)


def encode_preview(image: Image.Image) -> str:
    small = image.resize(small_size(image.size), Image.Resampling.LANCZOS, reducing_gap=2.0)
    return _encode(small, format="JPEG", quality=90, subsampling=0)


def decode_preview(preview_jpeg: str) -> Image.Image:
    """Returns the RGB picture that `encode_preview` wrote. Raises ValueError for damaged text."""
    return _decode(preview_jpeg, "JPEG").convert("RGB")


def small_size(size: tuple[int, int]) -> tuple[int, int]:
    """Returns (width, height) in pixels, scaled down to a longer side of at most `LONG_SIDE`. No side becomes 0."""
    scale = min(1.0, LONG_SIDE / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _encode(image: Image.Image, **how: object) -> str:
    buffer = io.BytesIO()
    image.save(buffer, **how)  # type: ignore[arg-type]
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _decode(text: str, kind: str) -> Image.Image:
    try:
        image: Image.Image = Image.open(io.BytesIO(base64.b64decode(text, validate=True)), formats=(kind,))
        image.load()
    except (ValueError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"a base64 {kind} is needed: {error}") from error
    return image
