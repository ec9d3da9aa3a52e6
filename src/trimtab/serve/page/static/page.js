// What every page needs: dialogs, messages, and the live connection. Pages work without it, but do not move.
"use strict";

(() => {
  function say(place, text, kind) {
    const words = document.createElement("p");
    words.className = "notice " + kind;
    words.textContent = text;
    document.getElementById(place).replaceChildren(...(text ? [words] : []));
  }

  // Dialogs: [data-opens=ID] opens one, [data-closes] closes the one it is in.
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-opens]");
    if (opener) document.getElementById(opener.dataset.opens).showModal();
    const closer = event.target.closest("[data-closes]");
    if (closer) closer.closest("dialog").close();
  });

  // Requests that failed: one sentence where the eye and the screen reader are.
  document.addEventListener("htmx:responseError", (event) => {
    const { xhr, requestConfig } = event.detail;
    if (xhr.status === 401) return location.assign("/login?next=" + encodeURIComponent(location.pathname));
    if (xhr.status === 404 && requestConfig.verb === "get") return gone();
    const plain = (xhr.getResponseHeader("content-type") || "").startsWith("text/plain");
    say("notice", plain ? xhr.responseText : "The server answered with an error (" + xhr.status + ").", "bad");
    document.getElementById("notice").scrollIntoView({ block: "nearest" });
  });
  document.addEventListener("htmx:sendError", unreachable);
  document.addEventListener("htmx:timeout", unreachable);
  document.addEventListener("htmx:afterOnLoad", reachable);
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.requestConfig.verb !== "get") event.target.closest("dialog")?.close();
  });
  // A part that is being used, or lies under the pointer, is not replaced by a live update.
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const part = event.detail.target;
    if (part.id === "recent" && (part.contains(document.activeElement) || part.matches(":hover")))
      event.detail.shouldSwap = false;
  });

  let away = false;
  function unreachable() {
    if (!away) say("lost", "The server cannot be reached. What you see may be old; this page tries again by itself.", "bad");
    away = true;
    show("lost", "Connection lost");
  }
  function reachable() {
    if (away) say("lost", "");
    away = false;
  }
  function gone() {
    say("lost", "This stream is no longer on the server.", "bad");
    source?.close();
    show("lost", "Stream deleted");
  }
  function show(state, text) {
    const live = document.getElementById("live");
    if (live && live.dataset.state !== state) {
      live.dataset.state = state;
      live.textContent = text;
    }
  }

  // Live: events say that something happened; what is shown is asked for again, at most every second and a half.
  const PAUSE = 1500;
  let source = null;
  let due = false;
  let waiting = false;

  function moved() {
    due = true;
    if (waiting || document.hidden) return;
    waiting = true;
    due = false;
    htmx.trigger(document.body, "trimtab:moved");
    setTimeout(() => {
      waiting = false;
      if (due) moved();
    }, PAUSE);
  }

  let flips = 0;
  function countFlips() {
    const fresh = document.getElementById("fresh");
    if (!fresh) return;
    flips += 1;
    fresh.hidden = false;
    fresh.textContent = flips === 1 ? "Show 1 new flip" : "Show " + flips.toLocaleString("en") + " new flips";
  }

  let tries = 0;
  function connect() {
    source = new EventSource(document.body.dataset.events);
    source.onopen = () => {
      if (tries) moved();
      tries = 0;
      show("on", "Live");
      reachable();
    };
    for (const kind of ["step", "write", "eviction", "guard", "snapshot", "mode", "correction"])
      source.addEventListener(kind, moved);
    source.addEventListener("flip", () => {
      countFlips();
      moved();
    });
    source.onerror = () => {
      // What is wrong is asked by a plain request; then it tries again, ever more rarely.
      source.close();
      fetch(location.pathname, { method: "HEAD" }).then((answer) => {
        if (answer.status === 404) return gone();
        if (answer.status === 401) return location.reload();
        again();
      }, () => {
        unreachable();
        again();
      });
    };
  }
  function again() {
    setTimeout(connect, Math.min(15000, 500 * 2 ** tries));
    tries += 1;
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && due) moved();
  });
  document.querySelector(".tabs [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  if (document.body.dataset.events) connect();
})();
