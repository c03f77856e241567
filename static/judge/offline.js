// The service worker of a study, which shows its page without a connection. Browsers have none on pages without TLS.

const workers = navigator.serviceWorker;

// Install the service worker and store the page as it is now for this worker.
export const keepForOffline = async (url) => {
  try {
    await workers.register(url, { updateViaCache: "none" });
    (await workers.ready).active.postMessage("renew");
  } catch { /* the study works without it while there is a connection */ }
};

// Let the service worker check whether this browser still has something to judge; if not, it deletes what it stored.
export const renewOfflinePage = () => workers?.controller?.postMessage("renew");

// Remove the service worker and what it stored for the study at this address.
export const forgetOfflinePage = async (scope) => {
  try {
    const { href } = new URL(scope, window.location.href);
    const names = (await caches.keys()).filter((name) => name.startsWith(`concord ${href} `));
    await Promise.all(names.map((name) => caches.delete(name)));
    await (await workers.getRegistration(href))?.unregister();
  } catch { /* there is none */ }
};
