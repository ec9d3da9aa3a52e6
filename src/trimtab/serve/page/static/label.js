// "Check 50" by keyboard: each class has a key while the focus is on the form, where every new image puts it.
"use strict";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const form = event.target.closest("[data-keys]");
  if (!form || event.target.matches("input, select, textarea")) return;
  const button = form.querySelector('[data-key="' + CSS.escape(event.key) + '"]');
  if (!button) return;
  event.preventDefault();
  button.click();
});
