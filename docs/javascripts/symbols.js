// Lights up a letter of a formula and its identifier in the code together, on the same card.
function light(event, on) {
  const marked = event.target.closest?.("[data-symbol]");
  const card = marked?.closest(".equation");
  if (!card) return;
  for (const twin of card.querySelectorAll(`[data-symbol="${CSS.escape(marked.dataset.symbol)}"]`)) {
    twin.classList.toggle("lit", on);
  }
}

for (const [enter, leave] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
  document.addEventListener(enter, (event) => light(event, true));
  document.addEventListener(leave, (event) => light(event, false));
}
