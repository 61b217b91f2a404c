"use strict";

// Hides the rows of a table that its form does not choose. The address of the page says what is chosen, so that it can
// be handed on: ?slot=scores.

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

  function remember() {
    const chosen = [...new FormData(form)].filter(([, value]) => value);
    const query = chosen.length ? `?${new URLSearchParams(chosen)}` : location.pathname;
    history.replaceState(history.state, "", query + location.hash);
  }

  function change() {
    show();
    remember();
  }

  for (const [name, value] of new URLSearchParams(location.search))
    if (form.elements[name]) form.elements[name].value = value;
  form.addEventListener("input", change);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(change));
  form.hidden = false;
  show();
}

document.querySelectorAll("[data-filters]").forEach(start);
