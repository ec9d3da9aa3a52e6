// Try an image: drop it, paste it, or choose it; it is asked about at once, and its picture never leaves this browser
// but for the question itself.
"use strict";

(() => {
  let shown = null;

  const form = () => document.getElementById("try");
  function ask(files) {
    if (!files.length) return;
    document.getElementById("image").files = files;
    form().requestSubmit();
  }

  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    form()?.classList.add("over");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) form()?.classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    form()?.classList.remove("over");
    ask(event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => ask(event.clipboardData.files));
  document.addEventListener("change", (event) => {
    if (event.target.id === "image") ask(event.target.files);
  });

  document.body.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.id !== "try") return;
    if (shown) URL.revokeObjectURL(shown);
    const [file] = document.getElementById("image").files;
    shown = file ? URL.createObjectURL(file) : null;
  });
  document.body.addEventListener("htmx:afterSwap", () => {
    const picture = document.getElementById("tried-picture");
    if (picture && shown) {
      picture.src = shown;
      picture.hidden = false;
    }
  });
})();
