"""A page in your browser: scenes drawn while you wait, or your two pictures, captioned by small models.

python -m commands.demo                                   the weights in demo/
python -m commands.demo --weights mine.zip data/weights/tabletop/scorer_cbr/1

It listens on 127.0.0.1 alone, and answers no other page. Pictures never leave this machine, and uploads
are gone at the end (Ctrl-C, SIGTERM, or a closed terminal).
"""

import argparse
import os
import re
import sys
import tempfile
import threading
from pathlib import Path

from commands import run
from pipeline.captioning import feature_backbone, sources
from pipeline.captioning.picture_captioner import PictureCaptioner
from pipeline.cli.arguments import PORTS, parsed, to_read, whole
from pipeline.compute import devices
from pipeline.config import params
from pipeline.config.params import Tabletop
from pipeline.demo import pair_html
from pipeline.io.errors import InputError
from pipeline.io.records import plain

MOST_PIXELS = 1 << 20  # of a drawn picture, where a package says how large it is
WEIGHTS = (Path("demo/scorer_cbr"),)
SESSIONS = 200  # whose last answer is kept; Gradio would keep 10,000
# Gradio asks its own page whether it is there, by a client that reads these
MISLEADING = re.compile(r".*_proxy|gradio_.*|uvicorn_.*|ssl_cert_(file|dir)|sslkeylogfile", re.IGNORECASE)
# Gradio asks nobody anything, and brings nothing from anywhere
QUIET = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m commands.demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--weights", type=to_read, nargs="+", default=WEIGHTS, help="packages, or trained weights"
    )
    parser.add_argument(
        "--lab", type=to_read, default=Path(), help="the repository that trained weights belong to"
    )
    parser.add_argument(
        "--port", type=whole(*PORTS), help="the first free one from 7860 on where it is not given"
    )
    parser.add_argument("--no-browser", action="store_true", help="only say the address")
    arguments = parsed(parser)
    devices.repeatable()
    print("loading the models and drawing a first scene", file=sys.stderr)
    captioners = loaded(arguments.weights, arguments.lab)
    with tempfile.TemporaryDirectory(prefix="uploads-") as uploads:
        for name in filter(MISLEADING.fullmatch, list(os.environ)):
            del os.environ[name]
        os.environ.update(QUIET | {"GRADIO_TEMP_DIR": uploads})
        drawn = settings(captioners, arguments.lab)
        serve(captioners, drawn, Path(uploads), arguments.port, not arguments.no_browser)


def loaded(places: list[Path], lab: Path) -> dict[str, PictureCaptioner]:
    """The captioners by a name of each."""
    found: dict[str, PictureCaptioner] = {}
    for place in places:
        captioner = PictureCaptioner.load(place, lab)
        name = f"{captioner.trained.recipe.model}, seed {captioner.trained.seed}"
        found[name if name not in found else f"{name} ({place})"] = captioner
    return found


def settings(captioners: dict[str, PictureCaptioner], lab: Path) -> Tabletop:
    """Of scenes like those that a model was trained on; of weights that are no package, the laboratory's.

    Raises InputError where none was trained on drawn ones.
    """
    for captioner in captioners.values():
        if captioner.scores and captioner.scores.get("rendered"):
            kind = Tabletop
            drawn = plain(Path(sources.SCORES), kind, captioner.scores["rendered"], feature_backbone.REMEDY)
            if drawn.width * drawn.height > MOST_PIXELS:
                raise InputError(
                    f"{sources.SCORES}: rendered: pictures of {drawn.width} x {drawn.height} pixels take "
                    f"minutes to draw; {feature_backbone.REMEDY}"
                )
            return drawn
    rendered = params.load(lab / "params.yaml").tabletop if (lab / "params.yaml").is_file() else None
    for captioner in captioners.values():
        dataset = captioner.trained.recipe.dataset
        if captioner.scores is None and rendered and dataset in rendered.viewpoint:
            return rendered.of(dataset)
    raise InputError("no model here was trained on drawn scenes; add --weights demo/scorer_cbr to the others")


def serve(
    captioners: dict[str, PictureCaptioner], drawn: Tabletop, uploads: Path, port: int | None, browser: bool
) -> None:
    """Until it is stopped. Raises InputError where the port is taken, or the page does not start."""
    # Gradio reads the environment when it is imported, in seconds
    from pipeline.demo import guard, page

    blocks = page.page(captioners, drawn)
    try:
        _, address, _ = blocks.launch(
            server_name="127.0.0.1",
            server_port=port,
            inbrowser=browser,
            share=False,
            prevent_thread_lock=True,
            quiet=True,
            max_file_size=pair_html.LARGEST,
            ssr_mode=False,
            pwa=False,
            mcp_server=False,
            app_kwargs={"lifespan": guard.guarded(uploads)},
            footer_links=[],
            state_session_capacity=SESSIONS,
            theme=page.THEME,
            css=pair_html.CSS,
            head=pair_html.HEAD,
        )
    except OSError as error:
        raise InputError(
            f"port {port or 'from 7860 on'} cannot be had ({error}); name another --port"
        ) from None
    except Exception as error:  # Gradio's are of any kind
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise InputError(
            f"the page does not start ({reason}); "
            "try `env -i PATH=$PATH python -m commands.demo`, without the "
            "environment's other variables"
        ) from None
    print(f"open {address} in your browser; Ctrl-C ends it", flush=True)
    try:
        threading.Event().wait()
    finally:
        blocks.close(verbose=False)


if __name__ == "__main__":
    run(main)
