// Fills each element that names a fragment: <div data-fragment="/address" hidden>. What is not ready yet is asked for
// again a few times; what never comes leaves no trace.
(() => {
  "use strict";
  const PAUSE = 15000;
  const TRIES = 8;
  const NOT_YET = 202;

  const fill = async (place, tries) => {
    let answer;
    try {
      answer = await fetch(place.dataset.fragment, { headers: { Accept: "text/html" } });
    } catch {
      return;
    }
    if (answer.status === NOT_YET && tries > 1) {
      window.setTimeout(() => fill(place, tries - 1), PAUSE);
    } else if (answer.status === 200) {
      const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
      place.replaceChildren(...document.adoptNode(parsed.body).childNodes);
      place.hidden = false;
    }
  };

  document.querySelectorAll("[data-fragment]").forEach((place) => fill(place, TRIES));
})();
