// "Check 50" by keyboard: each class has a key; after an answer the next image is asked about.
"use strict";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.closest("input, select, textarea, dialog")) return;
  const button = document.querySelector('[data-keys] [data-key="' + CSS.escape(event.key) + '"]');
  if (!button) return;
  event.preventDefault();
  button.click();
});
