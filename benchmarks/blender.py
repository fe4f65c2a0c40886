"""Measure the look blender: time per image against Blender's default denoiser, and what few rays cost.

    python -m benchmarks blender --assets FOLDER [--scenes 6] [--exact 2]

Each scene is drawn in turn with the reference settings (16 rays per pixel, the denoiser's default settings)
and with ours, by one process with one thread. --exact N draws N of the scenes with 512 rays and without
denoiser, as CLEVR did, with two seeds (minutes per image). The table then has the distance of an image to the
first of the two: PSNR, and the relative distance of the features of demo/clip4idc. The second of the two is
in the last row: a distance below it is no more than CLEVR's own noise.
"""

import argparse
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.captioning.pair_captioner import PairCaptioner
from pipeline.cli.arguments import parsed, to_read, whole
from pipeline.config import params
from pipeline.tabletop import blender, scene_sampling

REFERENCE = {"samples": 16, "grain": 0.0, "prefilter": "ACCURATE", "quality": "HIGH"}
OURS: dict[str, Any] = {}  # the settings of blender.py
EXACT = {"samples": 512, "grain": 1.0}  # all noise is kept
SETTINGS = {
    "look": "blender",
    "width": 480,
    "height": 320,
    "max_objects": 10,
    "viewpoint": "clevr_change",
    "twins": True,
    "seed": 909,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--assets", type=to_read, required=True, help="the folder of CLEVR's files")
    parser.add_argument("--scenes", type=whole(1, 1000), default=6)
    parser.add_argument("--exact", type=whole(0, 1000), default=0, help="scenes to draw with 512 rays, too")
    arguments = parsed(parser)
    assets = str(arguments.assets)
    blender.check(assets)
    jobs = scene_jobs(arguments.scenes)
    drawer = blender.process(assets)
    times: dict[str, list[float]] = {"reference": [], "ours": []}
    images: dict[str, list[np.ndarray]] = {"reference": [], "ours": []}
    for job in jobs:
        for name, own in (("reference", REFERENCE), ("ours", OURS)):
            start = time.perf_counter()
            images[name].append(drawer.draw(job | own))
            times[name].append(time.perf_counter() - start)
    for name, seconds in times.items():
        print(f"{name}: {np.median(seconds):.2f} s per image (median of {len(seconds)})")
    ratios = [slow / fast for slow, fast in zip(times["reference"], times["ours"], strict=True)]
    print(f"ratio, scene by scene: {np.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    if arguments.exact:
        exact = [
            [drawer.draw(job | EXACT | {"seed": seed}) for seed in (0, 1)] for job in jobs[: arguments.exact]
        ]
        show_distances(images, exact)
    drawer.close()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"peak memory of Blender after {2 * len(jobs)} images: {peak:.0f} MiB")


def scene_jobs(count: int) -> list[dict[str, Any]]:
    """Return jobs for the first images of `count` scenes."""
    settings = params.load().tabletop.of("tabletop").model_copy(update=SETTINGS)
    jobs = []
    for number in range(count):
        scene = scene_sampling.sample(settings, number, scene_sampling.generator(settings.seed, number))
        jobs.append(blender.job(scene.before, scene.default, settings.width, settings.height))
    return jobs


def show_distances(images: dict[str, list[np.ndarray]], exact: list[list[np.ndarray]]) -> None:
    """Print the distances of images to the first of two exact images of each scene."""
    features = PairCaptioner.load(Path("demo/clip4idc"), Path()).features

    def grid(image: np.ndarray) -> np.ndarray:
        return features.grids([features.squashed(image)], ["an image"]).float().cpu().numpy()

    others = images | {"512 rays, another seed": [second for _, second in exact]}
    for name, drawn in others.items():
        pairs = [(image, first) for image, (first, _) in zip(drawn, exact, strict=False)]
        psnr = [10 * np.log10(255**2 / np.mean((a.astype(float) - b) ** 2)) for a, b in pairs]
        grids = [(grid(a), grid(b)) for a, b in pairs]
        distance = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in grids]
        print(f"{name}: PSNR {np.mean(psnr):.1f} dB, features {np.mean(distance):.4f}")
