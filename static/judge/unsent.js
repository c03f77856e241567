// Pages without a pair (thank you, not open): send the answers stored on this device and show how many are left.

import { renewOfflinePage } from "./offline.js";
import { createSender } from "./sender.js";
import { createStore } from "./store.js";

const notice = document.getElementById("unsent-notice");
const store = createStore(notice.dataset.store);

// A participation ends once its answers are on the server, unless the server does not take them now.
const finish = document.querySelector("[data-finish]");
let refused = false;

const show = () => {
  const count = store.entries().length;
  if (finish) finish.disabled = Boolean(count) && !refused;
  notice.hidden = !count;
  notice.textContent = notice.dataset.text.replace("{n}", count);
};

const stopped = () => {
  refused = true;
  show();
};

const settled = () => {
  if (store.entries().length) show();
  else window.location.reload(); // the page shows the number of saved answers
};

const sender = createSender({
  store,
  name: notice.dataset.store,
  urls: { judgement: notice.dataset.submit, retraction: notice.dataset.retract, task: notice.dataset.task },
  csrf: notice.dataset.csrf,
  callbacks: { settled, task: show, stopped, waiting: show },
});

show();
renewOfflinePage();
if (store.entries().length) sender.send();
window.addEventListener("online", sender.send);
window.addEventListener("storage", show); // another tab has sent some
