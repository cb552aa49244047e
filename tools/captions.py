"""Descriptions of scenes of plain shapes in English, with questions and answers: what shapes-gemma is trained on.

The world is that of `tools/scenes.py`: the same shapes, in plain colours, at nine places of a picture. Nothing is
drawn. A seed fixes the description. `check` is the same grammar read the other way. It takes a text apart again and
keeps in mind what was said: a colour given twice, a question about another shape than the last one, or an answer that
does not fit what was said of it is no part of it.

Limits: each shape and each colour comes once in a description. A shape has one place, the one that its sentence gives.
Questions are about the shape that was described last: a model of a million parameters does not learn within half an
hour to look further back. `check` does not judge whether the places fit together.
"""

import random
import re
from dataclasses import dataclass

from tools.scenes import SHAPES

COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "grey", "black", "white")
SIZES = ("tiny", "small", "large", "huge")
CELLS = ("top left", "top", "top right", "left", "middle", "right", "bottom left", "bottom", "bottom right")
"""Of a picture of three by three, row by row."""
PLACES = tuple(f"{({'left': 'on', 'right': 'on', 'middle': 'in'}).get(cell, 'at')} the {cell}" for cell in CELLS)
RELATIONS = ("left of", "right of", "above", "below")

# Sentences begin with a capital, whatever fills them.
FIRST = ("the picture shows {thing} {place}.", "this is a picture of {thing} {place}.")
FURTHER = ("{thing} is {place}.", "there is {thing} {place}.", "you can see {thing} {place}.")
QUESTIONS = {
    "colour": ("what colour is the {shape}?", "the {shape} is {colour}."),
    "place": ("where is the {shape}?", "the {shape} is {place}."),
    "size": ("how big is the {shape}?", "the {shape} is {size}."),
}
FEWEST, MOST = 3, 5  # shapes of one description


class NotGrammar(ValueError):
    """A text that the grammar cannot make."""


@dataclass(frozen=True)
class Thing:
    """A shape as its sentence gives it. `place` is one of PLACES, or a relation to an earlier shape."""

    size: str
    colour: str
    shape: str
    place: str

    def fill(self, template: str) -> str:
        thing = f"a {self.size} {self.colour} {self.shape}"
        text = template.format(thing=thing, **vars(self))
        return text[0].upper() + text[1:]


@dataclass(frozen=True)
class Description:
    things: tuple[Thing, ...]
    sentences: tuple[str, ...]
    """One for each thing."""
    talk: tuple[tuple[tuple[str, str], ...], ...]
    """For each thing the questions about it, each with its answer."""

    @property
    def text(self) -> str:
        """A paragraph, and the line break that parts it from the next."""
        return self.until(len(self.things)) + "\n"

    def until(self, things: int) -> str:
        """What is said of so many of the things, with the talk about them."""
        said = zip(self.sentences[:things], self.talk, strict=False)
        return " ".join(part for sentence, talk in said for part in (sentence, *(one for pair in talk for one in pair)))


def describe(seed: int) -> Description:
    """The description of this seed."""
    rng = random.Random(seed)
    count = rng.randint(FEWEST, MOST)
    cells = rng.sample(range(len(CELLS)), count)
    shapes, colours = rng.sample(SHAPES, count), rng.sample(COLOURS, count)
    things: list[Thing] = []
    for number, (cell, shape, colour) in enumerate(zip(cells, shapes, colours, strict=True)):
        relations = [(_relation(cell, other), shapes[index]) for index, other in enumerate(cells[:number])]
        beside = [f"{relation} the {other}" for relation, other in relations if relation]
        place = rng.choice(beside) if beside and rng.random() < 0.75 else PLACES[cell]
        things.append(Thing(rng.choice(SIZES), colour, shape, place))
    sentences = tuple(thing.fill(rng.choice(FURTHER if number else FIRST)) for number, thing in enumerate(things))
    talk = tuple(tuple(ask(thing, kind) for kind in rng.sample(list(QUESTIONS), rng.randint(1, 2))) for thing in things)
    return Description(tuple(things), sentences, talk)


def ask(thing: Thing, kind: str) -> tuple[str, str]:
    """The question of this kind about a thing, and its answer."""
    question, answer = QUESTIONS[kind]
    return thing.fill(question), thing.fill(answer)


def _relation(one: int, other: int) -> str | None:
    """How one cell lies to another of the same row or column; None where they share neither."""
    (row, column), (other_row, other_column) = divmod(one, 3), divmod(other, 3)
    if row == other_row:
        return "left of" if column < other_column else "right of"
    if column == other_column:
        return "above" if row < other_row else "below"
    return None


# --- the same grammar, read ------------------------------------------------------------------------------------------


def _any(name: str, words: tuple[str, ...]) -> str:
    return f"(?P<{name}>{'|'.join(words)})"


_SLOTS = {"size": _any("size", SIZES), "colour": _any("colour", COLOURS), "shape": _any("shape", SHAPES)}
_SLOTS["thing"] = "a {size} {colour} {shape}".format_map(_SLOTS)
_SLOTS["place"] = f"(?P<place>{'|'.join(PLACES)}|(?:{'|'.join(RELATIONS)}) the {_any('other', SHAPES)})"
_LONGEST_SENTENCE = 80  # characters


def _fits(templates: tuple[str, ...], sentence: str) -> dict[str, str] | None:
    """What fills the slots of the first template that makes this sentence."""
    for template in templates:
        pattern = re.sub(r"[.?]$", r"\\\g<0>", template).format_map(_SLOTS)
        if sentence[0].isupper() and (found := re.fullmatch(pattern, sentence[0].lower() + sentence[1:])):
            return {name: word for name, word in found.groupdict().items() if word}
    return None


def check(text: str) -> int:
    """How many complete sentences a text has that begins with a description. Raises NotGrammar.

    Another description may follow each line break. The last sentence may be cut off anywhere, and is not looked at.
    """
    sentences = 0
    *whole, last = text.split("\n")
    for line in whole:
        sentences += _check_description(line, ended=True)
    return sentences + (_check_description(last, ended=False) if last else 0)


def _check_description(line: str, ended: bool) -> int:
    """The sentences of one description, which may break off unless it has ended."""
    sentences = re.findall(r"[^.?]*[.?]", line)
    rest = line[len("".join(sentences)) :]
    if len(rest) > _LONGEST_SENTENCE or (rest and ended):
        raise NotGrammar(f"This does not end as a sentence: {rest}")
    said = _Said()
    for number, sentence in enumerate(sentences):
        if number and not sentence.startswith(" "):
            raise NotGrammar(f"No space before: {sentence}")
        said.hear(sentence[1:] if number else sentence)
    if ended and not said.complete:
        raise NotGrammar(f"Shapes or questions are missing: {line}")
    return len(sentences)


class _Said:
    """What one description has said so far."""

    def __init__(self) -> None:
        self.things: list[dict[str, str]] = []
        self.asked: list[str] = []
        """The kinds of the questions about the last thing; the last one waits for its answer if `waiting`."""
        self.waiting = False

    @property
    def complete(self) -> bool:
        return len(self.things) >= FEWEST and bool(self.asked) and not self.waiting

    def hear(self, sentence: str) -> None:
        """Raises NotGrammar where the sentence cannot come next."""
        if not (self._answer(sentence) if self.waiting else self._thing(sentence) or self._question(sentence)):
            raise NotGrammar(f"This sentence cannot come here: {sentence}")

    def _thing(self, sentence: str) -> bool:
        found = _fits(FURTHER if self.things else FIRST, sentence)
        if not found or (self.things and not self.asked) or len(self.things) == MOST:
            return False
        shapes = [thing["shape"] for thing in self.things]
        if found["shape"] in shapes or found["colour"] in [thing["colour"] for thing in self.things]:
            return False
        if found.get("other", found["shape"]) not in (*shapes, found["shape"]) or found.get("other") == found["shape"]:
            return False
        self.things.append(found)
        self.asked = []
        return True

    def _question(self, sentence: str) -> bool:
        if not self.things or len(self.asked) == 2:
            return False
        for kind, (question, _) in QUESTIONS.items():
            found = _fits((question,), sentence)
            if found and kind not in self.asked and found["shape"] == self.things[-1]["shape"]:
                self.asked.append(kind)
                self.waiting = True
                return True
        return False

    def _answer(self, sentence: str) -> bool:
        found = _fits((QUESTIONS[self.asked[-1]][1],), sentence)
        self.waiting = False
        return found is not None and all(self.things[-1].get(name) == word for name, word in found.items())
