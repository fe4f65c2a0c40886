// The gallery: filters, attention of each word, and the alignment of the two images. Each card has its maps
// as bytes in base64; the largest value of a map is 255.
"use strict";

const LEVELS = 255;

for (const gallery of document.querySelectorAll(".gallery")) {
  const form = gallery.querySelector("form");
  const cards = [...gallery.querySelectorAll("article")];
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", () => filter(form, cards));
  // a browser may keep the choices of an earlier visit
  form.reset();
  for (const card of cards) prepare(card, form);
  filter(form, cards);
}

function filter(form, cards) {
  const { kind, verdict, model } = form.elements;
  for (const card of cards) {
    const judged = (card.dataset[verdict?.value] ?? "").split(" ");
    card.hidden = (kind.value && card.dataset.kind !== kind.value) || (verdict?.value && !judged.includes(model.value));
  }
  const shown = cards.filter((card) => !card.hidden).length;
  form.querySelector("output").textContent = `${shown} of ${cards.length} pairs shown`;
}

// One card: a word shows its attention on both images, and a cell of the after image shows its alignment.
function prepare(card, form) {
  const maps = JSON.parse(card.querySelector("script").textContent);
  const words = [...card.querySelectorAll(".words button")];
  const blocks = [...card.querySelectorAll(".blocks button")];
  const after = card.querySelector(".after .picture");
  const status = card.querySelector(".status");
  const resting = status.textContent;
  let cell = null; // [row, column] of the after image

  function clear() {
    cell = null;
    [...words, ...blocks].forEach((button) => button.setAttribute("aria-pressed", "false"));
    card.querySelectorAll(".picture").forEach((picture) => uncover(picture));
    status.textContent = resting;
  }

  function showWord(button) {
    clear();
    button.setAttribute("aria-pressed", "true");
    const { model, place } = button.dataset;
    const own = maps[model];
    const images = own.images ?? 1; // number of maps per word: one for both images, one for each, or none
    const at = (side) => images * Number(place) + Math.min(side, images - 1);
    if (images) card.querySelectorAll(".picture").forEach((picture, side) => cover(picture, row(own.maps, at(side), own.grid), own.grid));
    const [first, second] = [0, 1].map((side) => percent(own.peaks[at(side)]));
    const held = images > 1 ? `${first} of the attention to before, ${second} of the attention to after` : `${first} of the attention`;
    const even = percent(1 / (own.grid[0] * own.grid[1]));
    const said = images ? `the brightest cell has ${held} (uniform attention: ${even})` : "its decoder has no attention to cells";
    const drawn = own.weighed?.map((name, number) => `${name} ${own.weights[place][number]} %`).join(", ");
    status.textContent = `“${button.textContent}”, ${model}: ${said}${drawn ? `; weights: ${drawn}` : ""}.`;
  }

  function showBlock(button) {
    clear();
    button.setAttribute("aria-pressed", "true");
    const { model, place } = button.dataset;
    const own = maps[model];
    card.querySelectorAll(".picture").forEach((picture, side) => cover(picture, row(own.blocks, 2 * Number(place) + side, own.grid), own.grid));
    status.textContent = `${model}, ${button.textContent}: attention of the image encoder’s class token, each image separately.`;
  }

  function showCell(chosen) {
    clear();
    const model = form.elements.aligned.value;
    const own = maps[model];
    const [rows, columns] = own.grid;
    cell = [clamp(chosen[0], rows), clamp(chosen[1], columns)];
    const map = row(own.alignment, cell[0] * columns + cell[1], own.grid);
    cover(card.querySelector(".before .picture"), map, own.grid);
    mark(after, cell, own.grid);
    const brightest = map.indexOf(Math.max(...map));
    const there = [Math.floor(brightest / columns), brightest % columns];
    status.textContent = `${model} aligns row ${cell[0] + 1}, column ${cell[1] + 1} of after with row ${there[0] + 1}, column ${there[1] + 1} of before.`;
  }

  for (const button of words) {
    button.addEventListener("click", () => (button.getAttribute("aria-pressed") === "true" ? clear() : showWord(button)));
  }
  for (const button of blocks) {
    button.addEventListener("click", () => (button.getAttribute("aria-pressed") === "true" ? clear() : showBlock(button)));
  }
  for (const caption of card.querySelectorAll(".words")) roving(caption, showWord);
  for (const encoder of card.querySelectorAll(".blocks")) roving(encoder, showBlock);
  card.addEventListener("keydown", (event) => event.key === "Escape" && clear());

  if (!Object.values(maps).some((own) => own.alignment)) return; // decoding keeps the alignment of a limited number of pairs
  const grid = () => maps[form.elements.aligned.value].grid;
  form.addEventListener("change", () => cell && showCell(cell));
  after.tabIndex = 0;
  after.setAttribute("role", "application");
  after.setAttribute("aria-label", after.dataset.label);
  after.addEventListener("click", (event) => {
    const box = after.getBoundingClientRect();
    const [rows, columns] = grid();
    const at = [((event.clientY - box.top) / box.height) * rows, ((event.clientX - box.left) / box.width) * columns];
    showCell(at.map(Math.floor));
  });
  after.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key !== "Enter" && event.key !== " " && !step) return;
    event.preventDefault();
    const middle = grid().map((side) => Math.floor(side / 2));
    showCell(cell && step ? [cell[0] + step[0], cell[1] + step[1]] : (cell ?? middle));
  });
}

// A caption is one stop of the tab key; the arrow keys go to the next word and show it.
function roving(caption, show) {
  const words = [...caption.querySelectorAll("button")];
  words.forEach((word, place) => (word.tabIndex = place ? -1 : 0));
  caption.addEventListener("focusin", (event) => words.forEach((word) => (word.tabIndex = word === event.target ? 0 : -1)));
  caption.addEventListener("keydown", (event) => {
    const place = words.indexOf(event.target);
    const next = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: words.length - 1 }[event.key];
    if (!words[next]) return;
    event.preventDefault();
    words[next].focus();
    show(words[next]);
  });
}

// Map number `place` of base64 bytes: rows x columns values of 0 to 255.
function row(coded, place, [rows, columns]) {
  const bytes = Uint8Array.from(atob(coded), (letter) => letter.charCodeAt(0));
  return bytes.subarray(place * rows * columns, (place + 1) * rows * columns);
}

// Draw a map over an image, one pixel per cell; the browser scales it smoothly.
function cover(picture, map, [rows, columns]) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const pixels = new ImageData(columns, rows);
  map.forEach((value, cell) => pixels.data.set(heat(value / LEVELS), 4 * cell));
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  canvas.className = "heat";
  picture.append(canvas);
  picture.classList.add("covered");
}

// Colour from red to yellow; a larger share hides more of the image.
function heat(share) {
  return [255, Math.round(60 + 170 * share), Math.round(90 * share * share), Math.round(215 * Math.sqrt(share) * share ** 0.25)];
}

function mark(picture, [row, column], [rows, columns]) {
  const square = document.createElement("span");
  square.className = "cell";
  Object.assign(square.style, {
    left: `${(100 * column) / columns}%`, top: `${(100 * row) / rows}%`,
    width: `${100 / columns}%`, height: `${100 / rows}%`,
  });
  picture.append(square);
}

function uncover(picture) {
  picture.querySelectorAll(".heat, .cell").forEach((drawn) => drawn.remove());
  picture.classList.remove("covered");
}

const clamp = (place, count) => Math.min(Math.max(place, 0), count - 1);
const percent = (share) => `${(100 * share).toFixed(1)} %`;
