"""Fourteen fixed scenes, seen from the front: x is to the right, y to the back."""

from dataclasses import replace

from pipeline.datasets.schema import Pair, Placed, SceneFacts

BEFORE, AFTER = (0.0, -10.0, 5.0), (1.0, -10.0, 5.0)  # cameras


def objects(text: str) -> tuple[Placed, ...]:
    """Return objects of lines "large red metal cube x y", numbered from 0."""
    rows = [line.split() for line in text.strip().splitlines()]
    return tuple(Placed(at, *row[:4], float(row[4]), float(row[5])) for at, row in enumerate(rows))


def changed(kind: str, before: tuple[Placed, ...], at: int, **new: object) -> Pair:
    return pair(
        kind, before, tuple(replace(each, **new) if each.number == at else each for each in before), at
    )


def pair(kind: str, before: tuple[Placed, ...], after: tuple[Placed, ...], at: int | None) -> Pair:
    scene = SceneFacts(before, after, BEFORE, AFTER, at)
    return Pair("0.png", "0", "test", "a", "b", ("x",), kind, scene=scene)


COLOR = objects("""
    small yellow rubber cylinder -2 0
    large purple metal cube 1 1.5
    small gray rubber sphere 2 -1.5
    large red metal sphere -1 -2
""")
GOLDEN = objects("""
    small yellow metal sphere 1 -1
    large blue rubber cube -2 1
    small green metal cylinder 2.2 1.5
    small yellow rubber cube -1.5 -1.8
""")
MATERIAL = objects("""
    large brown rubber cube 0 2
    small brown metal cylinder -2 -1
    large cyan rubber sphere 2 -1
    small red rubber cube -0.5 -2
""")
ADD = objects("""
    large gray metal cube 1.5 1.5
    small blue metal cylinder 2.2 -1
    large green rubber sphere -1 1.2
    small gray rubber sphere -2.2 -1.5
""")
DROP = objects("""
    large blue metal cylinder 2 1
    small blue rubber cube -1 -1.5
    large red rubber sphere -2 1.5
    small purple metal sphere 0.8 -2
""")
MOVE = objects("""
    small green rubber cube -1.5 -1.5
    small red metal cylinder -1.5 1
    large yellow rubber sphere 1.8 1.8
    large green metal cube 0.2 -2.2
""")
NONE = objects("""
    small green rubber cube -1.5 -1.5
    large red metal sphere 1 1
    small gray metal cube 2 -1
    large blue metal cylinder -2 1.5
""")
ROW = objects("""
    large red rubber cube -2.2 0
    large blue rubber cube 0 0.3
    large green rubber cube 2.2 -0.2
    small red metal sphere 0 -2
""")
DROP2 = objects("""
    small gray metal cube -0.5 -1.8
    large gray rubber cube 1.5 1.6
    small gray metal sphere 2.2 -1
    large yellow metal cylinder -2 0.8
    small cyan rubber cylinder -0.2 2.3
""")
TEXTURE2 = objects("""
    small purple metal sphere 1.2 -1.3
    large purple rubber cube -1.5 1
    small blue rubber cylinder -1 -1.9
    large blue metal sphere 2.2 1.4
""")
MOVE2 = objects("""
    large red rubber cylinder 2 1
    small blue metal sphere 0 -1
    large cyan metal cube -2.2 -1.8
    small brown rubber cube 1 -2.3
""")
ADD2 = objects("""
    large purple rubber sphere -2 0.5
    small yellow metal cube 0 -1.5
    small red rubber cylinder 1.4 -1
    large purple metal cube 2 1.6
""")
NONE2 = objects("""
    large yellow rubber cube -1.5 -1
    small cyan metal sphere 1 1
    large brown metal cylinder 2 -1.5
""")
COLOR2 = objects("""
    large green rubber sphere -1.2 1.4
    small green metal sphere 1.5 -1.2
    large red rubber cube 1.8 1.7
    small cyan metal cylinder -1.8 -1.5
""")
SCENES = {
    "color": changed("color", COLOR, 0, color="cyan"),
    "golden": changed("color", GOLDEN, 0, color="red"),
    "material": changed("texture", MATERIAL, 0, material="metal"),
    "add": pair("add", ADD[:3], ADD, 3),
    "drop": pair("drop", DROP, DROP[1:], 0),
    "move": changed("move", MOVE, 0, x=2.0, y=-0.5),
    "none": pair("none", NONE, NONE, None),
    "row": changed("color", ROW, 1, color="purple"),
    "drop2": pair("drop", DROP2, DROP2[1:], 0),
    "texture2": changed("texture", TEXTURE2, 0, material="rubber"),
    "move2": changed("move", MOVE2, 0, x=-1.5, y=1.9),
    "add2": pair("add", ADD2[:3], ADD2, 3),
    "none2": pair("none", NONE2, NONE2, None),
    "color2": changed("color", COLOR2, 0, color="brown"),
}
