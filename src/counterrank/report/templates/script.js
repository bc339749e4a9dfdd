"use strict";
(() => {
  const tip = document.getElementById("tip");
  let shown = null;
  let walked = null;
  let pointer = null;

  function place(x, y) {
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, x + 14), document.documentElement.clientWidth - box.width - 8);
    const above = y - box.height - 14;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = (above > 8 ? above : y + 18) + "px";
  }

  function show(mark, x, y) {
    if (shown !== mark) {
      if (shown) shown.classList.remove("hot");
      shown = mark;
      mark.classList.add("hot");
      // Text only: names come from users.
      tip.textContent = mark.dataset.tip;
      tip.hidden = false;
    }
    place(x, y);
  }

  function showAt(mark) {
    const dot = mark.querySelector(".dot, .hit, .bar") || mark;
    const box = dot.getBoundingClientRect();
    walked = mark;
    show(mark, box.left + box.width / 2, box.top);
  }

  function hide() {
    walked = null;
    if (shown) shown.classList.remove("hot");
    shown = null;
    tip.hidden = true;
  }

  const markAt = (element) => (element && element.closest ? element.closest("[data-tip]") : null);
  document.addEventListener("pointermove", (event) => {
    const mark = markAt(event.target);
    pointer = event.pointerType === "mouse" ? [event.clientX, event.clientY] : null;
    if (mark) {
      walked = null;
      show(mark, event.clientX, event.clientY);
    } else if (event.pointerType === "mouse" && !walked) hide();
  });
  document.addEventListener("pointerdown", (event) => {
    const mark = markAt(event.target);
    if (mark) show(mark, event.clientX, event.clientY);
    else hide();
  });
  // A mark reached by keyboard keeps its text while the page moves under it; otherwise the text is that of
  // the mark the page has moved under a resting mouse. A browser may tell of a scroll after the move that
  // followed it, so what is shown must not depend on which of the two is heard last.
  function follow() {
    const mark = pointer && markAt(document.elementFromPoint(...pointer));
    if (walked) showAt(walked);
    else if (mark) show(mark, ...pointer);
    else hide();
  }
  document.addEventListener("scroll", follow, { passive: true });

  // One tab stop a chart; arrow keys walk through its marks.
  for (const chart of document.querySelectorAll(".chart")) {
    const marks = [...chart.querySelectorAll("[data-tip]")];
    let at = -1;
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step || !marks.length) return;
      event.preventDefault();
      at = (at + step + marks.length) % marks.length;
      showAt(marks[at]);
    });
    chart.addEventListener("blur", hide);
  }

  const root = document.documentElement;
  const theme = document.getElementById("theme");
  if (theme) {
    theme.addEventListener("click", () => {
      const dark = root.dataset.theme
        ? root.dataset.theme === "dark"
        : window.matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    });
  }

  const save = document.getElementById("json");
  const model = document.getElementById("model");
  if (save && model) {
    save.addEventListener("click", () => {
      const text = JSON.stringify(JSON.parse(model.textContent), null, 2) + "\n";
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = "report.json";
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  // The section being read, in the list of sections.
  const links = new Map();
  for (const link of document.querySelectorAll("nav a")) links.set(link.hash.slice(1), link);
  if (links.size && "IntersectionObserver" in window) {
    const seen = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          const link = links.get(entry.target.id);
          if (link && entry.isIntersecting) {
            for (const other of links.values()) other.removeAttribute("aria-current");
            link.setAttribute("aria-current", "true");
          }
        }
      },
      { rootMargin: "-15% 0px -75% 0px" },
    );
    for (const section of document.querySelectorAll("main > section")) seen.observe(section);
  }

  // Everything is open on paper.
  let closed = [];
  window.addEventListener("beforeprint", () => {
    hide();
    closed = [...document.querySelectorAll("details.reasons:not([open])")];
    for (const one of closed) one.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const one of closed) one.open = false;
  });
})();
