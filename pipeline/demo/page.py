"""The page itself, made with Gradio: what there is to press, and what happens then."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import gradio as gr

from pipeline.captioning.picture_captioner import PictureCaptioner
from pipeline.config.params import Tabletop, Viewpoint
from pipeline.demo import drawn_scenes, pair_html
from pipeline.demo.drawn_scenes import KINDS, VIEWPOINTS, Drawn
from pipeline.io.errors import InputError

THEME = gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["monospace"])  # those of the machine
INTRODUCTION = """# What changed?
Small models of this laboratory say what changed between two pictures. They were trained on
{scenes} drawn scenes: of pictures of another kind they say something just as surely, and it means nothing.
Of a drawn scene it is known what happened: each caption is marked true or not, with the words that are wrong.
"""
Answered = tuple[Drawn | None, str]


class Events:
    """What the page's buttons do: each gives the pair that is now shown, and the answer to it."""

    def __init__(self, captioners: Mapping[str, PictureCaptioner], settings: Tabletop):
        self.captioners, self.settings, self.numbers = captioners, settings, random.SystemRandom()

    def scene(self, kind: str, viewpoint: Viewpoint) -> Answered:
        """A new scene of that kind."""
        number = self.numbers.randrange(10**6)
        return self._answered(lambda: drawn_scenes.draw(self.settings, kind, viewpoint, number))

    def uploaded(self, before: str | None, after: str | None) -> Answered:
        """Two pictures of the visitor's, by their files: what is kept of them counts against the quota."""
        if not before or not after:
            return None, pair_html.refusal(InputError("Choose a before and an after picture first"))
        return self._answered(lambda: Drawn(Path(before), Path(after), None))

    def swapped(self, shown: Drawn | None) -> Answered:
        """The same pair the other way round; of which nothing is known to be true."""
        if shown is None:
            return None, pair_html.refusal(InputError("There is no pair to swap yet"))
        return self._answered(lambda: Drawn(shown.after, shown.before, None))

    def _answered(self, pair: Callable[[], Drawn]) -> Answered:
        try:
            found = pair()
            return found, pair_html.answer(self.captioners, found)
        except InputError as error:
            return None, pair_html.refusal(error)


def page(captioners: Mapping[str, PictureCaptioner], settings: Tabletop) -> gr.Blocks:
    """The page, with a first scene on it."""
    events = Events(captioners, settings)
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
            # one at a time: Numba's threads are not made for several callers
            button.click(
                happens,
                inputs,
                [shown, said],
                concurrency_limit=1,
                concurrency_id="lab",
                api_visibility="private",
            )
    return blocks
