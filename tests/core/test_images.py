import hashlib
import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image

from demo.core import images, limits
from demo.core.base64_images import decode_mask, decode_preview, encode_mask
from demo.core.images import read
from demo.core.spec import BadInput

MAX_FILE_BYTES, MAX_PIXELS = limits.Limits.file_bytes, limits.Limits.pixels
WHITE = (255, 255, 255)
SAVED_AS = {
    "JPEG": {"quality": 95, "subsampling": 0},
    "WEBP": {"lossless": True},
    "AVIF": {"quality": 95},
    "TIFF": {"compression": "tiff_lzw"},
}


def scene(width: int = 48, height: int = 32) -> Image.Image:
    """A red left half, a blue right half: tells left from right and one channel from another."""
    image = Image.new("RGB", (width, height), (200, 30, 30))
    image.paste((30, 30, 200), (width // 2, 0, width, height))
    return image


def encoded(image: Image.Image, kind: str, **how: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **{**SAVED_AS.get(kind, {}), **how})
    return buffer.getvalue()


def looks_like(image: Image.Image, other: Image.Image) -> bool:
    """Equal but for what a lossy format does at an edge."""
    return np.abs(np.asarray(image, int) - np.asarray(other, int)).mean() <= 3


@pytest.fixture
def given(tmp_path):
    """Reads bytes as if somebody had given them as a file."""

    def read_bytes(data: bytes, name: str = "picture.png") -> Image.Image:
        path = tmp_path / name
        path.write_bytes(data)
        return read(path)[0]

    return read_bytes


def refusal_of(given, data: bytes, name: str = "picture.png") -> str:
    with pytest.raises(BadInput) as caught:
        given(data, name)
    message = str(caught.value)
    assert name in message and message.endswith(".") and os.sep not in message
    return message


SEVERAL = {"save_all": True, "append_images": [Image.new("RGB", (48, 32), "white")] * 2}
IN_ONE_FILE = [(kind, SEVERAL) for kind in ("MPO", "GIF")]


@pytest.mark.parametrize(("kind", "more"), [*((kind, {}) for kind in images.FORMATS), *IN_ONE_FILE])
def test_every_format_keeps_its_size_and_its_colours(given, kind: str, more: dict[str, Any]) -> None:
    """Of an animation, and of a phone's pictures in one file, the first is taken."""
    image = given(encoded(scene(), kind, **more))
    assert (image.mode, image.size) == ("RGB", (48, 32))
    assert looks_like(image, scene())


def pixels(mode: str, *colours: Any) -> Image.Image:
    """A picture one pixel high."""
    image = Image.new(mode, (len(colours), 1))
    image.putdata(colours)
    return image


GREY = Image.fromarray(np.array([[0, 256, 32768, 65535]], np.uint16))
PALETTE = pixels("P", 0, 1)
PALETTE.putpalette([255, 0, 0, 0, 255, 0])


@pytest.mark.parametrize(
    ("kind", "image", "how", "seen"),
    [
        ("JPEG", pixels("CMYK", (0, 255, 255, 0)), {}, [(255, 0, 0)]),
        ("PNG", GREY, {}, [0, 1, 128, 255]),  # scaled, not clipped
        ("TIFF", GREY, {}, [0, 1, 128, 255]),
        ("PNG", pixels("RGBA", (0, 0, 0, 0), (9, 8, 7, 255)), {}, [WHITE, (9, 8, 7)]),
        ("PNG", pixels("LA", (0, 0), (9, 255)), {}, [255, 9]),
        ("GIF", PALETTE, {"transparency": 0}, [WHITE, (0, 255, 0)]),
    ],
)
def test_every_kind_of_pixel_becomes_rgb_on_white(given, kind, image, how, seen):
    read_back = np.asarray(given(encoded(image, kind, **how)), int)[0]
    wanted = np.array([np.broadcast_to(one, 3) for one in seen])
    assert np.abs(read_back - wanted).max() <= (15 if kind == "JPEG" else 0)


def png(width: int, height: int, bits: int, channels: int, rows: bytes = b"") -> bytes:
    """Without `rows` one that only claims a size: decoding it would fail, so a refusal for its size came before."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, {1: 0, 3: 2}[channels], 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def deep(most: int, channels: int) -> bytes:
    """A PNG of 16 bits a channel, from black to `most`."""
    row = np.linspace(0, most, 20).astype(">u2").repeat(channels)
    return png(20, 1, 16, channels, b"\0" + row.tobytes())


@pytest.mark.parametrize("channels", [1, 3], ids=["grey", "colour"])
def test_of_16_bits_the_upper_ones_are_taken_or_it_is_refused(given, channels: int) -> None:
    assert given(deep(20_000, channels)).getextrema() == ((0, 78),) * 3
    assert "hardly uses the upper ones" in refusal_of(given, deep(4095, channels))


LYING = Image.Exif()
LYING[ExifTags.Base.Orientation] = 6


def test_a_rotated_photograph_comes_out_upright(given) -> None:
    image = given(encoded(scene().transpose(Image.Transpose.ROTATE_90), "JPEG", exif=LYING))
    assert image.size == (48, 32)
    assert image.getpixel((4, 16))[0] > 150 and image.getpixel((44, 16))[2] > 150


@pytest.mark.parametrize(("size", "shown"), [((3000, 1500), (640, 320)), ((100, 2000), (32, 640)), ((7, 5), (7, 5))])
def test_the_preview_has_the_shape_of_the_picture(tmp_path, size: tuple, shown: tuple) -> None:
    scene(*size).save(tmp_path / "a.png")
    image, info = read(tmp_path / "a.png")
    assert (info.name, info.width, info.height) == ("a.png", *size)
    assert info.sha256 == hashlib.sha256((tmp_path / "a.png").read_bytes()).hexdigest()
    assert (image.size, decode_preview(info.preview_jpeg).size) == (size, shown)


def test_no_file_is_named_with_its_folder(tmp_path) -> None:
    (tmp_path / "empty.png").touch()
    with (tmp_path / "huge.png").open("wb") as file:
        file.truncate(MAX_FILE_BYTES * 2)
    for path, said in {
        tmp_path / "no" / "cat.png": "The picture file 'cat.png' cannot be opened: No such file or directory. Check",
        Path(os.devnull): "The picture file 'null' cannot be opened: it is a folder, a device or a pipe.",
        tmp_path / "empty.png": "'empty.png' is empty: it has 0 bytes.",
        tmp_path / "huge.png": "'huge.png' has 60.0 MB, the limit is 30.0 MB.",
    }.items():
        with pytest.raises(BadInput) as caught:
            read(path)
        assert str(caught.value).startswith(said)


OFF_THE_LIST = ("EPS", "PDF", "ICO", "PPM", "TGA", "SGI", "PCX", "IM", "MSP", "XBM", "JPEG2000")


@pytest.mark.parametrize("kind", ["text", "SVG", *OFF_THE_LIST])
def test_a_format_off_the_list_reaches_no_decoder(given, kind: str) -> None:
    texts = {"text": b"hello, this is a text", "SVG": b"<svg xmlns='http://www.w3.org/2000/svg'/>"}
    data = texts.get(kind) or encoded(scene().convert("1" if kind in ("MSP", "XBM") else "RGB"), kind)
    assert "cannot be read as a picture" in refusal_of(given, data)


@pytest.mark.parametrize("kind", images.FORMATS)
def test_a_truncated_file_is_refused(given, kind: str) -> None:
    data = encoded(Image.effect_noise((64, 64), 80).convert("RGB"), kind)
    for share in (0.02, 0.5, 0.9):
        assert "cut short" in refusal_of(given, data[: int(len(data) * share)])


def test_a_picture_of_too_many_pixels_or_of_floats_is_refused(given) -> None:
    grown = bytearray(encoded(Image.new("L", (8, 8)), "GIF"))
    frame = grown.index(b",")
    grown[frame + 5 : frame + 9] = b"\xff\xff\xff\xff"
    floats = Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32))
    for data, said in [
        (png(60_000, 60_000, 8, 3), f"{MAX_PIXELS:,}"),
        (bytes(grown), f"{MAX_PIXELS:,}"),
        (encoded(Image.new("L", (1, 20_000)), "PNG"), "1 × 20000 pixels; one side may be at most 20 times"),
        (encoded(floats, "TIFF", compression=None), "32 bits a pixel"),
    ]:
        assert said in refusal_of(given, data)


def test_a_mask_survives_the_way_there_and_back() -> None:
    mask = np.random.default_rng(0).random((37, 53)) > 0.5
    assert np.array_equal(decode_mask(encode_mask(mask)), mask)
    large = np.zeros((1000, 2000), bool)
    large[:, 1000:] = True
    small = decode_mask(encode_mask(large))
    assert small.shape == (320, 640) and not small[:, :320].any() and small[:, 320:].all()
