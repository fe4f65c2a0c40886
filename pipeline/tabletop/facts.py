"""What a drawn scene's pair shows, as the schema of pairs has it; scenes.json says the same."""

from pipeline.datasets.schema import Placed, SceneFacts
from pipeline.tabletop.scenes import Scene, Thing


def facts(scene: Scene, changed: bool) -> SceneFacts:
    """Of the pair with the change, or of the one where nothing but the view changes."""
    after, view = (scene.after, scene.semantic) if changed else (scene.before, scene.nonsemantic)
    return SceneFacts(
        before=_placed(scene.before),
        after=_placed(after),
        before_camera=scene.default.camera,
        after_camera=view.camera,
        changed=scene.changed if changed else None,
    )


def _placed(things: tuple[Thing, ...]) -> tuple[Placed, ...]:
    return tuple(Placed(thing.number, *thing.look, thing.x, thing.y) for thing in things)
