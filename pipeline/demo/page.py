"""The demo's page: its controls and their events, built with Gradio, and a guard against other web pages."""

import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import gradio as gr
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from pipeline.captioning.judging import PairImages
from pipeline.captioning.pair_captioner import ALL, Limits, PairCaptioner
from pipeline.config.params import Tabletop, Viewpoint
from pipeline.demo import drawn_scenes, pair_html
from pipeline.demo.drawn_scenes import KINDS, VIEWPOINTS
from pipeline.io.errors import InputError

THEME = gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["monospace"])  # system fonts
INTRODUCTION = """# What changed?
Small models of this laboratory describe the change between two images. They were trained on {scenes} rendered
scenes. A calibrated model states the probability that its caption is correct, and refuses images unlike its
training images. For a rendered scene the change is known: each caption is marked true or false, and wrong
words are underlined.
"""
LOCAL = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?", re.IGNORECASE)


class Guard:
    """ASGI middleware that refuses requests that come from other web pages, with status 403.

    Any web page in the user's browser may send requests to 127.0.0.1. The header Origin reveals such a
    page. The header Host reveals a page whose name resolves to 127.0.0.1 (DNS rebinding).
    """

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            headers = Headers(scope=scope)
            host, origin = headers.get("host", ""), headers.get("origin")
            if not LOCAL.fullmatch(host) or (origin and origin.lower() != f"http://{host.lower()}"):
                refusal = "this page answers only its own requests, at 127.0.0.1 or localhost\n"
                await PlainTextResponse(refusal, 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class Events:
    """Handlers of the page's buttons. Each handler returns the answer as HTML."""

    def __init__(self, captioners: Mapping[str, PairCaptioner], settings: Tabletop, limits: Limits = ALL):
        self.captioners, self.settings, self.limits = captioners, settings, limits
        self.numbers = random.SystemRandom()

    def scene(self, kind: str, viewpoint: Viewpoint) -> str:
        """Render a new scene and return its captions as HTML; `kind`: one of drawn_scenes.KINDS."""
        number = self.numbers.randrange(10**6)
        return self._answered(lambda: drawn_scenes.draw(self.settings, kind, viewpoint, number))

    def uploaded(self, before: str | None, after: str | None) -> str:
        """Caption two uploaded image files. Return HTML: the captions, or a message if one is missing."""
        if not before or not after:
            return pair_html.refusal(InputError("Choose a before and an after image first"))
        return self._answered(lambda: PairImages(Path(before), Path(after), None))

    def _answered(self, pair: Callable[[], PairImages]) -> str:
        try:
            return pair_html.answer(self.captioners, pair(), self.limits)
        except InputError as error:
            return pair_html.refusal(error)


def page(captioners: Mapping[str, PairCaptioner], settings: Tabletop, limits: Limits = ALL) -> gr.Blocks:
    """Build the page, which first shows a new scene; `limits`: conditions under which a caption is shown."""
    events = Events(captioners, settings, limits)
    with gr.Blocks(title="What changed?", analytics_enabled=False) as blocks:
        gr.Markdown(INTRODUCTION.format(scenes=settings.scenes))
        with gr.Tab("A new scene"), gr.Row():
            kind = gr.Dropdown(list(KINDS), value="color", label="What changes")
            viewpoint = gr.Radio([*VIEWPOINTS.items()], value="moderate", label="How the camera moves")
            render = gr.Button("Render a new scene", variant="primary", elem_id="lab-render")
        with gr.Tab("Your two images"), gr.Row():
            before = gr.File(label="before", type="filepath", height=120, elem_id="lab-before")
            after = gr.File(label="after", type="filepath", height=120, elem_id="lab-after")
            upload = gr.Button("Say what changed", variant="primary", elem_id="lab-upload")
        answer = gr.HTML(events.scene("color", "moderate"), elem_id="lab-said")
        handlers = ((render, events.scene, [kind, viewpoint]), (upload, events.uploaded, [before, after]))
        for button, handler, inputs in handlers:
            # one at a time: Numba's threads do not support several callers
            button.click(
                handler, inputs, answer, concurrency_limit=1, concurrency_id="lab", api_visibility="private"
            )
    return blocks
