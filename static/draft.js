// Keeps a text that was typed or sent until its answer stands beside it: whose session has ended is led to the login
// first, and would find the box empty. It is kept for this tab only, by the browser.
(() => {
  "use strict";
  const form = document.querySelector("form[data-draft]");
  const box = form.querySelector("textarea");
  const fields = [...form.querySelectorAll("textarea, select")];
  const place = `draft:${window.location.pathname}`;

  // A browser may refuse to keep anything; the page works all the same.
  const attempt = (deed) => {
    try {
      return deed();
    } catch {
      return null;
    }
  };

  const keep = () => {
    const values = Object.fromEntries(fields.map((field) => [field.name, field.value]));
    attempt(() => sessionStorage.setItem(place, JSON.stringify(values)));
  };

  const kept = attempt(() => JSON.parse(sessionStorage.getItem(place)));
  attempt(() => sessionStorage.removeItem(place));
  if (kept && !box.value) {
    for (const field of fields) field.value = kept[field.name] ?? "";
  }
  form.addEventListener("submit", keep);
  window.addEventListener("pagehide", () => { if (box.value !== box.defaultValue) keep(); });
})();
