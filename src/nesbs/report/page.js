// Comforts of the page; everything is readable without them.
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Tables sort by a column: numbers as numbers, what is missing last.
  const value = (cell) => {
    const text = (cell?.dataset.value ?? cell?.textContent ?? "").trim();
    const match = text.replace(/,/g, "").replace("−", "-").match(/^[-+]?\d+(\.\d+)?(e[-+]?\d+)?/);
    return { text, number: match ? Number(match[0]) : NaN };
  };
  const order = (a, b) => {
    const missing = [Number.isNaN(a.number), Number.isNaN(b.number)];
    if (missing[0] !== missing[1]) return missing[0] ? 1 : -1;
    return missing[0] ? a.text.localeCompare(b.text, "en", { numeric: true }) : a.number - b.number;
  };
  for (const table of all("table.sortable")) {
    const heads = all("thead tr:last-child th", table);
    heads.forEach((head, column) => {
      const name = head.textContent.trim();
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = "↕";
      button.setAttribute("aria-label", `Sort by ${name}`);
      button.addEventListener("click", () => {
        const falling = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) {
          other.removeAttribute("aria-sort");
          other.querySelector(".sort").textContent = "↕";
        }
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        button.textContent = falling ? "↓" : "↑";
        const body = table.tBodies[0];
        const rows = [...body.rows].map((row) => ({ row, key: value(row.cells[column]) }));
        rows.sort((a, b) => {
          const last = Number.isNaN(a.key.number) !== Number.isNaN(b.key.number);
          return falling && !last ? order(b.key, a.key) : order(a.key, b.key);
        });
        body.append(...rows.map((entry) => entry.row));
      });
      head.append(" ", button);
    });
  }

  // A word of the glossary says what it means where it stands: on hover, focus or tap; Escape ends it.
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  document.body.append(tip);
  let shown = null;
  const hide = () => {
    tip.hidden = true;
    shown = null;
  };
  const left = () => shown !== document.activeElement && hide(); // a word in focus keeps its meaning shown
  const show = (word) => {
    const meaning = document.getElementById(word.hash.slice(1));
    if (!meaning) return;
    shown = word;
    tip.textContent = meaning.textContent;
    tip.hidden = false;
    const at = word.getBoundingClientRect();
    const start = Math.min(at.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
    const above = at.bottom + tip.offsetHeight + 10 > window.innerHeight;
    tip.style.left = `${Math.max(8, start)}px`;
    tip.style.top = `${above ? Math.max(8, at.top - tip.offsetHeight - 6) : at.bottom + 6}px`;
  };
  for (const word of all("a.term")) {
    word.addEventListener("mouseenter", () => show(word));
    word.addEventListener("mouseleave", (event) => event.relatedTarget !== tip && left());
    word.addEventListener("focus", () => show(word));
    word.addEventListener("blur", hide);
    word.addEventListener("click", (event) => {
      event.preventDefault();
      show(word);
    });
  }
  tip.addEventListener("mouseleave", left);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("click", (event) => shown && event.target.closest("a.term") !== shown && hide());
  const follow = () => {
    if (!shown) return;
    const at = shown.getBoundingClientRect();
    if (at.bottom < 0 || at.top > window.innerHeight) hide();
    else show(shown);
  };
  window.addEventListener("scroll", follow, { passive: true, capture: true });

  // Sections: one button for all of them; a link opens the one it leads to; paper shows every one.
  const sections = all("section > details");
  const contents = document.querySelector("nav");
  if (contents && sections.length) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "all";
    const closed = () => sections.some((section) => !section.open);
    const name = () => (button.textContent = closed() ? "Open all sections" : "Close all sections");
    button.addEventListener("click", () => {
      const open = closed();
      for (const section of sections) section.open = open;
      name();
    });
    for (const section of sections) section.addEventListener("toggle", name);
    name();
    contents.append(button);
  }
  const arrive = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const inside = target.querySelector(":scope > details") ?? target.closest("details");
    if (inside) inside.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", arrive);
  arrive();
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = all("details:not([open])");
    for (const part of opened) part.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
  });
})();
