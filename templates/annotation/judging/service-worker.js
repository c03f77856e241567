// Shows the study when its page is loaded without a connection. Online, every request goes to the server.
// Only a page without pairs and the files it needs are stored; the pairs are in the storage of the page's script.

const VERSION = 1; // increment it when other kinds of files are stored; caches of other versions are deleted
const { scope } = self.registration;
const PREFIX = `concord ${scope} `;
const CACHE = `${PREFIX}${VERSION}`;
const OFFLINE_PAGE = new URL("offline/", scope).href;
const NETWORK_TIMEOUT = 10000; // milliseconds; phones keep dead connections open

const filesOf = (html) => {
  const paths = [...html.matchAll(/(?:href|src)="([^"?#]+\.(?:css|js|svg))"/g)].map(([, path]) => path);
  return [...new Set(paths.map((path) => new URL(path, scope).href))];
};

// Replace the page and its files. If one of them cannot be fetched, the old ones stay.
// The server refuses the page to anyone who has nothing to judge here; then everything is deleted.
const renew = async () => {
  const page = await fetch(OFFLINE_PAGE, { cache: "no-store" });
  if (page.status === 404) {
    await caches.delete(CACHE);
    return;
  }
  if (!page.ok) return;
  const urls = filesOf(await page.clone().text());
  const files = await Promise.all(urls.map((url) => fetch(url)));
  if (!files.every((file) => file.ok)) return;
  const cache = await caches.open(CACHE);
  await Promise.all(urls.map((url, position) => cache.put(url, files[position])));
  await cache.put(OFFLINE_PAGE, page);
  const stored = await cache.keys();
  const outdated = stored.filter(({ url }) => url !== OFFLINE_PAGE && !urls.includes(url));
  await Promise.all(outdated.map((request) => cache.delete(request)));
};

const find = (url) => caches.match(url, { cacheName: CACHE, ignoreVary: true });

const timeout = () => new Promise((resolve) => { setTimeout(resolve, NETWORK_TIMEOUT); });

const fetchPage = async (request) => {
  const online = fetch(request);
  const first = await Promise.race([online.catch(() => undefined), timeout()]);
  return first ?? (await find(OFFLINE_PAGE)) ?? online;
};

const fetchFile = async (request) => {
  try {
    return await fetch(request);
  } catch (error) {
    const stored = await find(request.url);
    if (!stored) throw error;
    return stored;
  }
};

const isStudyPage = ({ mode, url }) => mode === "navigate" && url.split(/[?#]/)[0] === scope;

const isFile = ({ destination }) => ["script", "style", "image"].includes(destination);

const deleteOtherVersions = async () => {
  const names = (await caches.keys()).filter((name) => name.startsWith(PREFIX) && name !== CACHE);
  await Promise.all(names.map((name) => caches.delete(name)));
};

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => {
  event.waitUntil(Promise.all([deleteOtherVersions(), self.clients.claim()]));
});
self.addEventListener("message", (event) => {
  if (event.data === "renew") event.waitUntil(renew().catch(() => {})); // offline: what is stored stays
});
self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET") return;
  if (isStudyPage(request)) event.respondWith(fetchPage(request));
  else if (isFile(request)) event.respondWith(fetchFile(request));
});
