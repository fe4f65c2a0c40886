"""The program that draws scenes with Blender. It runs in Blender's own Python environment, not in the lab's.

blender.py starts it, and exchanges files and lines with it. The first line of standard output is
{"version": Blender's version}. Each line of standard input is a job (JSON), and is answered by a line: {}
when the job's file is written, or {"error": a sentence}. A job:

    objects   list of {shape, material, color: sRGB bytes, x, y, radius, rotation: radians about z}
    camera, lights   positions; the camera looks at the origin
    width, height, file   the image to write, a PNG
    samples, seed, prefilter, quality   rays per pixel, seed of the noise, and settings of the denoiser
    grain   share of the removed noise that is put back; 1: the image without denoiser
    numbers   optional: a .npy file to write, (height, width) uint8: the object of each pixel, from 1; 0: none

bpy needs NumPy below 2 and Python 3.11, which the lab's environment cannot have.
"""

import json
import os
import sys

import bpy
import numpy as np

SHAPES = {"cube": "SmoothCube_v2", "sphere": "Sphere", "cylinder": "SmoothCylinder"}
MATERIALS = {"rubber": "Rubber", "metal": "MyMetal"}
LAMPS = ("Lamp_Key", "Lamp_Fill", "Lamp_Back")


def main(assets: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Blender prints its own messages on standard output
    print(json.dumps({"version": ".".join(map(str, bpy.app.version))}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            draw(json.loads(line), assets)
            answer = {}
        except Exception as error:  # the lab prints it with the scene's number
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def draw(job: dict, assets: str) -> None:
    """Write the image of a job. The base scene is opened again for each image, so memory does not grow."""
    bpy.ops.wm.open_mainfile(filepath=f"{assets}/base_scene.blend")
    scene = bpy.context.scene
    bpy.data.objects["Camera"].location = job["camera"]
    for name, position in zip(LAMPS, job["lights"], strict=True):
        bpy.data.objects[name].location = position
    groups = {
        word: append(f"{assets}/materials/{name}.blend/NodeTree", name) for word, name in MATERIALS.items()
    }
    for number, item in enumerate(job["objects"], start=1):
        name = SHAPES[item["shape"]]
        solid = append(f"{assets}/shapes/{name}.blend/Object", name)
        solid.name = f"object {number}"  # so that the next object of this shape gets the file's name
        # CLEVR's program makes cubes smaller only if they are named "Cube", which none is
        solid.scale = (item["radius"],) * 3
        solid.location = (item["x"], item["y"], item["radius"])
        solid.rotation_euler = (0, 0, item["rotation"])
        solid.pass_index = number
        paint(solid, groups[item["material"]], item["color"])
    set_quality(scene, job)
    compose(scene, job)
    scene.render.filepath = job["file"]
    bpy.ops.render.render(write_still=True)
    if "numbers" in job:
        image = bpy.data.images.load(f"{job['numbers']}.0001.exr")
        rows = np.empty((job["height"], job["width"], 4), dtype=np.float32)  # from the bottom row up
        image.pixels.foreach_get(rows.ravel())
        np.save(job["numbers"], rows[::-1, :, 0].astype(np.uint8))


def append(directory: str, name: str):
    """Append an item of a .blend file, and return it."""
    items = bpy.data.node_groups if directory.endswith("NodeTree") else bpy.data.objects
    bpy.ops.wm.append(directory=directory, filename=name)
    return items[name]


def paint(solid, group, color: list[int]) -> None:
    """Give an object a material of its own: a node group of CLEVR's with the colour as input."""
    material = bpy.data.materials.new(solid.name)
    material.use_nodes = True
    nodes, links = material.node_tree.nodes, material.node_tree.links
    nodes.clear()
    node, output = nodes.new("ShaderNodeGroup"), nodes.new("ShaderNodeOutputMaterial")
    node.node_tree = group
    # the bytes of sRGB are taken for linear light, as CLEVR's program does
    node.inputs["Color"].default_value = (*(channel / 255 for channel in color), 1.0)
    links.new(node.outputs["Shader"], output.inputs["Surface"])
    solid.data.materials.clear()
    solid.data.materials.append(material)


def set_quality(scene, job: dict) -> None:
    render, cycles = scene.render, scene.cycles
    render.engine = "CYCLES"
    render.resolution_x, render.resolution_y, render.resolution_percentage = job["width"], job["height"], 100
    render.threads_mode, render.threads = "FIXED", 1
    image = render.image_settings
    image.file_format, image.color_mode, image.color_depth, image.compression = "PNG", "RGB", "8", 0
    cycles.device, cycles.samples, cycles.seed, cycles.blur_glossy = "CPU", job["samples"], job["seed"], 2.0
    cycles.use_adaptive_sampling = False
    cycles.use_denoising = True
    cycles.denoising_prefilter, cycles.denoising_quality = job["prefilter"], job["quality"]


def compose(scene, job: dict) -> None:
    """Put a share `grain` of the removed noise back into the image, and write the objects' numbers."""
    layer = scene.view_layers[0]
    layer.cycles.denoising_store_passes = True
    scene.use_nodes = True
    nodes, links = scene.node_tree.nodes, scene.node_tree.links
    nodes.clear()
    layers, mix, output = (nodes.new(f"CompositorNode{name}") for name in ("RLayers", "MixRGB", "Composite"))
    mix.inputs[0].default_value = job["grain"]
    links.new(layers.outputs["Image"], mix.inputs[1])
    links.new(layers.outputs["Noisy Image"], mix.inputs[2])
    links.new(mix.outputs["Image"], output.inputs["Image"])
    if "numbers" in job:
        layer.use_pass_object_index = True
        folder, name = os.path.split(job["numbers"])
        file = nodes.new("CompositorNodeOutputFile")
        file.base_path, file.file_slots[0].path = folder, f"{name}."
        file.format.file_format, file.format.color_depth = "OPEN_EXR", "32"
        links.new(layers.outputs["IndexOB"], file.inputs[0])


if __name__ == "__main__":
    main(sys.argv[1])
