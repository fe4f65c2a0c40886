"""Download the small packages that a machine with a GPU lacks.

    python -m benchmarks wheels --out DIR [--python 3.12]

These are the packages that the pipeline imports, except for packages that the machine already has (THERE).
They are downloaded in the versions of requirements.lock and unpacked into DIR/site, a folder for PYTHONPATH.
So the machine needs neither a package index nor pip.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

WANTED = ("pydantic", "ruamel-yaml", "zarr", "numcodecs", "ftfy", "ruamel-yaml-clib", "psutil")
THERE = {  # packages that the machine has, in some version
    *("numpy", "scipy", "torch", "torchvision", "numba", "timm", "tokenizers", "regex", "safetensors"),
    *("tensorstore", "pillow", "opencv-python-headless", "pyyaml", "rich"),
}
MOST = 40 * 2**20  # largest size of all wheels in bytes
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any")
LOCK = Path(__file__).resolve().parent.parent / "requirements.lock"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+?)(?: ; ([^\\]+?))? ?\\?$", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks wheels", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--out", type=Path, required=True, help="folder in which site/ is written")
    parser.add_argument("--python", default="3.12", help="Python version of the machine (default: 3.12)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheels = collect(arguments.python, Path(folder))
        size = sum(wheel.stat().st_size for wheel in wheels)
        for wheel in wheels:
            print(f"{wheel.stat().st_size / 2**20:6.2f} MiB  {wheel.name}")
            with zipfile.ZipFile(wheel) as packed:
                packed.extractall(arguments.out / "site")
    if size > MOST:
        sys.exit(f"error: {size / 2**20:.1f} MiB of wheels are more than {MOST / 2**20:.0f}")
    unpacked = sum(path.stat().st_size for path in (arguments.out / "site").rglob("*") if path.is_file())
    print(f"{size / 2**20:6.2f} MiB  together, {unpacked / 2**20:.1f} MiB in {arguments.out / 'site'}")


def environment(python: str) -> dict[str, str]:
    """Return the machine's values of environment markers (sys_platform, ...) for a Python version."""
    found = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    return found | {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"}


def locked(python: str) -> dict[str, str]:
    """Return package -> version in requirements.lock, for a Python version."""
    return {
        canonicalize_name(name): version
        for name, version, marker in PIN.findall(LOCK.read_text(encoding="utf-8"))
        if not marker or Marker(marker).evaluate(environment(python))
    }


def collect(python: str, folder: Path) -> list[Path]:
    """Download the wheels of WANTED and of their dependencies, except those in THERE; return their paths."""
    pins, found, waiting = locked(python), dict[str, Path](), list(WANTED)
    while waiting:
        if (name := canonicalize_name(waiting.pop())) not in {*found, *THERE}:
            found[name] = download(f"{name}=={pins[name]}", python, folder / name)
            waiting += needed(found[name], python)
    return sorted(found.values())


def needed(wheel: Path, python: str) -> list[str]:
    """Return the names of the packages that a wheel requires on the machine."""
    with zipfile.ZipFile(wheel) as packed:
        (file,) = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
        said = HeaderParser().parsestr(packed.read(file).decode()).get_all("Requires-Dist") or []
    wanted = [Requirement(text) for text in said]
    return [x.name for x in wanted if not x.marker or x.marker.evaluate(environment(python))]


def download(pinned: str, python: str, folder: Path) -> Path:
    """Download the wheel of a package, `NAME==VERSION`, for a Python version; return its path."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    options = ["--no-deps", "--only-binary", ":all:", "--python-version", python, *platforms]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *options, "--dest", str(folder), pinned]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel
