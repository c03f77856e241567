// On the pages without a pair (thank you, not open): sends what this device still keeps, and says how much that is.

import { createSender } from "./sender.js";
import { createStore } from "./store.js";

const root = document.getElementById("deliver");
const store = createStore(root.dataset.store);

const show = () => {
  const kept = store.entries().length;
  root.hidden = !kept;
  root.textContent = root.dataset.kept.replace("{n}", kept);
};

const settled = () => {
  if (store.entries().length) show();
  else window.location.reload(); // the page counts what is saved
};

const sender = createSender({
  store,
  name: root.dataset.store,
  addresses: { judgement: root.dataset.submit, retraction: root.dataset.retract, task: root.dataset.task },
  csrf: root.dataset.csrf,
  report: { settled, task: show, stopped: show, waiting: show },
});

show();
if (store.entries().length) sender.send();
window.addEventListener("online", sender.send);
