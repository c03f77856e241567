// What this device keeps until the server has acknowledged it: answers and undoings, oldest first.
// Each entry has a storage key of its own, so that two tabs writing at once cannot overwrite each other's answers.

const SETTLED_KEPT = 100;

export const newId = () => {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is missing where the page came without TLS
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
};

// A browser may forbid storage or have no room left. The answer then lives as long as the page, which warns on closing.
const forgetful = (area) => {
  const memory = new Map();
  const attempt = (action) => {
    try {
      return action();
    } catch {
      return undefined;
    }
  };
  return {
    keys: () => [...new Set([...memory.keys(), ...(attempt(() => Object.keys(area())) ?? [])])],
    get: (key) => memory.get(key) ?? attempt(() => area().getItem(key)) ?? null,
    set: (key, value) => {
      const written = attempt(() => {
        area().setItem(key, value);
        return true;
      });
      if (!written) memory.set(key, value);
    },
    remove: (key) => {
      memory.delete(key);
      attempt(() => area().removeItem(key));
    },
  };
};

const parsed = (text, otherwise) => {
  try {
    return JSON.parse(text) ?? otherwise;
  } catch {
    return otherwise;
  }
};

export const createStore = (name) => {
  const area = forgetful(() => window.localStorage);
  const prefix = `${name}/entry/`;
  const settledKey = `${name}/settled`;

  const study = name.slice(0, name.lastIndexOf("-") + 1); // what the names of all its workers begin with

  const isStray = (key) => {
    const [owner, kind] = key.split("/");
    return kind === "entry" && owner !== name && owner.startsWith(study) && !owner.slice(study.length).includes("-");
  };

  const keys = () => area.keys().filter((key) => key.startsWith(prefix)).sort();
  const entryAt = (key) => ({ ...parsed(area.get(key), {}), key });
  const entries = () => keys().map(entryAt).filter((entry) => entry.uuid);

  // Numbered after the last entry, not by the clock: clocks of phones jump.
  const nextNumber = () => {
    const last = keys().at(-1);
    return String(last ? Number(last.slice(prefix.length).split("-")[0]) + 1 : 1).padStart(8, "0");
  };

  const write = ({ key, ...entry }) => area.set(key, JSON.stringify(entry));
  const settled = () => parsed(area.get(settledKey), []);
  const writeSettled = (ids) => area.set(settledKey, JSON.stringify(ids.slice(-SETTLED_KEPT)));

  return {
    entries,
    first: () => entries()[0],
    last: () => entries().at(-1),
    add: (entry) => write({ ...entry, key: `${prefix}${nextNumber()}-${entry.uuid}` }),
    // From the first try on the server may know it, whatever came back: it can no longer simply be forgotten.
    markTried: (entry) => write({ ...entry, tried: true }),
    remove: (entry) => area.remove(entry.key),
    // Assignments the server has an answer to. A list of pairs that was under way meanwhile must not bring them back.
    settled,
    settle: (assignment) => writeSettled([...settled(), assignment]),
    reopen: (assignments) => writeSettled(settled().filter((id) => !assignments.includes(id))),
    // Answers of a worker this browser no longer is. Nobody can send them in another's name.
    strays: () => area.keys().filter(isStray).length,
    isOurs: (key) => key === null || key.startsWith(`${name}/`),
  };
};
