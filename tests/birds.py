"""CUB's and NABirds' published layouts, made up."""

import numpy as np
from PIL import Image

CLASSES = {1: "001.Black_footed_Albatross", 5: "005.Crested_Auklet", 9: "009.Brewer_Blackbird"}
COLOURS = ("black", "white", "red", "green", "yellow", "blue", "brown")


def sentences(number):
    """Return two sentences on the image of a number."""
    own = [COLOURS[(number + k) % len(COLOURS)] for k in range(3)]
    return [f"this bird has a {own[k]} head and a {own[k + 1]} belly." for k in range(2)]


def make_birds(root, per_class=4, captions=True):
    """Write images of three classes. The last image of each class is in the test split."""
    lists = {"images": [], "image_class_labels": [], "train_test_split": [], "classes": []}
    number = 0
    for label, folder in CLASSES.items():
        (root / "images" / folder).mkdir(parents=True)
        lists["classes"].append(f"{label} {folder}")
        for place in range(per_class):
            number += 1
            name = f"{folder}/Bird_{number:04d}"
            shade = np.full((8, 8, 3), 20 * number, np.uint8)
            Image.fromarray(shade).save(root / "images" / f"{name}.jpg")
            lists["images"].append(f"{number} {name}.jpg")
            lists["image_class_labels"].append(f"{number} {label}")
            lists["train_test_split"].append(f"{number} {int(place < per_class - 1)}")
            if captions:
                (root / "text_c10" / folder).mkdir(parents=True, exist_ok=True)
                texts = sentences(number)
                (root / "text_c10" / f"{name}.txt").write_text("\n ".join(texts) + "  \n\n")
    for file, lines in lists.items():
        (root / f"{file}.txt").write_text("\n".join(lines) + "\n")
    return root
