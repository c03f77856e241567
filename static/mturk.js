// The page in MTurk's frame asks the server until the worker has ended, then shows the form that submits the HIT.
(() => {
  "use strict";
  const INTERVAL = 5000; // milliseconds

  const check = async () => {
    const current = document.getElementById("mturk");
    try {
      const response = await fetch(window.location.href, { headers: { Accept: "text/html" } });
      const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
      const next = response.ok && parsed.getElementById("mturk");
      if (next && !("poll" in next.dataset)) {
        current.replaceChildren(...document.adoptNode(next).childNodes);
        return;
      }
    } catch { /* offline: try again */ }
    window.setTimeout(check, INTERVAL);
  };

  if ("poll" in document.getElementById("mturk").dataset) window.setTimeout(check, INTERVAL);
})();
