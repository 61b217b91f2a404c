"use strict";

// The calculator of sizes.html: every number is a function of encoders.js, evaluated at the sizes of the form.

/** What a profile costs at these sizes: totals by name, and shapes, parameters and FLOPs of every step. */
function evaluate(profile, sizes) {
  const value = (place) => FUNCTIONS[place](sizes);
  const { totals, steps } = ENCODERS[profile];
  return {
    totals: Object.fromEntries(Object.entries(totals).map(([name, place]) => [name, value(place)])),
    steps: steps.map((step) => ({
      shapes: step.axes.map((axes) => axes.map(value)),
      parameters: value(step.parameters),
      flops: value(step.flops),
    })),
  };
}

/** Why these sizes describe no encoder; nothing if they do. */
function refusal(profile, sizes) {
  const letters = ENCODERS[profile].letters;
  if (letters.includes("d_k") && !sizes.d_k && sizes.h > 0)
    return `The ${sizes.h} heads do not divide d_model = ${sizes.d_model}: choose h among its divisors, or give d_k and d_v.`;
  const wrong = letters.find((letter) => !(Number.isInteger(sizes[letter]) && sizes[letter] > 0));
  if (wrong) return `${wrong} must be a positive integer.`;
  if (letters.includes("max_len") && sizes.n > sizes.max_len)
    return `n = ${sizes.n} is longer than the table of positions, which has ${sizes.max_len} rows.`;
  return "";
}

function grouped(number) {
  if (Math.abs(number) <= Number.MAX_SAFE_INTEGER) return number.toLocaleString("en", { maximumFractionDigits: 1 });
  const [digits, power] = number.toExponential(5).split("e+");
  return `≈ ${digits} · 10^${power}`;
}

function memory(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  for (; bytes >= 1024 && place < units.length - 1; place += 1) bytes /= 1024;
  return `${bytes.toLocaleString("en", { maximumSignificantDigits: 4 })} ${units[place]}`;
}

function cell(tag, content, html = false) {
  const made = document.createElement(tag);
  made[html ? "innerHTML" : "textContent"] = content;
  return made;
}

function rowOf(step, values) {
  const row = document.createElement("tr");
  const name = cell("th", step.name, true);
  name.scope = "row";
  name.className = `depth-${step.depth}`;
  row.append(
    name,
    cell("td", step.shape, true),
    cell("td", values.shapes.map((axes) => axes.join(" × ")).join(", ")),
    cell("td", values.parameters ? grouped(values.parameters) : ""),
    cell("td", values.flops ? grouped(values.flops) : ""),
  );
  return row;
}

function start(form) {
  const fields = form.elements;
  const letters = [...form.querySelectorAll("[data-letter]")];

  function load(preset) {
    fields.profile.value = preset.profile;
    for (const label of letters) fields[label.dataset.letter].value = preset.sizes[label.dataset.letter];
  }

  function divide() {
    const width = Number(fields.d_model.value) / Number(fields.h.value);
    fields.d_k.value = fields.d_v.value = Number.isInteger(width) ? width : "";
    fields.d_e.value = fields.d_model.value;
  }

  function show() {
    const profile = fields.profile.value;
    const sizes = Object.fromEntries(letters.map(({ dataset }) => [dataset.letter, Number(fields[dataset.letter].value)]));
    for (const label of letters) label.hidden = !ENCODERS[profile].letters.includes(label.dataset.letter);
    const refused = refusal(profile, sizes);
    const message = document.getElementById("refusal");
    message.textContent = refused;
    message.hidden = !refused;
    form.classList.toggle("refused", Boolean(refused));
    if (refused) return;
    const { totals, steps } = evaluate(profile, sizes);
    const bytes = Number(fields.bytes.value);
    const texts = {
      parameters: grouped(totals.parameters),
      flops: grouped(totals.flops),
      weights: memory(totals.parameters * bytes),
      activations: memory(totals.activations * bytes),
      crossover: `n = ${grouped(totals.crossover)}`,
    };
    for (const output of form.querySelectorAll("[data-total]")) output.textContent = texts[output.dataset.total];
    const rows = ENCODERS[profile].steps.map((step, place) => rowOf(step, steps[place]));
    document.getElementById("steps").replaceChildren(...rows);
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", ({ target }) => {
    if (target.name === "preset" && target.value) load(PRESETS[target.value]);
    else if (target.name !== "bytes") fields.preset.value = "";
    if (target.name === "d_model" || target.name === "h") divide();
    show();
  });
  load(PRESETS.base);
  form.hidden = false;
  document.getElementById("presets").hidden = true;
  show();
}

start(document.getElementById("calculator"));
