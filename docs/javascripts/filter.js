"use strict";

// Hides the rows of a table that its form does not choose. A page's address may choose too: ?slot=scores.

function start(form) {
  const rows = [...document.querySelectorAll(`#${form.dataset.filters} > tbody > tr`)];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const selects = [...form.querySelectorAll("select")];

  function show() {
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = selects.filter((select) => select.value);
    let shown = 0;
    rows.forEach((row, place) => {
      const kept =
        chosen.every((select) => row.dataset[select.name].split("|").includes(select.value)) &&
        words.every((word) => texts[place].includes(word));
      row.hidden = !kept;
      shown += kept;
    });
    form.querySelector("output").textContent = `${shown} of ${rows.length} rows`;
  }

  for (const [name, value] of new URLSearchParams(location.search))
    if (form.elements[name]) form.elements[name].value = value;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(show));
  form.hidden = false;
  show();
}

document.querySelectorAll("[data-filters]").forEach(start);
