// On pages for visitors whom this browser does not know: show how many answers of an earlier participation are unsent.

import { renewOfflinePage } from "./offline.js";
import { createStore } from "./store.js";

const notice = document.getElementById("earlier-answers");
const count = createStore(notice.dataset.store).orphanedCount();
notice.textContent = notice.dataset.text.replace("{n}", count);
notice.hidden = !count;
renewOfflinePage();
