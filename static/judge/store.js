// Local queue of answers and undo requests that the server has not acknowledged yet, oldest first.
// Each entry has its own storage key, so that two tabs cannot overwrite each other's answers.

const MAX_SETTLED = 100;

export const newId = () => {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is missing on pages without TLS
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
};

// A flag of this tab. Without storage it counts as set, so that nothing is repeated endlessly.
export const sessionFlag = (key) => {
  const attempt = (action) => {
    try {
      return action();
    } catch {
      return true;
    }
  };
  return {
    set: () => attempt(() => sessionStorage.setItem(key, "1")),
    clear: () => attempt(() => sessionStorage.removeItem(key)),
    isSet: () => attempt(() => sessionStorage.getItem(key) !== null),
  };
};

// Falls back to memory if the browser forbids storage or has no room left. Entries in memory are lost when the page is
// closed, so the page warns before that.
const withMemoryFallback = (getStorage) => {
  const memory = new Map();
  const attempt = (action) => {
    try {
      return action();
    } catch {
      return undefined;
    }
  };
  return {
    keys: () => [...new Set([...memory.keys(), ...(attempt(() => Object.keys(getStorage())) ?? [])])],
    get: (key) => memory.get(key) ?? attempt(() => getStorage().getItem(key)) ?? null,
    set: (key, value) => {
      const written = attempt(() => {
        getStorage().setItem(key, value);
        return true;
      });
      if (written) memory.delete(key);
      else memory.set(key, value);
      return Boolean(written);
    },
    remove: (key) => {
      memory.delete(key);
      attempt(() => getStorage().removeItem(key));
    },
  };
};

const parseOr = (text, fallback) => {
  try {
    return JSON.parse(text) ?? fallback;
  } catch {
    return fallback;
  }
};

// `name` is "concord-<slug>-<worker code>".
export const createStore = (name, getStorage = () => window.localStorage) => {
  const storage = withMemoryFallback(getStorage);
  const prefix = `${name}/entry/`;
  const taskKey = `${name}/task`;
  const settledKey = `${name}/settled`;
  const studyPrefix = name.slice(0, name.lastIndexOf("-") + 1);
  const currentKey = `${studyPrefix}/current`;

  // An entry of another worker of this study, from an earlier session in this browser.
  const isOrphaned = (key) => {
    const [owner, kind] = key.split("/");
    const isOtherWorker = owner !== name && owner.startsWith(studyPrefix);
    return kind === "entry" && isOtherWorker && !owner.slice(studyPrefix.length).includes("-");
  };

  const keys = () => storage.keys().filter((key) => key.startsWith(prefix)).sort();
  const read = (key) => ({ ...parseOr(storage.get(key), {}), key });
  const entries = () => keys().map(read).filter((entry) => entry.uuid);

  // Numbered by the last entry, not by the clock: the clock of a phone can jump.
  const nextNumber = () => {
    const last = keys().at(-1);
    return String(last ? Number(last.slice(prefix.length).split("-")[0]) + 1 : 1).padStart(8, "0");
  };

  // Answers take priority over the copy of the task: if there is no room for both, the copy is dropped.
  const write = ({ key, ...entry }) => {
    if (storage.set(key, JSON.stringify(entry))) return;
    storage.remove(taskKey);
    storage.set(key, JSON.stringify(entry));
  };
  const settled = () => parseOr(storage.get(settledKey), []);
  const writeSettled = (ids) => storage.set(settledKey, JSON.stringify(ids.slice(-MAX_SETTLED)));

  return {
    entries,
    first: () => entries()[0],
    last: () => entries().at(-1),
    add: (entry) => write({ ...entry, key: `${prefix}${nextNumber()}-${entry.uuid}` }),
    // Once sending was tried, the server may have the entry even if no response arrived: it cannot simply be dropped.
    markTried: (entry) => write({ ...entry, tried: true }),
    remove: (entry) => storage.remove(entry.key),
    // Assignments that the server has an answer for. A list of pairs requested earlier must not bring them back.
    settled,
    settle: (assignment) => writeSettled([...settled(), assignment]),
    reopen: (assignments) => writeSettled(settled().filter((id) => !assignments.includes(id))),
    // The task as the server last sent it, for a page that is loaded offline. Only the worker who used this browser last
    // can go on offline.
    saveTask: (task) => {
      if (!storage.set(taskKey, JSON.stringify(task))) storage.remove(taskKey);
      storage.set(currentKey, name);
    },
    savedTask: () => (storage.get(currentKey) === name ? parseOr(storage.get(taskKey), null) : null),
    forgetTask: () => [taskKey, currentKey].forEach(storage.remove),
    clear: () => storage.keys().filter((key) => key.startsWith(`${name}/`)).forEach(storage.remove),
    orphanedCount: () => storage.keys().filter(isOrphaned).length,
    ownsKey: (key) => key === null || key.startsWith(`${name}/`),
  };
};
