"""Descriptions of scenes of plain shapes in English, with questions and answers: the texts that train shapes-gemma.

The scenes have the same shapes as in `tools/scenes.py`, in plain colours, at nine places of a picture. Nothing is
drawn. The same seed always gives the same description.

Limits: each shape and each colour occurs at most once in a description. The description gives one place for each shape.
Questions are about the shape that was described last. In half an hour of training, a model of a million parameters does
not learn to look further back.
"""

import itertools
import random
from dataclasses import dataclass

from tools.scenes import SHAPES

COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "grey", "black", "white")
SIZES = ("tiny", "small", "large", "huge")
CELLS = ("top left", "top", "top right", "left", "middle", "right", "bottom left", "bottom", "bottom right")
"""The cells of a picture of three by three, row by row."""
PLACES = tuple(f"{({'left': 'on', 'right': 'on', 'middle': 'in'}).get(cell, 'at')} the {cell}" for cell in CELLS)

# Sentences begin with a capital, whatever fills them.
FIRST = ("the picture shows {thing} {place}.", "this is a picture of {thing} {place}.")
FURTHER = ("{thing} is {place}.", "there is {thing} {place}.", "you can see {thing} {place}.")
QUESTIONS = {
    "colour": ("what colour is the {shape}?", "the {shape} is {colour}."),
    "place": ("where is the {shape}?", "the {shape} is {place}."),
    "size": ("how big is the {shape}?", "the {shape} is {size}."),
}
FEWEST, MOST = 3, 5  # shapes of one description


@dataclass(frozen=True)
class Thing:
    """A shape as a sentence describes it. `place`: one of PLACES, or where the shape lies, seen from an earlier one."""

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
    """One sentence for each thing."""
    talk: tuple[tuple[tuple[str, str], ...], ...]
    """The questions about each thing, each with its answer."""

    @property
    def text(self) -> str:
        """The description as one paragraph that ends with a line break.

        Each sentence is followed by the questions about its shape, with their answers.
        """
        parts = zip(self.sentences, self.talk, strict=True)
        return " ".join(text for sentence, talk in parts for text in (sentence, *itertools.chain(*talk))) + "\n"


def describe(seed: int) -> Description:
    """Returns a random description of a scene, the same one for the same seed."""
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
    """Returns a question of the given kind about a thing, and its answer."""
    question, answer = QUESTIONS[kind]
    return thing.fill(question), thing.fill(answer)


def _relation(cell: int, other_cell: int) -> str | None:
    """Returns where `cell` lies, seen from `other_cell`, such as "left of"; None if they share no row and no column.

    Cells are numbered from 0 to 8, row by row, in a grid of 3 by 3.
    """
    (row, column), (other_row, other_column) = divmod(cell, 3), divmod(other_cell, 3)
    if row == other_row:
        return "left of" if column < other_column else "right of"
    if column == other_column:
        return "above" if row < other_row else "below"
    return None
