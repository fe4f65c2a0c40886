"""The words of tabletop: what the grammar writes with, and what a caption is read by.

They stand apart from the grammar so that reading a caption needs no ray tracer.
"""

# as on screen, by CLEVR; the names are their words
COLORS = {
    "gray": (87, 87, 87),
    "red": (173, 35, 35),
    "blue": (42, 75, 215),
    "green": (29, 105, 20),
    "brown": (129, 74, 25),
    "purple": (129, 38, 192),
    "cyan": (41, 208, 208),
    "yellow": (255, 238, 51),
}

MATERIALS = ("rubber", "metal")
SHAPES = ("sphere", "cube", "cylinder")  # in the order of the ray tracer's kinds
SIZES = ("large", "small")

WORDS = {
    "large": ("large", "big"),
    "small": ("small", "tiny"),
    "metal": ("metal", "metallic", "shiny"),
    "rubber": ("rubber", "matte"),
    "cube": ("cube", "block"),
    "sphere": ("sphere", "ball"),
    "cylinder": ("cylinder",),
}
ANY_SHAPE = ("thing", "object")
RIGHT = ("right of", "to the right of", "on the right side of")
LEFT = ("left of", "to the left of", "on the left side of")
FRONT = ("in front of",)
BEHIND = ("behind",)

VERBS = {
    "color": ("changed to", "turned", "became"),
    "material": ("turned", "became"),
    "add": ("has been added", "has appeared", "has been newly placed"),
    "drop": ("has disappeared", "is missing", "is gone", "is no longer there"),
    "move": ("changed its location", "is in a different location", "has been moved"),
}
NO_CHANGE = (
    "no change was made",
    "there is no change",
    "the two scenes seem identical",
    "the scene is the same as before",
    "the scene remains the same",
    "nothing has changed",
    "nothing was modified",
    "no change has occurred",
    "there is no difference",
)
