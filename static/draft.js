// Keeps typed text in this tab until its result is shown: if the session has ended, the user is sent to the login page
// first and would come back to an empty box.
(() => {
  "use strict";
  const form = document.querySelector("form[data-draft]");
  const box = form.querySelector("textarea");
  const fields = [...form.querySelectorAll("textarea, select")];
  const key = `draft:${window.location.pathname}`;

  // The browser may forbid storage; the page works without it.
  const attempt = (action) => {
    try {
      return action();
    } catch {
      return null;
    }
  };

  const save = () => {
    const values = Object.fromEntries(fields.map((field) => [field.name, field.value]));
    attempt(() => sessionStorage.setItem(key, JSON.stringify(values)));
  };

  const saved = attempt(() => JSON.parse(sessionStorage.getItem(key)));
  attempt(() => sessionStorage.removeItem(key));
  if (saved && !box.value) {
    for (const field of fields) field.value = saved[field.name] ?? "";
  }
  form.addEventListener("submit", save);
  window.addEventListener("pagehide", () => { if (box.value !== box.defaultValue) save(); });
})();
