"""Build the demo's page with Gradio: its controls and their events."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import gradio as gr

from pipeline.captioning.picture_captioner import ALL, Limits, PictureCaptioner
from pipeline.config.params import Tabletop, Viewpoint
from pipeline.demo import drawn_scenes, pair_html
from pipeline.demo.drawn_scenes import KINDS, VIEWPOINTS, Drawn
from pipeline.io.errors import InputError

THEME = gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["monospace"])  # system fonts
INTRODUCTION = """# What changed?
Small models of this laboratory describe the change between two images. They were trained on {scenes} rendered
scenes. A calibrated model states the probability that its caption is correct, and refuses images unlike its
training images. For a rendered scene the change is known: each caption is marked true or false, and wrong
words are underlined.
"""
Answered = tuple[Drawn | None, str]


class Events:
    """Handlers of the page's buttons. Each handler returns the pair that is shown, and the answer as HTML."""

    def __init__(self, captioners: Mapping[str, PictureCaptioner], settings: Tabletop, limits: Limits = ALL):
        self.limits, self.captioners, self.settings, self.numbers = (
            limits,
            captioners,
            settings,
            random.SystemRandom(),
        )

    def scene(self, kind: str, viewpoint: Viewpoint) -> Answered:
        """Render a new scene with this kind of change, and caption it."""
        number = self.numbers.randrange(10**6)
        return self._answered(lambda: drawn_scenes.draw(self.settings, kind, viewpoint, number))

    def uploaded(self, before: str | None, after: str | None) -> Answered:
        """Caption two uploaded images. The files count against the quota of uploads."""
        if not before or not after:
            return None, pair_html.refusal(InputError("Choose a before and an after image first"))
        return self._answered(lambda: Drawn(Path(before), Path(after), None))

    def swapped(self, shown: Drawn | None) -> Answered:
        """Swap the before and after images, and caption them. The truth of these captions is not checked."""
        if shown is None:
            return None, pair_html.refusal(InputError("There is no pair to swap yet"))
        return self._answered(lambda: Drawn(shown.after, shown.before, None))

    def _answered(self, pair: Callable[[], Drawn]) -> Answered:
        try:
            found = pair()
            return found, pair_html.answer(self.captioners, found, self.limits)
        except InputError as error:
            return None, pair_html.refusal(error)


def page(captioners: Mapping[str, PictureCaptioner], settings: Tabletop, limits: Limits = ALL) -> gr.Blocks:
    """Build the page, which first shows a new scene."""
    events = Events(captioners, settings, limits)
    first, html = events.scene("color", "moderate")
    with gr.Blocks(title="What changed?", analytics_enabled=False) as blocks:
        gr.Markdown(INTRODUCTION.format(scenes=settings.scenes))
        shown = gr.State(first)
        with gr.Tab("A new scene"), gr.Row():
            kind = gr.Dropdown(list(KINDS), value="color", label="What changes")
            viewpoint = gr.Radio([*VIEWPOINTS.items()], value="moderate", label="How the camera moves")
            render = gr.Button("Render a new scene", variant="primary", elem_id="lab-render")
        with gr.Tab("Your two pictures"), gr.Row():
            before = gr.File(label="before", type="filepath", height=120, elem_id="lab-before")
            after = gr.File(label="after", type="filepath", height=120, elem_id="lab-after")
            upload = gr.Button("Say what changed", variant="primary", elem_id="lab-upload")
        swap = gr.Button("Swap before and after", size="sm", elem_id="lab-swap")
        said = gr.HTML(html, elem_id="lab-said")
        for button, happens, inputs in (
            (render, events.scene, [kind, viewpoint]),
            (upload, events.uploaded, [before, after]),
            (swap, events.swapped, [shown]),
        ):
            # one at a time: Numba's threads do not support several callers
            button.click(
                happens,
                inputs,
                [shown, said],
                concurrency_limit=1,
                concurrency_id="lab",
                api_visibility="private",
            )
    return blocks
