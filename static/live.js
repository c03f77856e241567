// Keeps a dashboard current: a socket says that something changed, the page then fetches its live part by HTTP.
// Messages are only hints; when the socket breaks, it is opened again with growing pauses and the page caught up.
(() => {
  "use strict";
  const live = document.getElementById("live");
  if (!live) return;

  const FIRST_PAUSE = 500;
  const LONGEST_PAUSE = 15000;
  const SAY_AFTER = 5000;
  let pause = FIRST_PAUSE;
  let shown = `${live.dataset.revision}/${live.dataset.labels}`;
  let fetching = false;
  let again = false;
  let saying = null;
  const note = document.getElementById("live-paused");

  const refresh = async () => {
    if (fetching) {
      again = true;
      return;
    }
    fetching = true;
    try {
      const address = new URL(window.location.href);
      address.searchParams.set("fragment", "1");
      const answer = await fetch(address, { headers: { Accept: "text/html" } });
      if (answer.redirected || answer.status === 404) window.location.reload(); // logged out, or no longer a member
      else if (answer.ok) replace(await answer.text());
      else shown = ""; // the next message asks again
    } catch {
      shown = "";
    }
    fetching = false;
    if (again) {
      again = false;
      refresh();
    }
  };

  const replace = (html) => {
    const parsed = new DOMParser().parseFromString(html, "text/html");
    live.replaceChildren(...document.adoptNode(parsed.body).childNodes);
  };

  // Said only after a while: a short break heals before anybody reads about it.
  const paused = (now) => {
    window.clearTimeout(saying);
    if (now) saying = window.setTimeout(() => { note.hidden = false; }, SAY_AFTER);
    else note.hidden = true;
  };

  const connect = () => {
    const scheme = window.location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${window.location.host}${live.dataset.socket}`);
    socket.addEventListener("open", () => {
      pause = FIRST_PAUSE;
      paused(false);
    });
    socket.addEventListener("message", (event) => {
      const { revision, labels } = JSON.parse(event.data);
      const told = `${revision}/${labels}`;
      if (told !== shown) {
        shown = told;
        refresh();
      }
    });
    socket.addEventListener("close", () => {
      paused(true);
      window.setTimeout(connect, pause * (0.5 + Math.random()));
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    });
  };

  connect();
})();
