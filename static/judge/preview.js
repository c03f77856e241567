// Replaces the sender in a researcher's preview: answers and undo work on this page, and nothing is stored or sent.

export const noStorage = () => {
  throw new Error("a preview stores nothing");
};

export const createPreviewSender = ({ store, getTask, callbacks }) => {
  const answered = []; // the pairs with their answers, to undo them

  const answer = (task, entry) => {
    const isAnswered = (pair) => pair.assignment === entry.assignment;
    answered.push({ entry, pair: task.pairs.find(isAnswered) });
    return { ...task, pairs: task.pairs.filter((pair) => !isAnswered(pair)), done: task.done + 1 };
  };

  const retract = (task) => {
    const { pair } = answered.pop();
    return { ...task, pairs: [pair, ...task.pairs], done: task.done - 1 };
  };

  const settle = (entry) => {
    const next = entry.kind === "judgement" ? answer(getTask(), entry) : retract(getTask());
    const last = answered.at(-1)?.entry;
    store.remove(entry);
    callbacks.settled(entry, "done", {
      next: { ...next, undo: last?.uuid ?? null, undo_choice: last?.choice ?? null, finished: !next.pairs.length },
    });
  };

  return {
    send: () => store.entries().forEach(settle),
    sync: () => {},
    drop: async () => false,
    isFailing: () => false,
    nextTry: () => null,
  };
};
