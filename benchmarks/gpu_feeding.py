"""What goes into a GPU and comes out of it: batches from a store, images, captions."""

import io
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from benchmarks import decoding, extraction, pictures, reading, reference, training
from benchmarks.alone import shown
from benchmarks.gpu_found import Found, Size, median
from benchmarks.training import CHANNELS, LONGEST, Case
from models.captioner import Captioner
from pipeline.compute import devices
from pipeline.datasets.images import Indexed
from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.decoding.beam_search import beam_search
from pipeline.features import memory_cache
from pipeline.features.extraction import BATCH
from pipeline.features.extraction import batches as image_batches
from pipeline.features.memory_cache import Resident
from pipeline.features.store import FeatureStore
from pipeline.training.sampling import Sampler, training_batches
from pipeline.vocabularies import WordVocabulary

TEN_THOUSAND = 10_000
SAME = 0.9  # of greedy captions: of words that are equally likely but for rounding either may be said
WORDS = [f"word{number}" for number in range(72)]


def iterations(size: Size) -> Iterator[Found]:
    """Training fed from a store of made-up features: as Training.run does, without validation."""
    case = Case(size.model, "per_head", size.scenes, size.grid)
    with tempfile.TemporaryDirectory() as folder:
        store = _store(Path(folder), 3 * size.stored, case.grid)
        pairs = [pair for scene in range(size.stored) for pair in _scene(scene)]
        keys = [str(row) for row in range(3 * size.stored)]
        for name, source in (
            ("store", store),
            ("device", memory_cache.held(store, keys, "device", devices.device())),
        ):
            seconds = _fed(case, pairs, source, size.iterations) * TEN_THOUSAND / size.iterations
            what = f"{TEN_THOUSAND:,} iterations of {case.scenes} scenes from the {name}"
            said = f"{seconds / 60:.1f} minutes, extrapolated from {size.iterations}"
            reached = seconds <= 600
            yield Found(what, said, goal="≤ 10 minutes", reached=reached, numbers={"seconds": seconds})


def _store(folder: Path, images: int, grid: int) -> FeatureStore:
    grids = np.random.default_rng(0).standard_normal((images, CHANNELS, grid, grid), np.float32)
    return reading.write(folder / "s.zarr", grids.astype(np.float16))[0]


def _scene(number: int) -> tuple[Pair, Pair]:
    """A change and a distractor; captions of tabletop's lengths."""
    random = np.random.default_rng(number)
    default, changed, distractor = (str(3 * number + image) for image in range(3))
    said = [" ".join(random.choice(WORDS, random.integers(4, LONGEST - 2))) for _ in range(2)]
    scene = f"{number}", "train", default
    return (
        Pair(f"{number}", *scene, changed, (said[0],), "color"),
        Pair(f"{number}_n", *scene, distractor, (said[1],), NO_CHANGE),
    )


def _fed(case: Case, pairs: list[Pair], source: FeatureStore | Resident, iterations: int) -> float:
    """Seconds of so many iterations after five to warm up."""
    run = training.ours(case, "auto")
    sampler, vocabulary = Sampler(pairs, case.scenes, 1, True), _vocabulary()
    start, logged = 0.0, list[torch.Tensor]()
    todo = range(5 + iterations)
    for iteration, batch in zip(todo, training_batches(sampler, source, vocabulary, todo), strict=True):
        if iteration == 5:
            training.finished(lambda: None)()
            start = time.perf_counter()
        logged.append(run.step(batch, iteration))
        if len(logged) == 10:
            torch.stack(logged).cpu()
            logged = []
    training.finished(lambda: None)()
    return time.perf_counter() - start


def _vocabulary() -> WordVocabulary:
    return WordVocabulary(("<NULL>", "<UNK>", "<START>", "<END>", *WORDS), LONGEST, True)


def extracted(size: Size) -> Iterator[Found]:
    """PNG and JPEG files of 480 x 320 into a store, by all blocks of ResNet-101 to layer3, and each half."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "raw"
        png = pictures.render(root, size.rendered)
        for kind, index in (("PNG", png), ("JPEG", [_as_jpeg(image, root) for image in png])):
            images = (index * (-(-size.images // len(index))))[: size.images]
            extractor = pictures.extractor(root, images)
            whole = _rate(size.images, partial(extraction.into_store, Path(folder) / "scratch", extractor))
            decoded = _rate(size.images, partial(_decoded, root, images))
            said = f"{whole:,.0f} images/s; decoding and resizing alone {decoded:,.0f}"
            numbers = {"images/s": whole, "decoder": decoded, "cores": os.cpu_count()}
            yield Found(
                f"{kind} files to a store, {size.images:,} images", said, goal="≥ 2,000 images/s",
                reached=whole >= 2000, numbers=numbers,
            )  # fmt: skip
        ready = torch.randint(0, 256, (BATCH, 3, pictures.SPEC.size, pictures.SPEC.size), dtype=torch.uint8)
        seconds = median(torch.inference_mode()(partial(extractor.network, ready.to(extractor.device))))
        yield Found(f"the network alone, batches of {BATCH}", f"{BATCH / seconds:,.0f} images/s")


def _as_jpeg(image: Indexed, root: Path) -> Indexed:
    beside = io.BytesIO()
    Image.open(root / image.name).convert("RGB").save(beside, "JPEG", quality=95)
    path = (root / image.name).with_suffix(".jpg")
    path.write_bytes(beside.getvalue())
    return pictures.indexed(path, root, (image.width, image.height))


def _rate(images: int, function: Callable[[], object]) -> float:
    return images / median(function, calls=2, seconds=15)


def _decoded(root: Path, images: list[Indexed]) -> None:
    for _ in image_batches(root, images, pictures.SPEC):
        pass


def decoded(size: Size) -> Iterator[Found]:
    """Greedy and beam search of many pairs, beside one pair at a time without cached keys and values."""
    captioner, memory = decoding.model(decoding.ENDS[0]), decoding.memories(size.pairs)
    few = memory[: size.alone]
    both = (decoding.bound(side, captioner, few)() for side in (decoding.ours, reference.one_at_a_time))
    same = sum(one == other for one, other in zip(*both, strict=True)) / size.alone
    assert same >= SAME, same
    theirs = median(decoding.bound(reference.one_at_a_time, captioner, few), calls=1) / size.alone
    searches = {"greedy": decoding.ours, "beam 3": _beam}
    for name, search in searches.items():
        seconds = median(decoding.bound(search, captioner, memory), calls=3) / size.pairs
        ratio = theirs / seconds
        yield Found(
            f"{name}, {size.pairs:,} pairs, a pair",
            shown(seconds), f"{shown(theirs)}, of {size.alone} pairs",
            f"{ratio:.1f}×", "≥ 10×", ratio >= 10,
            {"ours": seconds, "reference": theirs, "same captions": same},
        )  # fmt: skip


def _beam(captioner: Captioner, memory: torch.Tensor) -> list[torch.Tensor]:
    parts = map(reference.of_memory, memory.split(decoding.BATCH))
    return [beam_search(captioner, part, 3) for part in parts]


def batches(size: Size) -> Iterator[Found]:
    """Random batches into the device's memory, in float32 there, beside one float32 .npy an image."""
    images, device = 3 * size.stored, devices.device()
    with tempfile.TemporaryDirectory() as folder:
        store, files, _ = reading.sides(Path(folder), images)
        rows = np.random.default_rng(1).choice(images, min(images, size.read), replace=False)

        def onto(read: reading.Reader) -> torch.Tensor:
            found = torch.from_numpy(read(rows))
            pinned = found.pin_memory() if device.type == "cuda" else found
            return pinned.to(device, non_blocking=True).float()

        assert torch.equal(onto(store), onto(files))
        mine, theirs = median(partial(onto, store)), median(partial(onto, files))
        ratio = theirs / mine
        yield Found(
            f"{len(rows)} random images into the device's memory",
            shown(mine), f"{shown(theirs)}, .npy files",
            f"{ratio:.1f}×", "≥ 2×", ratio >= 2, {"ours": mine, "reference": theirs},
        )  # fmt: skip
