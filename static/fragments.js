// Loads the fragment that an element names: <div data-fragment="/address" hidden>. A fragment that is not ready (202) is
// requested again a few times; if it never is, the element stays hidden.
(() => {
  "use strict";
  const DELAY = 15000;
  const ATTEMPTS = 8;
  const NOT_READY = 202;

  const load = async (element, attempts) => {
    let response;
    try {
      response = await fetch(element.dataset.fragment, { headers: { Accept: "text/html" } });
    } catch {
      return;
    }
    if (response.status === NOT_READY && attempts > 1) {
      window.setTimeout(() => load(element, attempts - 1), DELAY);
    } else if (response.status === 200) {
      const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
      element.replaceChildren(...document.adoptNode(parsed.body).childNodes);
      element.hidden = false;
    }
  };

  document.querySelectorAll("[data-fragment]").forEach((element) => load(element, ATTEMPTS));
})();
