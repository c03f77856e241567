// Keeps a dashboard current: a socket says that something changed, the page then fetches that part by HTTP.
// Messages are only hints; when the socket breaks, it is opened again with growing pauses and the page caught up.
(() => {
  "use strict";
  const live = document.getElementById("live");
  if (!live) return;

  const FIRST_PAUSE = 500;
  const LONGEST_PAUSE = 15000;
  const LONGEST_SILENCE = 45000; // the server repeats itself every 30 seconds; a dead network says nothing at all
  const SAY_AFTER = 5000;
  const note = document.getElementById("live-paused");
  let pause = FIRST_PAUSE;
  let shown = { revision: Number(live.dataset.revision), labels: Number(live.dataset.labels), mark: live.dataset.mark };
  let wanted = null; // the part to fetch next: "status" or the whole live part, "1"
  let fetching = false;
  let saying = null;

  // A page about one version need not be fetched again for every judgement: only the lines about its freshness.
  const partFor = (told) => {
    const same = ["revision", "labels", "mark"].every((name) => told[name] === shown[name]);
    if (same) return null;
    const aboutOneVersion = live.dataset.follows === "revision" && told.revision > 0;
    return aboutOneVersion && told.revision === shown.revision ? "status" : "1";
  };

  const refresh = async (part) => {
    if (wanted !== "1") wanted = part;
    if (fetching) return;
    fetching = true;
    while (wanted) {
      const now = wanted;
      wanted = null;
      await fetchPart(now);
    }
    fetching = false;
  };

  const fetchPart = async (part) => {
    try {
      const address = new URL(window.location.href);
      address.searchParams.set("fragment", part);
      const answer = await fetch(address, { headers: { Accept: "text/html" } });
      if (answer.redirected || answer.status === 404) window.location.reload(); // logged out, or no longer a member
      else if (answer.ok) await replace(part, await answer.text());
      else shown = {}; // the next message asks again
    } catch {
      shown = {};
    }
  };

  const replace = async (part, html) => {
    const parsed = new DOMParser().parseFromString(html, "text/html");
    const fresh = document.adoptNode(parsed.body);
    const place = part === "status" ? document.getElementById("status") : live;
    if (!place) return;
    await untilNobodyWritesIn(place);
    keep(place, fresh);
    if (part === "status") place.replaceWith(...fresh.childNodes);
    else live.replaceChildren(...fresh.childNodes);
    document.dispatchEvent(new CustomEvent("live:replaced"));
  };

  // Whoever is about to choose in a list or to write keeps it until they have left it.
  const untilNobodyWritesIn = (place) => new Promise((resolve) => {
    const active = document.activeElement;
    if (!place.contains(active) || !active.matches("input, select, textarea")) resolve();
    else active.addEventListener("blur", () => resolve(), { once: true });
  });

  // What a script has drawn stays and is drawn over; what was unfolded stays unfolded.
  const keep = (place, fresh) => {
    for (const spot of fresh.querySelectorAll("[data-keep]")) {
      const kept = document.getElementById(spot.id);
      if (kept) spot.replaceWith(kept);
    }
    for (const open of place.querySelectorAll("details[id][open]")) {
      const again = fresh.querySelector(`#${CSS.escape(open.id)}`);
      if (again) again.open = true;
    }
  };

  // Said only after a while: a short break heals before anybody reads about it.
  const paused = (now) => {
    live.dataset.state = now ? "paused" : "live";
    window.clearTimeout(saying);
    saying = now ? window.setTimeout(() => { note.hidden = false; }, SAY_AFTER) : null;
    if (!now) note.hidden = true;
  };

  const connect = () => {
    const scheme = window.location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${window.location.host}${live.dataset.socket}`);
    let over = false;
    let silence = null;
    const lost = () => {
      if (over) return;
      over = true;
      window.clearTimeout(silence);
      socket.close();
      if (saying === null) paused(true);
      window.setTimeout(connect, pause * (0.5 + Math.random()));
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    };
    silence = window.setTimeout(lost, LONGEST_SILENCE);
    socket.addEventListener("message", (event) => {
      if (over) return;
      window.clearTimeout(silence);
      silence = window.setTimeout(lost, LONGEST_SILENCE);
      pause = FIRST_PAUSE; // a server that speaks is well; one that only opens the door may be not
      paused(false);
      const told = JSON.parse(event.data);
      const part = partFor(told);
      shown = told;
      if (part) refresh(part);
    });
    socket.addEventListener("close", lost);
    window.addEventListener("offline", lost, { once: true });
  };

  connect();
})();
