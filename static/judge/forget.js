// After leaving this device or deleting the answers: remove what this browser stored about the worker.
// Unsent answers stay on the device after leaving: they are sent when the worker returns with their code.

import { forgetOfflinePage } from "./offline.js";
import { createStore } from "./store.js";

const { store: name, study, deleted } = document.getElementById("forget").dataset;
const store = createStore(name);
store.forgetTask();
forgetOfflinePage(study);
if (deleted !== undefined || !store.entries().length) store.clear();
