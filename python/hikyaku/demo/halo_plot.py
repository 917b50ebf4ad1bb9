# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of a heat equation: four moments side by side, and all moments one after the other."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..bench.common.figure import load_matplotlib, sheet
from .halo import Heat

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = "inferno"
MOMENTS = 4
INCHES = (2.9, 3.1)
SCALE = 3  # pixels of a point in the moving picture
MOMENT_MS, LAST_MS = 120, 1500


def chosen(count: int) -> list[int]:
    """Four of @count moments: heat spreads by the square root of time."""
    return [round((count - 1) * (i / (MOMENTS - 1)) ** 2) for i in range(MOMENTS)]


def borders(points: int, boxes: int) -> list[int]:
    """The first points of all boxes except the first, along one side."""
    return [points * i // boxes for i in range(1, boxes)]


def draw(it: Heat) -> "Figure":
    points, (rows, columns) = it.fields.shape[1], it.boxes
    title = f"Heat on a plate of {points} x {points} points, computed by {rows * columns} nodes"
    note = "white: borders of the nodes' boxes, across which they exchange edges in each step"
    with sheet(1, MOMENTS, INCHES, title, note) as (figure, panels):
        for axes, moment in zip(panels, chosen(len(it.fields)), strict=True):
            image = axes.imshow(
                it.fields[moment], cmap=COLOURS, vmin=0, vmax=1, interpolation="nearest"
            )
            for border in borders(points, rows):
                axes.axhline(border - 0.5, color="white", lw=0.8)
            for border in borders(points, columns):
                axes.axvline(border - 0.5, color="white", lw=0.8)
            axes.set_title(f"step {it.steps[moment]}")
            axes.set_xticks([])
            axes.set_yticks([])
        for node in range(rows * columns):
            row, column = divmod(node, columns)
            panels[0].text(
                points * (column + 0.05) / columns,
                points * (row + 0.05) / rows,
                f"node{node}",
                color="white",
                ha="left",
                va="top",
            )
        figure.colorbar(image, ax=panels, label="temperature", shrink=0.8)
    return figure


def animate(it: Heat, path: Path) -> None:
    """Saves all moments as a GIF."""
    load_matplotlib()
    from matplotlib import colormaps
    from PIL import Image

    points = it.fields.shape[1]
    images = []
    for field in it.fields:
        pixels = colormaps[COLOURS](np.clip(field, 0, 1), bytes=True)[:, :, :3]
        pixels = pixels.repeat(SCALE, 0).repeat(SCALE, 1)
        for border in borders(points, it.boxes[0]):
            pixels[SCALE * border] = 255
        for border in borders(points, it.boxes[1]):
            pixels[:, SCALE * border] = 255
        images.append(Image.fromarray(np.ascontiguousarray(pixels)))
    times = [MOMENT_MS] * (len(images) - 1) + [LAST_MS]
    images[0].save(path, save_all=True, append_images=images[1:], duration=times, loop=0)
