import hashlib
import io
import os
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies
from PIL import ExifTags, Image, ImageFile

from demo.core import images, limits
from demo.core.base64_images import decode_mask, decode_preview, encode_mask
from demo.core.files import LFS_POINTER
from demo.core.images import read_picture
from demo.core.options import BadInput

MAX_FILE_BYTES, MAX_PIXELS = limits.Limits.file_bytes, limits.Limits.pixels
WHITE = (255, 255, 255)
SAVED_AS = {"JPEG": {"quality": 95, "subsampling": 0}, "WEBP": {"lossless": True}, "AVIF": {"quality": 95}}
SEVERAL = {"save_all": True, "append_images": [Image.new("RGB", (48, 32), "white")] * 2}


def scene(width: int = 48, height: int = 32) -> Image.Image:
    """Returns a picture with a red left half and a blue right half, to notice swapped sides or channels."""
    image = Image.new("RGB", (width, height), (200, 30, 30))
    image.paste((30, 30, 200), (width // 2, 0, width, height))
    return image


def encoded(image: Image.Image, kind: str, **how: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **{**SAVED_AS.get(kind, {}), **how})
    return buffer.getvalue()


def read_bytes(data: bytes, folder: Path) -> Image.Image:
    (folder / "picture.png").write_bytes(data)
    return read_picture(folder / "picture.png")[0]


def refusal_of(data: bytes, folder: Path) -> str:
    with pytest.raises(BadInput) as caught:
        read_bytes(data, folder)
    message = str(caught.value)
    assert "picture.png" in message and message.endswith(".") and os.sep not in message
    return message


@pytest.mark.parametrize("kind", [*images.PICTURE_FORMATS, "MPO"])
def test_every_format_keeps_its_colours(kind: str, tmp_path: Path) -> None:
    """Of an animation (GIF), and of a phone's file with several pictures (MPO), the first picture is read."""
    image = read_bytes(encoded(scene(), kind, **(SEVERAL if kind in ("MPO", "GIF") else {})), tmp_path)
    assert (image.mode, image.size) == ("RGB", (48, 32))
    assert np.abs(np.asarray(image, int) - np.asarray(scene(), int)).mean() <= 3  # lossy formats blur an edge


def pixels(mode: str, *colours: Any) -> Image.Image:
    image = Image.new(mode, (len(colours), 1))
    image.putdata(colours)
    return image


GREY = Image.fromarray(np.array([[0, 256, 32768, 65535]], np.uint16))
PALETTE = pixels("P", 0, 1)
PALETTE.putpalette([255, 0, 0, 0, 255, 0])


def png(width: int, height: int, bits: int = 8, rows: bytes = b"", further: Sequence[bytes] = ()) -> bytes:
    """Returns an RGB PNG.

    Without `rows` it cannot be decoded, so that a refusal for its size must come from the header.
    """

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, 2, 0, 0, 0))
    header += chunk(*further) if further else b""
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def deep(most: int, *chunk: bytes) -> bytes:
    """Returns an RGB PNG with 16 bits a channel, from black to `most`. `chunk`: name and data of a further chunk."""
    return png(20, 1, 16, b"\0" + np.linspace(0, most, 20).astype(">u2").repeat(3).tobytes(), chunk)


def tiff_of(values: np.ndarray, white: int | None = None) -> bytes:
    entries = {images.MAX_SAMPLE_VALUE: white} if white is not None else {}
    return encoded(Image.fromarray(values.astype(np.uint16)[np.newaxis]), "TIFF", tiffinfo=entries)


MUTATED = {kind: encoded(scene(), kind) for kind in images.PICTURE_FORMATS} | {"PNG": deep(4095)}


@pytest.mark.parametrize(
    ("data", "expected", "off"),
    [
        (encoded(pixels("CMYK", (0, 255, 255, 0)), "JPEG"), [(255, 0, 0)], 15),
        (encoded(GREY, "PNG"), [0, 1, 128, 255], 0),  # scaled, not clipped
        (encoded(GREY, "TIFF"), [0, 1, 128, 255], 0),
        (encoded(pixels("RGBA", (0, 0, 0, 0), (9, 8, 7, 255)), "PNG"), [WHITE, (9, 8, 7)], 0),
        (encoded(pixels("LA", (0, 0), (9, 255)), "PNG"), [255, 9], 0),
        (encoded(PALETTE, "GIF", transparency=0), [WHITE, (0, 255, 0)], 0),
        (deep(19 * 1024), [4 * step for step in range(20)], 0),
        (png(1, 1, 16, b"\0" + struct.pack(">3H", 65535, 32768, 256)), [(255, 128, 1)], 0),
    ],
    ids=["CMYK", "16 bits", "TIFF of 16 bits", "RGBA", "grey with alpha", "palette", "RGB of 16 bits", "a colour"],
)
def test_pixels_become_rgb_on_white(data: bytes, expected: list, off: int, tmp_path: Path) -> None:
    wanted = np.array([np.broadcast_to(pixel, 3) for pixel in expected])
    assert np.abs(np.asarray(read_bytes(data, tmp_path), int)[0] - wanted).max() <= off


BITS_12 = np.linspace(0, 4095, 20)
STEPS = BITS_12 * 255 / 4095


@pytest.mark.parametrize(
    ("data", "expected", "white"),
    [
        (deep(4095), STEPS, 4095),
        (deep(4095, b"sBIT", bytes([14] * 3)), STEPS / 4, None),
        (deep(65535, b"sBIT", bytes([12] * 3)), STEPS, None),
        (deep(4095, b"sBIT", bytes([16] * 3)), STEPS, 4095),
        (deep(16383), STEPS, 16383),
        (deep(16384), STEPS / 4, None),
        (deep(0), STEPS * 0, None),
        (encoded(Image.fromarray(BITS_12.astype(np.uint16)[np.newaxis]), "PNG"), STEPS, 4095),
        (tiff_of(BITS_12, 4095), STEPS, None),
        (tiff_of(BITS_12, 65535), STEPS, 4095),
        (tiff_of(BITS_12), STEPS, 4095),
    ],
    ids=[
        "12 bits", "14 bits named", "12 bits scaled up", "16 bits named", "14 bits", "dark", "black", "grey",
        "TIFF's own white", "TIFF's usual white", "TIFF",
    ],
)  # fmt: skip
def test_16_bits_are_scaled_to_their_white(
    data: bytes, expected: np.ndarray, white: int | None, tmp_path: Path
) -> None:
    (tmp_path / "picture.png").write_bytes(data)
    image, info = read_picture(tmp_path / "picture.png")
    assert np.abs(np.asarray(image, float)[0] - expected[:, np.newaxis]).max() <= 1
    assert info.white == white


def test_a_decoder_without_memory_is_not_blamed_on_the_picture(tmp_path, monkeypatch) -> None:
    data = encoded(scene(), "BMP")
    monkeypatch.setattr(ImageFile.ImageFile, "load", Mock(side_effect=MemoryError))
    assert "needs more memory to decode than is free" in refusal_of(data, tmp_path)


@pytest.mark.parametrize(("free", "says"), [(False, "needs more memory to decode"), (True, "cannot be read")])
def test_webp_without_memory_is_told_from_a_damaged_file(free: bool, says: str, tmp_path, monkeypatch) -> None:
    """Its decoder raises the same error for both. A real one: a process with `ulimit -v 300000`."""
    monkeypatch.setattr(images, "_is_free", lambda count: free)
    assert says in refusal_of(encoded(scene(), "WEBP")[:40], tmp_path)


@pytest.mark.parametrize("kind", images.PICTURE_FORMATS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=strategies.floats(0, 1, exclude_max=True), value=strategies.binary(min_size=1, max_size=8))
def test_a_mutated_picture_is_read_or_refused(kind: str, place: float, value: bytes, tmp_path: Path) -> None:
    data = bytearray(MUTATED[kind])
    at = int(place * len(data))
    data[at : at + len(value)] = value
    (tmp_path / "picture.png").write_bytes(data)
    with suppress(BadInput):
        assert read_picture(tmp_path / "picture.png")[0].mode == "RGB"


HALF_CLEAR = pixels("RGBA", (255, 255, 255, 255), (0, 0, 0, 0))


@pytest.mark.parametrize(
    ("image", "sheet"),
    [
        pytest.param(pixels("RGBA", (200, 0, 0, 0), (0, 0, 200, 0)), True, id="wholly transparent"),
        pytest.param(HALF_CLEAR, True, id="white on nothing"),
        pytest.param(pixels("LA", (0, 1), (90, 0)), True, id="hardly visible"),
        pytest.param(pixels("RGBA", (200, 0, 0, 0), (0, 0, 200, 255)), False, id="half transparent"),
        pytest.param(pixels("RGB", WHITE, WHITE), False, id="a white picture"),
        pytest.param(pixels("RGBA", (*WHITE, 255), (*WHITE, 255)), False, id="an opaque white picture"),
    ],
)
def test_a_transparent_picture_of_which_nothing_is_left_is_noted(image: Image.Image, sheet: bool, tmp_path) -> None:
    image.save(tmp_path / "a.png")
    assert read_picture(tmp_path / "a.png")[1].transparent == sheet


def test_a_rotated_photograph_comes_out_upright(tmp_path) -> None:
    lying = Image.Exif()
    lying[ExifTags.Base.Orientation] = 6
    image = read_bytes(encoded(scene().transpose(Image.Transpose.ROTATE_90), "JPEG", exif=lying), tmp_path)
    assert image.size == (48, 32)
    assert image.getpixel((4, 16))[0] > 150 and image.getpixel((44, 16))[2] > 150


@pytest.mark.parametrize(("size", "shown"), [((3000, 1500), (640, 320)), ((100, 2000), (32, 640)), ((7, 5), (7, 5))])
def test_the_preview_has_the_shape_of_the_picture(tmp_path, size: tuple, shown: tuple) -> None:
    scene(*size).save(tmp_path / "a.png")
    image, info = read_picture(tmp_path / "a.png")
    assert (info.name, info.width, info.height) == ("a.png", *size)
    assert info.sha256 == hashlib.sha256((tmp_path / "a.png").read_bytes()).hexdigest()
    assert (image.size, decode_preview(info.preview_jpeg).size) == (size, shown)


@pytest.mark.parametrize(
    ("path", "why"),
    [("null", "No such file or directory"), (os.devnull, "it is a folder, a device or a pipe")],
    ids=["missing", "device"],
)
def test_what_is_no_file_is_not_opened(path: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"^The picture file 'null' cannot be opened: {why}"):
        read_picture(tmp_path / path)


@pytest.mark.parametrize(
    "kind", ["text", "SVG", "EPS", "PDF", "ICO", "PPM", "TGA", "SGI", "PCX", "IM", "MSP", "XBM", "JPEG2000"]
)
def test_a_format_off_the_list_reaches_no_decoder(kind: str, tmp_path: Path) -> None:
    texts = {"text": b"hello, this is a text", "SVG": b"<svg xmlns='http://www.w3.org/2000/svg'/>"}
    data = texts.get(kind) or encoded(scene().convert("1" if kind in ("MSP", "XBM") else "RGB"), kind)
    assert "cannot be read as a picture" in refusal_of(data, tmp_path)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("kind", images.PICTURE_FORMATS)
def test_a_truncated_file_is_refused(kind: str, share: float, tmp_path: Path) -> None:
    data = encoded(Image.effect_noise((64, 64), 80).convert("RGB"), kind)
    assert "cut short" in refusal_of(data[: int(len(data) * share)], tmp_path)


def grown_frame() -> bytes:
    """Returns a small GIF whose frame claims 65 535 pixels a side."""
    data = bytearray(encoded(Image.new("L", (8, 8)), "GIF"))
    frame = data.index(b",")
    data[frame + 5 : frame + 9] = b"\xff\xff\xff\xff"
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "'picture.png' is empty: it has 0 bytes."),
        (LFS_POINTER + b"v1\n", "'picture.png' is a Git LFS pointer, not the picture. Run `git lfs pull`"),
        (bytes(2 * MAX_FILE_BYTES), "'picture.png' has 60.0 MB, the limit is 30.0 MB."),
        (png(60_000, 60_000), f"more than {MAX_PIXELS:,} pixels"),
        (grown_frame(), f"more than {MAX_PIXELS:,} pixels"),
        (encoded(Image.new("L", (1, 20_000)), "PNG"), "1 × 20000 pixels; one side may be at most 20 times"),
        (encoded(Image.new("F", (3, 1)), "TIFF"), "32 bits a pixel"),
    ],
    ids=["empty", "pointer", "huge", "large", "a large frame", "long", "floats"],
)
def test_a_picture_beyond_the_limits_is_refused(data: bytes, reason: str, tmp_path: Path) -> None:
    assert reason in refusal_of(data, tmp_path)


NOISE = np.random.default_rng(0).random((37, 53)) > 0.5
HALF = np.arange(2000) >= 1000


@pytest.mark.parametrize(
    ("mask", "stored"),
    [(NOISE, NOISE), (np.tile(HALF, (1000, 1)), np.tile(HALF[680:1320], (320, 1)))],
    ids=["small", "large"],
)
def test_a_mask_is_stored_with_640_pixels_a_side_at_most(mask: np.ndarray, stored: np.ndarray) -> None:
    assert np.array_equal(decode_mask(encode_mask(mask)), stored)
