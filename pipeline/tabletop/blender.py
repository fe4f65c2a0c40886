"""Draw scenes with Blender and CLEVR's own scene, shapes and materials.

Blender has an environment of its own (`make blender`), because bpy needs another NumPy than the lab. Each
process that draws starts one process of blender_program.py there, and exchanges lines and files with it.

CLEVR's files: image_generation/data of https://github.com/facebookresearch/clevr-dataset-gen (BSD licence).
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pipeline.io.content_hashes import sha256
from pipeline.io.errors import InputError
from pipeline.tabletop.scenes import RADII, SceneObject, View
from pipeline.tabletop.words import COLORS

VERSION = "4.5.15"  # of Blender; another version draws the same scene in other colours (5.0: darker ground)
PYTHON = Path(sys.prefix).with_name(".blender") / "bin/python"  # next to the lab's environment
PROGRAM = Path(__file__).with_name("blender_program.py")
SAMPLES = 4  # rays per pixel; CLEVR's images have 512
GRAIN = 0.09  # share of the removed noise that is put back; CLEVR's images have noise
SEED = 0  # of the noise, as in CLEVR's images
DENOISER = {"prefilter": "FAST", "quality": "FAST"}  # Blender's default settings take ten times as long
FILES = {  # the files of CLEVR that are read -> SHA-256
    "base_scene.blend": "e9a6a0a51f377064ae78e6568fdb1c5a6c97db4e674b29682e345d677607eb82",
    "materials/MyMetal.blend": "e47b6f920aaa4f5db0306eed01c309e0fcd933fdf2a8b6032a5fe5012268eca6",
    "materials/Rubber.blend": "05aa7d57452a4f083febe9ba34483c3c66201d2836b7281794f7ddbd9f9e63ff",
    "shapes/SmoothCube_v2.blend": "a901f32efbc2afe33de6874163002439ce943697d6f4b43d0ad494eac72035ce",
    "shapes/SmoothCylinder.blend": "f5c4bf6b1f5e1469eb868b4e6be092ae2656b7b41d3a07e23d8487e616289bfa",
    "shapes/Sphere.blend": "f35d20b842193ac0f3e49d4642c1ebbc999142ead5ecc298ed024118a5e5df98",
}
REMEDY = "docs/tabletop.md, “CLEVR's own renderer”, says where to get CLEVR's files"


def check(assets: str | None) -> None:
    """Raise InputError if Blender's environment, or one of CLEVR's files in `assets`, is missing."""
    if not PYTHON.is_file():
        raise InputError(f"the look blender needs Blender, and {PYTHON} is missing; run `make blender`")
    if assets is None:
        raise InputError(f"the look blender needs CLEVR's files: set tabletop.assets; {REMEDY}")
    for name, expected in FILES.items():
        path = Path(assets) / name
        if not path.is_file():
            raise InputError(f"{path} is missing; {REMEDY}")
        if sha256(path) != expected:
            raise InputError(f"{path} is not CLEVR's file: it has another SHA-256; {REMEDY}")


def draw(
    assets: str | None, objects: tuple[SceneObject, ...], view: View, width: int, height: int
) -> np.ndarray:
    """Return Blender's image, (height, width, 3) uint8; the first call starts the process."""
    check_once(assets)
    return process(str(assets)).draw(job(objects, view, width, height))


check_once = cache(check)


def job(objects: tuple[SceneObject, ...], view: View, width: int, height: int) -> dict[str, Any]:
    """Return a job of blender_program.py, without the file to write."""
    solids = [
        {
            "shape": item.shape,
            "material": item.material,
            "color": COLORS[item.color],
            "x": item.x,
            "y": item.y,
            "radius": RADII[item.size],
            "rotation": item.rotation,
        }
        for item in objects
    ]
    quality = {"samples": SAMPLES, "grain": GRAIN, "seed": SEED} | DENOISER
    size = {"width": width, "height": height}
    return {"objects": solids, "camera": view.camera, "lights": view.lights} | size | quality


@cache
def process(assets: str) -> "Process":
    """Return this process's Blender, which reads CLEVR's files in `assets`. It is started once."""
    started = Process(assets)
    atexit.register(started.close)
    return started


class Process:
    """A process of Blender with one thread. It ends when this process ends."""

    def __init__(self, assets: str) -> None:
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        # Without OMP_NUM_THREADS, a second thread waits for work by spinning. A session of its own: Ctrl-C
        # is for the lab, which then closes standard input.
        self._blender = subprocess.Popen(
            [PYTHON, "-I", PROGRAM, Path(assets).absolute()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        found = self._answer().get("version")
        if found != VERSION:
            self.close()
            raise InputError(f"{PYTHON} has Blender {found}, not {VERSION}; run `make blender`")

    def close(self) -> None:
        with suppress(BrokenPipeError), self._blender:  # closes the pipes and waits
            self._log.close()

    def draw(self, scene_job: dict[str, Any]) -> np.ndarray:
        """Return the image of a job, (height, width, 3) uint8. Raises InputError with Blender's own words."""
        with tempfile.TemporaryDirectory(prefix="blender-") as folder:
            # Blender writes times and paths into the file; the lab keeps the pixels only
            file = Path(folder) / "image.png"
            self._ask(scene_job | {"file": str(file)})
            with Image.open(file) as image:
                return np.asarray(image.convert("RGB"))

    def _ask(self, scene_job: dict[str, Any]) -> None:
        assert self._blender.stdin is not None
        try:
            print(json.dumps(scene_job), file=self._blender.stdin, flush=True)
        except BrokenPipeError:
            self._answer()
        if error := self._answer().get("error"):
            raise InputError(f"Blender cannot draw a scene: {error}")

    def _answer(self) -> dict[str, Any]:
        assert self._blender.stdout is not None
        line = self._blender.stdout.readline()
        if not line:
            code = self._blender.wait()
            self._log.seek(0)
            last = (self._log.read().strip().splitlines() or ["no message"])[-1]
            self.close()
            raise InputError(f"Blender ended with exit code {code} ({last}); try `make blender`")
        answer: dict[str, Any] = json.loads(line)
        return answer
