"""Open a page in your browser, where small models caption newly rendered scenes or two images of your own.

python -m commands.demo                                   the weights in demo/
python -m commands.demo --weights mine.zip data/weights/tabletop/scorer_cbr/1

The server listens only on 127.0.0.1, and refuses requests that other web pages send. Images never leave this
machine, and uploads are deleted at the end (Ctrl-C, SIGTERM, or a closed terminal).
"""

import os
import re
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from commands import run
from pipeline.cli.arguments import PORTS, check_exist, new_parser, parsed, probability, to_read, whole
from pipeline.config import params
from pipeline.config.params import Tabletop
from pipeline.io.errors import InputError
from pipeline.io.records import plain

if TYPE_CHECKING:
    from pipeline.captioning.pair_captioner import Limits, PairCaptioner

    Captioners = dict[str, PairCaptioner]  # name -> captioner

WEIGHTS = (Path("demo/clip4idc"),)
# Gradio requests its own page to check that the server works; these variables would mislead its HTTP client
MISLEADING = re.compile(r".*_proxy|gradio_.*|uvicorn_.*|ssl_cert_(file|dir)|sslkeylogfile", re.IGNORECASE)
OFF: dict[str, Any] = {"share": False, "ssr_mode": False, "pwa": False, "mcp_server": False, "quiet": True}
# Gradio must not contact other servers
QUIET = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def main() -> None:
    parser = new_parser("python -m commands.demo", __doc__)
    add = parser.add_argument
    add("--weights", type=to_read, nargs="+", default=WEIGHTS, help="packages, or trained weights")
    add("--lab", type=to_read, default=Path(), help="the repository that the trained weights belong to")
    add("--at-least", type=probability, default=0.0, metavar="P", help="as in commands.caption")
    add("--port", type=whole(*PORTS), help="default: the first free port from 7860 on")
    add("--no-browser", action="store_true", help="only print the address")
    arguments = parsed(parser)
    check_exist(arguments.weights, "name a folder of weights or a package, such as demo/clip4idc")
    # imported late: the import takes seconds, and the arguments are checked first
    from pipeline.captioning.pair_captioner import Limits, Search
    from pipeline.compute import devices

    devices.repeatable()
    print("loading the models and rendering a first scene", file=sys.stderr)
    captioners = load_captioners(arguments.weights, arguments.lab)
    limits = Limits(arguments.at_least)
    for captioner in captioners.values():
        captioner.check_limits(Search(), limits)
    drawn = scene_settings(captioners, arguments.lab)
    with tempfile.TemporaryDirectory(prefix="uploads-") as uploads:
        for name in filter(MISLEADING.fullmatch, list(os.environ)):
            del os.environ[name]
        os.environ.update(QUIET | {"GRADIO_TEMP_DIR": uploads})
        serve(captioners, drawn, arguments.port, not arguments.no_browser, limits)


def load_captioners(paths: list[Path], lab: Path) -> "dict[str, PairCaptioner]":
    """Load a captioner for each package or folder of weights in `paths`. Return name -> captioner.

    A name is "MODEL, seed SEED", and also has the path in brackets if an earlier captioner has this
    name. `lab` is the root of the repository.
    """
    from pipeline.captioning import PairCaptioner

    captioners: dict[str, PairCaptioner] = {}
    for path in paths:
        captioner = PairCaptioner.load(path, lab)
        name = f"{captioner.trained.recipe.model}, seed {captioner.trained.seed}"
        captioners[name if name not in captioners else f"{name} ({path})"] = captioner
    return captioners


def scene_settings(captioners: "Captioners", lab: Path) -> Tabletop:
    """Return settings for rendering scenes like the training scenes of one of the models.

    The settings come from a model's package, or else from params.yaml of the laboratory. Raises InputError if
    no model was trained on rendered scenes.
    """
    from pipeline.captioning import feature_backbone, sources

    kind = Tabletop
    for captioner in captioners.values():
        if captioner.scores and captioner.scores.get("rendered"):
            return plain(Path(sources.SCORES), kind, captioner.scores["rendered"], feature_backbone.REMEDY)
    rendered = params.load(lab / "params.yaml").tabletop if (lab / "params.yaml").is_file() else None
    for captioner in captioners.values():
        dataset = captioner.trained.recipe.dataset
        if captioner.scores is None and rendered and dataset in rendered.viewpoint:
            return rendered.of(dataset)
    raise InputError("no model here was trained on rendered scenes; add demo/clip4idc to --weights")


def serve(
    captioners: "Captioners", drawn: Tabletop, port: int | None, opens_browser: bool, limits: "Limits"
) -> None:
    """Serve the page until the user stops it. Raises InputError if the port is taken.

    drawn: settings for rendering the page's scenes
    port: None for the first free port from 7860 on
    """
    # imported late: Gradio reads the environment on import, and importing takes seconds
    from starlette.middleware import Middleware

    from pipeline.demo import page, pair_html

    blocks = page.page(captioners, drawn, limits)
    look: dict[str, Any] = {"theme": page.THEME, "css": pair_html.CSS, "head": pair_html.HEAD}
    try:
        _, address, _ = blocks.launch(
            server_name="127.0.0.1",
            server_port=port,
            inbrowser=opens_browser,
            prevent_thread_lock=True,
            max_file_size=pair_html.LARGEST,
            app_kwargs={"middleware": [Middleware(page.Guard)]},
            footer_links=[],
            **look,
            **OFF,
        )
    except OSError as error:
        raise InputError(f"port {port or 'from 7860 on'} is taken ({error}); name another --port") from None
    print(f"open {address} in your browser; Ctrl-C stops the demo", flush=True)
    try:
        threading.Event().wait()
    finally:
        blocks.close(verbose=False)


if __name__ == "__main__":
    run(main)
