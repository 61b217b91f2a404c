"use strict";

// Turns the picture of rotary.html, which docs/generators/rotary.py drew. A page's address may say where: ?m=12&n=4.

/** How far a pair of so many turns from one position to the next, in radians. */
function speed(i, pairs, theta) {
  return theta ** (-i / pairs.length);
}

/** A vector at position m: the two features of each pair are a point, turned about the origin. */
function turned(vector, m, pairs, theta) {
  const made = [...vector];
  pairs.forEach(([one, other], i) => {
    const phi = m * speed(i, pairs, theta);
    made[one] = vector[one] * Math.cos(phi) - vector[other] * Math.sin(phi);
    made[other] = vector[other] * Math.cos(phi) + vector[one] * Math.sin(phi);
  });
  return made;
}

/** ⟨R_m q, R_n k⟩ */
function product({ query, key, pairs }, m, n, theta) {
  const [q, k] = [turned(query, m, pairs, theta), turned(key, n, pairs, theta)];
  return q.reduce((sum, entry, place) => sum + entry * k[place], 0);
}

function written(number, digits) {
  return number.toFixed(digits).replace("-", "−");
}

/** What the picture says of a panel: its vectors and its pairs. */
function read({ dataset }) {
  return Object.fromEntries(["query", "key", "pairs"].map((name) => [name, JSON.parse(dataset[name])]));
}

function turn(panel, positions, theta) {
  const { pairs, ...vectors } = read(panel);
  for (const [name, position] of Object.entries(positions)) {
    const cells = panel.querySelectorAll(`[data-turned=${name}] td`);
    turned(vectors[name], position, pairs, theta).forEach((entry, place) => (cells[place].textContent = written(entry, 2)));
    panel.querySelectorAll(`.${name} .hand`).forEach((hand, i) => {
      hand.style.transform = `rotate(${-position * speed(i, pairs, theta)}rad)`;
    });
  }
  panel.querySelectorAll("[data-speed]").forEach((told, i) => {
    told.textContent = Number(speed(i, pairs, theta).toPrecision(3));
  });
}

function start(figure) {
  const form = figure.querySelector("form");
  const panels = [...figure.querySelectorAll("section")];

  function show() {
    const [m, n, theta] = ["m", "n", "theta"].map((name) => Number(form.elements[name].value));
    for (const told of form.querySelectorAll("[data-shown]")) told.textContent = form.elements[told.dataset.shown].value;
    for (const panel of panels) turn(panel, { query: m, key: n }, theta);
    for (const told of figure.querySelectorAll("[data-shift]")) {
      const [further, keyFurther] = JSON.parse(told.dataset.shift);
      told.textContent = `m = ${m + further}, n = ${n + keyFurther}`;
      const cells = told.closest("tr").querySelectorAll("td");
      panels.forEach((panel, place) => {
        cells[place].textContent = written(product(read(panel), m + further, n + keyFurther, theta), 4);
      });
    }
  }

  for (const [name, value] of new URLSearchParams(location.search))
    if (form.elements[name]) form.elements[name].value = value;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  figure.querySelector(".still").hidden = true;
  show();
}

start(document.getElementById("two-conventions"));
