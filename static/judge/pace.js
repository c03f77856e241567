// How long this worker takes for a pair, from their last answers on this device.

const MAX_TIMES = 15;
const MIN_TIMES = 3; // before an estimate is shown
const LONGEST = 180000; // milliseconds; a longer time was a break

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
};

export const createPace = (name, getStorage) => {
  const key = `${name}/pace`;
  let times = [];
  try {
    times = JSON.parse(getStorage().getItem(key)) ?? [];
  } catch { /* without storage the pace is known until the page is left */ }

  return {
    add: (milliseconds) => {
      times = [...times, Math.min(milliseconds, LONGEST)].slice(-MAX_TIMES);
      try {
        getStorage().setItem(key, JSON.stringify(times));
      } catch { /* as above */ }
    },
    // Minutes for this many pairs, or null if too little is known.
    minutes: (pairs) => (times.length < MIN_TIMES ? null : Math.max(1, Math.round((median(times) * pairs) / 60000))),
  };
};
