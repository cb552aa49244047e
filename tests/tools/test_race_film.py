"""The film of the race: which states of a run it shows, for how long, and the file that README shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image, ImageDraw
from samples import ok_result

from demo.core.result import Progress
from tools import race_film

MAX_BYTES, WIDTH, SECONDS = 1_500_000, 960, (6, 12)


def test_the_film_shows_each_state_of_the_timing_once_as_long_as_it_stood() -> None:
    timed = [
        Progress("time", 0.5, 4.0, calls=0),
        Progress("time", 0.5, 4.25, calls=8),
        Progress("time", 0.5, 4.4, calls=8),
    ]
    timed += [Progress("time", 0.6, 4.75, calls=16), Progress("check", 0.9, 5.0, calls=20)]
    states = race_film.race([Progress("compile", 0.3, 2.0), *timed, ok_result()])
    assert [state.calls for state in states] == [8, 16]
    assert race_film.stays(states) == [0.5, race_film.END_SECONDS, race_film.ANSWER_SECONDS]


def test_frames_are_written_with_their_times_in_one_palette_and_repeat_for_ever(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (96, 54), "white") for _ in range(3)]
    for place, frame in enumerate(frames):
        ImageDraw.Draw(frame).rectangle((0, 0, 30 * place, 20), fill="#0072b2")
    race_film.write_gif(frames, [0.25, 0.5, 2.0], tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as film:
        assert (film.n_frames, film.info["loop"]) == (3, 0)
        for place, stay in enumerate((250, 500, 2000)):
            film.seek(place)
            assert film.info["duration"] == stay
        assert film.convert("RGB").getpixel((50, 10)) == pytest.approx((0, 0x72, 0xB2), abs=4)


def test_the_film_of_readme_is_small_moves_and_repeats_for_ever() -> None:
    assert race_film.FILM.stat().st_size <= MAX_BYTES
    with Image.open(race_film.FILM) as film:
        assert film.width == WIDTH and film.n_frames > 5 and film.info["loop"] == 0
        seconds = 0.0
        for place in range(film.n_frames):
            film.seek(place)
            seconds += film.info["duration"] / 1000
    assert SECONDS[0] <= seconds <= SECONDS[1]
