// A preview below every text box for Markdown: <textarea data-markdown>. The server renders it, as it does for workers.
(() => {
  "use strict";
  const template = document.getElementById("text-preview");
  const { url, failed } = template.dataset;
  const DELAY = 400; // milliseconds after the last key

  const render = async (box) => {
    const body = new FormData();
    body.set("text", box.value);
    if ("plain" in box.dataset && box.value === box.defaultValue) body.set("plain", "on");
    const csrf = box.form.elements.csrfmiddlewaretoken.value;
    const response = await fetch(url, { method: "POST", body, headers: { "X-CSRFToken": csrf }, redirect: "error" });
    if (!response.ok) throw new Error(response.statusText);
    const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
    return document.adoptNode(parsed.body).childNodes;
  };

  const connect = (box) => {
    const parts = template.content.cloneNode(true);
    const [button, sample] = parts.children;
    let timer = null;

    const show = async () => {
      const text = box.value;
      try {
        const nodes = await render(box);
        if (text === box.value) sample.replaceChildren(...nodes);
      } catch {
        sample.textContent = failed;
      }
    };

    button.addEventListener("click", async () => {
      if (sample.hidden) await show();
      sample.hidden = !sample.hidden;
      button.setAttribute("aria-expanded", String(!sample.hidden));
    });
    box.addEventListener("input", () => {
      clearTimeout(timer);
      if (!sample.hidden) timer = setTimeout(show, DELAY);
    });
    box.after(parts);
  };

  document.querySelectorAll("textarea[data-markdown]").forEach(connect);
})();
