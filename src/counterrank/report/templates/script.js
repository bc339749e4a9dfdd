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
    const dot = mark.querySelector(".dot") || mark;
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

  function download(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  const save = document.getElementById("json");
  const model = document.getElementById("model");
  if (save && model) {
    save.addEventListener("click", () => {
      const text = JSON.stringify(JSON.parse(model.textContent), null, 2) + "\n";
      download(new Blob([text], { type: "application/json" }), "report.json");
    });
  }

  // A chart is HTML around small SVGs that stretch. As a picture of its own it is one SVG: the small ones in
  // their places with their styles written out, and every line of text where the browser has put it.
  const SVG = "http://www.w3.org/2000/svg";
  const STYLES = [
    "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "font-family",
    "font-size", "font-weight", "text-anchor", "vector-effect", "display", "visibility", "paint-order", "overflow",
  ];

  function styled(element) {
    const copy = element.cloneNode(true);
    const pairs = [[element, copy]];
    const inner = [...element.querySelectorAll("*")];
    [...copy.querySelectorAll("*")].forEach((one, index) => pairs.push([inner[index], one]));
    for (const [from, to] of pairs) {
      const style = getComputedStyle(from);
      for (const name of STYLES) to.style.setProperty(name, style.getPropertyValue(name));
    }
    return copy;
  }

  function lines(node) {
    const found = [];
    const range = document.createRange();
    for (const word of node.data.matchAll(/\S+/g)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const box = range.getBoundingClientRect();
      const last = found[found.length - 1];
      if (last && Math.abs(last.box.top - box.top) < 2) last.text += " " + word[0];
      else found.push({ text: word[0], box });
    }
    return found;
  }

  function pictured(figure) {
    const parts = [figure.querySelector("h3"), figure.querySelector(".chart")];
    const shown = parts.filter((part) => part);
    const boxes = shown.map((part) => part.getBoundingClientRect());
    const left = Math.min(...boxes.map((box) => box.left)) - 16;
    const right = Math.max(...boxes.map((box) => box.right)) + 16;
    // The aid between title and chart is left out, and so is its room.
    let bottom = 16;
    const picture = document.createElementNS(SVG, "svg");
    const ground = document.createElementNS(SVG, "rect");
    ground.setAttribute("width", "100%");
    ground.setAttribute("height", "100%");
    ground.setAttribute("fill", getComputedStyle(figure).backgroundColor);
    picture.append(ground);
    shown.forEach((part, index) => {
      const shift = bottom - boxes[index].top;
      const walk = (node) => {
        if (node.nodeType === Node.TEXT_NODE) {
          const style = getComputedStyle(node.parentElement);
          for (const line of lines(node)) {
            const text = document.createElementNS(SVG, "text");
            text.textContent = line.text;
            text.setAttribute("x", line.box.left - left);
            text.setAttribute("y", line.box.bottom + shift - line.box.height * 0.24);
            text.setAttribute("fill", style.color);
            text.setAttribute("opacity", style.opacity);
            for (const name of ["font-family", "font-size", "font-weight"]) text.style.setProperty(name, style[name]);
            picture.append(text);
          }
        } else if (node.namespaceURI === SVG) {
          const box = node.getBoundingClientRect();
          const copy = styled(node);
          const place = { x: box.left - left, y: box.top + shift, width: box.width, height: box.height };
          for (const [name, value] of Object.entries(place)) copy.setAttribute(name, value);
          picture.append(copy);
        } else if (node.nodeType === Node.ELEMENT_NODE) {
          const style = getComputedStyle(node);
          const box = node.getBoundingClientRect();
          const filled = style.backgroundColor !== "rgba(0, 0, 0, 0)";
          const framed = parseFloat(style.borderLeftWidth) > 0;
          if (box.width && (filled || framed)) {
            // A badge is a shape of the page, not of an SVG.
            const shape = document.createElementNS(SVG, "rect");
            const place = { x: box.left - left, y: box.top + shift, width: box.width, height: box.height };
            for (const [name, value] of Object.entries(place)) shape.setAttribute(name, value);
            shape.setAttribute("rx", parseFloat(style.borderRadius) || 0);
            shape.setAttribute("fill", filled ? style.backgroundColor : "none");
            if (framed) shape.setAttribute("stroke", style.borderLeftColor);
            picture.append(shape);
          }
          node.childNodes.forEach(walk);
        }
      };
      walk(part);
      bottom += boxes[index].height + 10;
    });
    picture.setAttribute("xmlns", SVG);
    picture.setAttribute("width", Math.ceil(right - left));
    picture.setAttribute("height", Math.ceil(bottom + 6));
    picture.setAttribute("viewBox", `0 0 ${Math.ceil(right - left)} ${Math.ceil(bottom + 6)}`);
    return picture;
  }

  function saveFigure(figure, kind) {
    const picture = pictured(figure);
    const text = new XMLSerializer().serializeToString(picture);
    // Titles are the names of policies, the same in several sections; the chart's own name says what it shows.
    const title = figure.querySelector(".chart").getAttribute("aria-label") || figure.querySelector("h3").textContent;
    const words = title.match(/[\p{L}\p{N}]+/gu) || ["chart"];
    const name = `${words.join("-").slice(0, 60)}.${kind}`;
    if (kind === "svg") return download(new Blob([text], { type: "image/svg+xml" }), name);
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * picture.width.baseVal.value;
      canvas.height = 2 * picture.height.baseVal.value;
      const pen = canvas.getContext("2d");
      pen.scale(2, 2);
      pen.drawImage(image, 0, 0);
      canvas.toBlob((blob) => download(blob, name), "image/png");
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  }

  for (const figure of document.querySelectorAll("figure")) {
    if (!figure.querySelector(".chart")) continue;
    const tools = document.createElement("div");
    tools.className = "save";
    for (const kind of ["svg", "png"]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = kind.toUpperCase();
      button.setAttribute("aria-label", `Save this chart as ${kind.toUpperCase()}`);
      button.addEventListener("click", () => saveFigure(figure, kind));
      tools.append(button);
    }
    figure.append(tools);
  }

  // What is closed stays closed on paper; a mark's text has no place there.
  window.addEventListener("beforeprint", hide);
})();
