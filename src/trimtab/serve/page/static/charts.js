// Lines along the stream (uPlot). The series come from the server, thinned there, so their number never grows.
"use strict";

(() => {
  const percent = (value) => (value == null ? "–" : (100 * value).toFixed(1) + " %");
  const plain = (value) => (value == null ? "–" : value.toFixed(3));
  const count = (value) => (value == null ? "–" : value.toLocaleString("en"));
  const KINDS = {
    agreement: {
      lines: ["agreement", "flips"],
      written: percent,
      tick: (value) => Math.round(100 * value) + " %",
    },
    drift: {
      lines: ["drift", "collapse"],
      written: plain,
      tick: (value) => value.toFixed(2),
    },
  };
  const HEIGHT = 200;
  const charts = new Map();
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function options(kind, width) {
    const ink = color("--soft");
    const grid = { stroke: color("--line"), width: 1 };
    return {
      width,
      height: HEIGHT,
      cursor: { points: { size: 6 }, drag: { x: false, y: false } },
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.min(1, Math.max(0.05, (high || 0) * 1.1))] } },
      axes: [
        { stroke: ink, grid: { show: false }, ticks: grid, values: (_, ticks) => ticks.map(count), size: 34 },
        { stroke: ink, grid, ticks: { show: false }, values: (_, ticks) => ticks.map(KINDS[kind].tick), size: 52 },
      ],
      series: [
        { label: "image", value: (u, value) => count(value ?? u.data[0].at(-1)) },
        ...KINDS[kind].lines.map((label, place) => ({
          label,
          stroke: color("--chart-" + (place + 1)),
          width: 2,
          points: { show: false },
          value: (u, value) => KINDS[kind].written(value ?? u.data[place + 1].at(-1)),
        })),
      ],
    };
  }

  const rows = (kind, history) => [history.seen, ...KINDS[kind].lines.map((line) => history[line])];

  function draw(place, history) {
    const kind = place.dataset.chart;
    if (history.seen.length < 2) {
      if (!place.firstChild) {
        const words = document.createElement("div");
        words.className = "chart-empty";
        words.textContent = "A line appears after some dozens of images.";
        place.append(words);
      }
      return;
    }
    const known = charts.get(place);
    if (known) return known.setData(rows(kind, history));
    place.replaceChildren();
    charts.set(place, new uPlot(options(kind, place.clientWidth), rows(kind, history), place));
  }

  let last = null;
  let asking = false;
  async function ask() {
    const places = [...document.querySelectorAll("[data-chart]")];
    if (!places.length || asking) return;
    asking = true;
    try {
      const answer = await fetch(places[0].dataset.from, { headers: { accept: "application/json" } });
      if (answer.ok) {
        last = await answer.json();
        for (const place of places) draw(place, last);
      }
    } catch {
      // The page says so already, by its own requests.
    } finally {
      asking = false;
    }
  }

  function redraw() {
    for (const chart of charts.values()) chart.destroy();
    charts.clear();
    if (last) for (const place of document.querySelectorAll("[data-chart]")) draw(place, last);
  }

  document.body.addEventListener("trimtab:moved", ask);
  document.body.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.elt.id === "body") {
      charts.clear();
      ask();
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new ResizeObserver(() => {
    for (const [place, chart] of charts)
      if (place.clientWidth && place.clientWidth !== chart.width) chart.setSize({ width: place.clientWidth, height: HEIGHT });
  }).observe(document.body);
  ask();
})();
