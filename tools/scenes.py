"""Draws scenes of plain shapes, and says what is in them: pictures to train and test the bundled checkpoints.

A scene serves three tasks. Classification names the *dominant* shape: the largest, with more than twice the area of any
other, and near the middle. Detection needs the box of every shape. Segmentation needs the shape at every pixel.

The seed determines the scene. Another size of the same aspect ratio shows the same scene with more or fewer pixels.
Another aspect ratio places the shapes differently. Lengths are therefore in units of the image's shorter side. Limits:
shapes are flat, wholly inside the picture, turned by at most 30 degrees, and at most a fifth of each is hidden. A
shape's colour differs from what is behind the shape. Nothing here resembles a photograph.
"""

import io
import math
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter

SHAPES = ("circle", "cross", "heart", "ring", "square", "star", "triangle")

_SUPERSAMPLE = 4
_LAYOUT_PIXELS = 96  # the short side of the coarse raster on which overlaps are judged
_MAX_HIDDEN = 0.2
_MIN_COLOUR_DISTANCE = 38.0  # CIE76 in Lab: about as far as orange is from red
_MAX_TURN = math.radians(30)  # upright enough for a heart to look like one
_RING_HOLE = 0.56


@dataclass(frozen=True)
class SceneObject:
    """One shape. `box` is (x0, y0, x1, y1) in pixels, around the whole outline even where a part is hidden."""

    label: str
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class Scene:
    """A picture and what is in it. `mask` is (height, width) uint8: 0 is background, else 1 + index into SHAPES."""

    image: Image.Image
    label: str
    objects: tuple[SceneObject, ...]
    mask: np.ndarray


@dataclass(frozen=True)
class _Placed:
    """A shape at its place in the picture. Lengths are in units of the picture's shorter side; colours are 0 to 1."""

    kind: str
    centre: tuple[float, float]
    radius: float
    angle: float
    colour: np.ndarray
    second_colour: np.ndarray
    finish: str
    outline: float
    shadow: float


def draw_scene(seed: int, size: tuple[int, int]) -> Scene:
    """Draws the scene that belongs to this seed. `size`: (width, height) in pixels, each at least 32."""
    width, height = size
    layout_seed, pixel_seed = np.random.SeedSequence(seed).spawn(2)
    rng, pixel_rng = np.random.default_rng(layout_seed), np.random.default_rng(pixel_seed)

    short = min(width, height)
    extent = (width / short, height / short)
    backdrop = _backdrop_colours(rng)
    canvas = _draw_background(rng, size, backdrop)
    placed = _place_shapes(rng, extent, backdrop)
    canvas, mask = _paint_shapes(rng, canvas, placed, short)
    image = Image.fromarray((np.clip(canvas, 0, 1) * 255 + 0.5).astype(np.uint8))
    image = _camera(rng, pixel_rng, image)
    objects = tuple(SceneObject(shape.kind, _box(shape, short)) for shape in placed)
    return Scene(image=image, label=placed[0].kind, objects=objects, mask=mask)


def random_size(seed: int) -> tuple[int, int]:
    """Returns a picture size for this seed: a shorter side of 136 to 340 pixels, and a usual aspect ratio.

    The aspect ratio is that of a camera or a screen.
    """
    rng = np.random.default_rng((seed, 1))
    short = int(rng.integers(136, 341))
    ratio = float(rng.choice([1.0, 4 / 3, 4 / 3, 4 / 3, 3 / 2, 16 / 9])) * rng.uniform(0.96, 1.04)
    long = max(short, round(short * ratio))
    return (short, long) if rng.random() < 0.25 else (long, short)


# --- outlines ---------------------------------------------------------------------------------------------------------


def _unit_outline(kind: str) -> np.ndarray:
    """Returns a shape's outline, (n, 2) points around the origin, scaled so that all kinds have about the same area."""
    turn = np.linspace(0, 2 * math.pi, 96, endpoint=False)
    if kind in ("circle", "ring"):
        points = np.stack([np.cos(turn), np.sin(turn)], 1) * (0.92 if kind == "circle" else 1.1)
    elif kind == "square":
        points = 0.815 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    elif kind == "triangle":
        corner = np.arange(3) * 2 * math.pi / 3 - math.pi / 2
        points = 1.4 * np.stack([np.cos(corner), np.sin(corner)], 1)
    elif kind == "star":
        corner = np.arange(10) * math.pi / 5 - math.pi / 2
        reach = np.where(np.arange(10) % 2 == 0, 1.36, 0.62)
        points = reach[:, None] * np.stack([np.cos(corner), np.sin(corner)], 1)
    elif kind == "cross":
        arm, half = 1.16, 0.36
        quarter = np.array([[half, -arm], [half, -half], [arm, -half]])
        rotations = [quarter @ np.array([[c, s], [-s, c]]) for c, s in ((1, 0), (0, 1), (-1, 0), (0, -1))]
        points = np.concatenate(rotations)
    else:  # heart
        x = 16 * np.sin(turn) ** 3
        y = -(13 * np.cos(turn) - 5 * np.cos(2 * turn) - 2 * np.cos(3 * turn) - np.cos(4 * turn))
        points = np.stack([x, y + 2.5], 1) / 14.6
    return points


def _outline(kind: str, centre: tuple[float, float], radius: float, angle: float) -> np.ndarray:
    c, s = math.cos(angle), math.sin(angle)
    return _unit_outline(kind) @ np.array([[c, s], [-s, c]]) * radius + np.array(centre)


def _box(shape: _Placed, short: int) -> tuple[float, float, float, float]:
    points = _outline(shape.kind, shape.centre, shape.radius, shape.angle) * short
    (x0, y0), (x1, y1) = points.min(0), points.max(0)
    return float(x0), float(y0), float(x1), float(y1)


def _stencil(kind: str, points: np.ndarray, hole_of: np.ndarray, size: tuple[int, int]) -> Image.Image:
    """Returns the area that a shape covers, as a picture of `size`: 255 inside, 0 outside, without antialiasing.

    `points`: the shape's outline. `hole_of`: the outline of the hole, used for a ring only. Both are in pixels.
    """
    stencil = Image.new("L", size, 0)
    draw = ImageDraw.Draw(stencil)
    draw.polygon([(float(x), float(y)) for x, y in points], fill=255)
    if kind == "ring":
        draw.polygon([(float(x), float(y)) for x, y in hole_of], fill=0)
    return stencil


def _hole(points: np.ndarray, centre: np.ndarray) -> np.ndarray:
    return (points - centre) * _RING_HOLE + centre


# --- colours ----------------------------------------------------------------------------------------------------------


def _hsv(hue: float, saturation: float, value: float) -> np.ndarray:
    sector = (hue % 1.0) * 6
    ramp = np.clip(np.abs((sector + np.array([0, 4, 2])) % 6 - 3) - 1, 0, 1)
    return value * (1 + saturation * (ramp - 1))


def _lab(rgb: np.ndarray) -> np.ndarray:
    """Converts sRGB (0 to 1) to CIE Lab (D65), in which distances say how different two colours look."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = (matrix @ linear) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def _backdrop_colours(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns two related colours for the background: mostly muted, from near-black to near-white."""
    hue, value = rng.random(), rng.uniform(0.1, 0.97)
    saturation = rng.uniform(0.03, 0.55) if rng.random() < 0.85 else rng.uniform(0.5, 0.9)
    first = _hsv(hue, saturation, value)
    second = _hsv(
        hue + rng.uniform(-0.12, 0.12),
        float(np.clip(saturation + rng.uniform(-0.2, 0.2), 0, 1)),
        float(np.clip(value + rng.uniform(-0.28, 0.28), 0.06, 1)),
    )
    return first, second


def _fill_colour(rng: np.random.Generator, behind: list[np.ndarray]) -> np.ndarray:
    """Returns a colour that differs clearly from all colours in `behind`; the best of 40 tries if none does."""
    behind_lab = [_lab(colour) for colour in behind]
    best, best_distance = np.ones(3), -1.0
    for _ in range(40):
        colour = _hsv(rng.random(), rng.uniform(0.35, 1.0), rng.uniform(0.45, 1.0))
        if rng.random() < 0.1:
            colour = np.full(3, rng.choice([0.04, 0.12, 0.9, 0.98]))
        distance = min(float(np.linalg.norm(_lab(colour) - other)) for other in behind_lab)
        if distance >= _MIN_COLOUR_DISTANCE:
            return colour
        if distance > best_distance:
            best, best_distance = colour, distance
    return best


# --- layout -----------------------------------------------------------------------------------------------------------


def _place_shapes(
    rng: np.random.Generator, extent: tuple[float, float], backdrop: tuple[np.ndarray, np.ndarray]
) -> list[_Placed]:
    """Returns one to five shapes, the dominant shape first. At most `_MAX_HIDDEN` of each shape is covered."""
    first, second = backdrop
    behind = [first, second, (first + second) / 2]
    others = int(rng.integers(0, 5))
    dominant_radius = rng.uniform(0.25, 0.34)
    placed: list[_Placed] = []
    stencils: list[np.ndarray] = []
    for index in range(others + 1):
        kind = SHAPES[int(rng.integers(len(SHAPES)))]
        radius = dominant_radius if index == 0 else rng.uniform(0.105, min(0.175, 0.6 * dominant_radius))
        angle = rng.uniform(-_MAX_TURN, _MAX_TURN)
        for _ in range(30):
            spot = _find_room(rng, kind, radius, angle, extent, roam=0.4 if index == 0 else 1.0)
            stencil = _coarse_stencil(kind, spot, radius, angle, extent)
            if _most_covered([*stencils, stencil]) <= _MAX_HIDDEN:
                break
        else:
            continue
        colour = _fill_colour(rng, behind)
        behind.append(colour)
        stencils.append(stencil)
        placed.append(
            _Placed(
                kind=kind,
                centre=spot,
                radius=radius,
                angle=angle,
                colour=colour,
                second_colour=np.clip(colour + rng.uniform(-0.22, 0.22) + rng.uniform(-0.08, 0.08, 3), 0, 1),
                finish=str(rng.choice(["plain", "gradient", "gradient", "stripes", "grain"])),
                outline=rng.uniform(0.006, 0.014) if rng.random() < 0.35 else 0.0,
                shadow=rng.uniform(0.15, 0.5) if rng.random() < 0.5 else 0.0,
            )
        )
    return placed


def _find_room(
    rng: np.random.Generator, kind: str, radius: float, angle: float, extent: tuple[float, float], roam: float
) -> tuple[float, float]:
    """Returns a random centre for a shape, so that the shape lies wholly inside the picture.

    `roam`: how far the shape may lie from the middle: 0 is in the middle, 1 is anywhere in the picture.
    """
    points = _outline(kind, (0.0, 0.0), radius, angle)
    low, high = points.min(0) - 0.012, points.max(0) + 0.012
    first, last = -low, np.array(extent) - high
    x, y = (first + last) / 2 + roam * rng.uniform(-1, 1, 2) * (last - first) / 2
    return float(x), float(y)


def _coarse_stencil(
    kind: str, centre: tuple[float, float], radius: float, angle: float, extent: tuple[float, float]
) -> np.ndarray:
    points = _outline(kind, centre, radius, angle) * _LAYOUT_PIXELS
    size = (round(extent[0] * _LAYOUT_PIXELS), round(extent[1] * _LAYOUT_PIXELS))
    return np.asarray(_stencil(kind, points, _hole(points, np.array(centre) * _LAYOUT_PIXELS), size)) > 0


def _most_covered(stencils: list[np.ndarray]) -> float:
    """Returns how much of the most overlapped shape lies under or over others, 0 to 1. No shape can be hidden more."""
    crossed = np.sum(stencils, axis=0) > 1
    return max(float((stencil & crossed).sum()) / max(1, int(stencil.sum())) for stencil in stencils)


# --- painting ---------------------------------------------------------------------------------------------------------


def _clouds(rng: np.random.Generator, size: tuple[int, int], cells: int) -> np.ndarray:
    """Returns smooth random values from about -1 to 1 as an array of `size`, with the same pattern at every size."""
    grid = Image.fromarray(rng.uniform(-1, 1, (cells, cells)).astype(np.float32))
    return np.asarray(grid.resize(size, Image.Resampling.BICUBIC), dtype=np.float32)


def _ramps(size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pixel centres as x (1, width) and y (height, 1), in units of the shorter side."""
    width, height = size
    short = min(size)
    x = (np.arange(width, dtype=np.float32) + 0.5) / short
    y = (np.arange(height, dtype=np.float32) + 0.5) / short
    return x[None, :], y[:, None]


def _draw_background(
    rng: np.random.Generator, size: tuple[int, int], backdrop: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Returns (height, width, 3) float32 in 0 to 1: a plain colour or gradient, with at most two faint textures."""
    x, y = _ramps(size)
    first, second = (colour.astype(np.float32) for colour in backdrop)
    style = str(rng.choice(["plain", "linear", "radial", "clouds"], p=[0.15, 0.35, 0.25, 0.25]))
    angle, spot = rng.uniform(0, 2 * math.pi), rng.uniform(0.2, 0.8, 2)
    if style == "linear":
        mix = (x - x.mean()) * math.cos(angle) + (y - y.mean()) * math.sin(angle) + 0.5
    elif style == "radial":
        mix = np.hypot(x - spot[0] * x.max(), y - spot[1] * y.max())
    elif style == "clouds":
        mix = 0.5 + 0.6 * _clouds(rng, size, int(rng.integers(3, 7)))
    else:
        mix = np.zeros((1, 1), dtype=np.float32)
    mix = np.broadcast_to(np.clip(mix, 0, 1), (size[1], size[0]))[..., None]
    canvas = first * (1 - mix) + second * mix

    for _ in range(int(rng.integers(0, 3))):
        texture = str(rng.choice(["mottle", "stripes", "weave", "grain", "scribble", "glow"]))
        strength = rng.uniform(0.02, 0.075)
        angle, period = rng.uniform(0, math.pi), rng.uniform(0.03, 0.12)
        along = (x * math.cos(angle) + y * math.sin(angle)) * (2 * math.pi / period)
        across = (y * math.cos(angle) - x * math.sin(angle)) * (2 * math.pi / period)
        if texture == "mottle":
            change = _clouds(rng, size, int(rng.integers(8, 24)))
        elif texture == "stripes":
            change = np.sin(along)
        elif texture == "weave":
            change = 0.5 * (np.sin(along) + np.sin(across))
        elif texture == "grain":
            change = _clouds(rng, size, int(rng.integers(60, 140)))
        elif texture == "scribble":
            change = _scribble(rng, size)
        else:
            change = sum(
                np.exp(-(((x - cx * x.max()) ** 2 + (y - cy * y.max()) ** 2) / (2 * spread**2)))
                for cx, cy, spread in rng.uniform([0, 0, 0.08], [1, 1, 0.2], (3, 3))
            )
        canvas = canvas + np.float32(strength) * np.asarray(change, dtype=np.float32)[..., None]
    return np.clip(canvas, 0, 1)


def _scribble(rng: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    """Returns a layer of a few thin lines across the picture, (height, width): clutter that is not a shape."""
    short = min(size)
    layer = Image.new("L", size, 0)
    draw = ImageDraw.Draw(layer)
    for _ in range(int(rng.integers(2, 7))):
        corners = rng.uniform(-0.1, 1.1, (3, 2)) * np.array(size)
        draw.line([(float(a), float(b)) for a, b in corners], fill=255, width=max(1, round(0.006 * short)))
    return np.asarray(layer, dtype=np.float32) / 255 * 2


def _paint_shapes(
    rng: np.random.Generator, canvas: np.ndarray, placed: list[_Placed], short: int
) -> tuple[np.ndarray, np.ndarray]:
    """Paints the shapes over each other in random order. Returns the picture and its mask.

    The mask names, for each pixel, the shape on top, with the numbers of `Scene.mask`. `short`: the picture's shorter
    side in pixels.
    """
    height, width = canvas.shape[:2]
    mask = np.zeros((height, width), dtype=np.uint8)
    canvas = canvas.copy()
    for index in rng.permutation(len(placed)):
        shape = placed[int(index)]
        if shape.shadow:
            _cast_shadow(canvas, shape, short)
        points = _outline(shape.kind, shape.centre, shape.radius, shape.angle) * short
        left, top = np.maximum(np.floor(points.min(0)).astype(int) - 1, 0)
        right, bottom = np.minimum(np.ceil(points.max(0)).astype(int) + 1, (width, height))
        area, edge = _antialiased(shape, points, (left, top, right, bottom), short)
        paint = _finish(rng, shape, (right - left, bottom - top), short)
        if shape.outline:
            rim = np.clip(shape.colour * 0.45 if shape.colour.mean() > 0.35 else shape.colour + 0.45, 0, 1)
            paint = paint * (1 - edge[..., None]) + rim.astype(np.float32) * edge[..., None]
        window = canvas[top:bottom, left:right]
        window[:] = window * (1 - area[..., None]) + paint * area[..., None]
        mask[top:bottom, left:right][area > 0.5] = 1 + SHAPES.index(shape.kind)
    return canvas, mask


def _antialiased(
    shape: _Placed, points: np.ndarray, window: tuple[int, int, int, int], short: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns how much of each pixel the shape covers, and how much its rim covers, both from 0 to 1.

    `window`: the part of the picture to compute, (left, top, right, bottom) in pixels. The shares come from a drawing
    that is four times as large.
    """
    left, top, right, bottom = window
    big = ((right - left) * _SUPERSAMPLE, (bottom - top) * _SUPERSAMPLE)
    # Pillow puts integer coordinates at pixel centres, hence the half pixel.
    local = (points - np.array([left, top])) * _SUPERSAMPLE - 0.5
    centre = (np.array(shape.centre) * short - np.array([left, top])) * _SUPERSAMPLE - 0.5
    hole = _hole(local, centre)
    stencil = _stencil(shape.kind, local, hole, big)
    area = np.asarray(stencil.reduce(_SUPERSAMPLE), dtype=np.float32) / 255
    if not shape.outline:
        return area, np.zeros_like(area)
    line = Image.new("L", big, 0)
    draw = ImageDraw.Draw(line)
    stroke = max(1, round(2 * shape.outline * short * _SUPERSAMPLE))
    for loop in (local, hole) if shape.kind == "ring" else (local,):
        closed = [(float(a), float(b)) for a, b in (*loop, loop[0], loop[1])]
        draw.line(closed, fill=255, width=stroke, joint="curve")
    edge = ImageChops.multiply(line, stencil).reduce(_SUPERSAMPLE)
    return area, np.asarray(edge, dtype=np.float32) / 255


def _finish(rng: np.random.Generator, shape: _Placed, size: tuple[int, int], short: int) -> np.ndarray:
    """Returns the colours that fill a shape, (height, width, 3), for the rectangle of `size` around the shape."""
    first, second = shape.colour.astype(np.float32), shape.second_colour.astype(np.float32)
    angle, waves = rng.uniform(0, math.pi), rng.uniform(3, 7)
    x = (np.arange(size[0], dtype=np.float32) / short - size[0] / short / 2)[None, :] / shape.radius
    y = (np.arange(size[1], dtype=np.float32) / short - size[1] / short / 2)[:, None] / shape.radius
    along = x * math.cos(angle) + y * math.sin(angle)
    if shape.finish == "gradient":
        mix = np.clip(0.5 + 0.5 * along, 0, 1)
    elif shape.finish == "stripes":
        mix = 0.3 + 0.3 * np.sin(along * waves * math.pi)
    elif shape.finish == "grain":
        mix = np.clip(0.4 + 0.4 * _clouds(rng, size, 10), 0, 1)
    else:
        mix = np.zeros((size[1], size[0]), dtype=np.float32)
    return first * (1 - mix[..., None]) + second * mix[..., None]


def _cast_shadow(canvas: np.ndarray, shape: _Placed, short: int) -> None:
    """Darkens the canvas softly below and to the right of a shape."""
    height, width = canvas.shape[:2]
    softness = 0.016 * short
    shift = np.array([0.012, 0.018]) * short
    points = _outline(shape.kind, shape.centre, shape.radius, shape.angle) * short + shift
    reach = 3 * softness + 1
    left, top = np.maximum(np.floor(points.min(0) - reach).astype(int), 0)
    right, bottom = np.minimum(np.ceil(points.max(0) + reach).astype(int), (width, height))
    local = points - np.array([left, top])
    centre = np.array(shape.centre) * short + shift - np.array([left, top])
    stencil = _stencil(shape.kind, local, _hole(local, centre), (int(right - left), int(bottom - top)))
    dark = np.asarray(stencil.filter(ImageFilter.GaussianBlur(float(softness))), dtype=np.float32) / 255
    canvas[top:bottom, left:right] *= 1 - shape.shadow * dark[..., None]


def _camera(rng: np.random.Generator, pixel_rng: np.random.Generator, image: Image.Image) -> Image.Image:
    """Imitates a lens, a sensor and a file format: exposure, and sometimes blur, noise and JPEG."""
    blur, exposure, noise, quality = rng.uniform([0.0, 0.88, 0.0, 45], [0.005, 1.1, 0.05, 95])
    has_blur, has_noise, has_jpeg = rng.random(3) < (0.4, 0.6, 0.5)
    if has_blur:
        image = image.filter(ImageFilter.GaussianBlur(float(blur) * min(image.size)))
    pixels = np.asarray(image, dtype=np.float32) * exposure
    if has_noise:
        pixels = pixels + pixel_rng.standard_normal(pixels.shape, dtype=np.float32) * (255 * noise)
    image = Image.fromarray(np.clip(pixels + 0.5, 0, 255).astype(np.uint8))
    if has_jpeg:
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=int(quality))
        image = Image.open(io.BytesIO(buffer.getvalue())).convert("RGB")
    return image
