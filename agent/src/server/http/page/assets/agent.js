'use strict';
// The line to the agent: questions with an end, and the signal that something changed. The signal has
// no content; whoever shows something asks again. Decides whether the agent is there.

const Agent = (() => {
/// Longer than the agent takes to say that it is too busy.
const PATIENCE = 12000;
const RECONNECT = [500, 1000, 2000, 5000];
/// A signal may be lost between two connections; nothing stays wrong for longer than this.
const AT_LEAST = 30000;

const listeners = { news: [], state: [] };
const on = (what, act) => listeners[what].push(act);
const tell = (what, value) => listeners[what].forEach(act => act(value));

// 'connecting', 'live', 'reconnecting', 'polling' (all places for listeners are taken) or 'away'.
let state = 'connecting';
const become = next => {
  if (next === state) return;
  state = next;
  tell('state', state);
};

/// What the agent said instead of an answer.
class Refusal extends Error {}

/// Asks. Without an answer there is null; a refusal is thrown.
const ask = async (question, parameters = {}, outer = null) => {
  const given = Object.entries(parameters).filter(([, value]) => value !== '');
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), PATIENCE);
  outer?.addEventListener('abort', () => abort.abort());
  let response, body;
  try {
    response = await fetch(`/api/v1/${question}?${new URLSearchParams(given)}`, { signal: abort.signal });
    body = await response.json();
  } catch {
    if (!outer?.aborted) {
      become('away');
      connectLater();
    }
    return null;
  } finally {
    clearTimeout(timer);
  }
  if (state === 'away') become('reconnecting');
  if (!response.ok) throw new Refusal(body.error);
  return body;
};

let source = null;
let attempts = 0;
let retry = null;

const disconnect = () => {
  clearTimeout(retry);
  retry = null;
  source?.close();
};

const connect = () => {
  disconnect();
  source = new EventSource('/api/v1/events');
  source.addEventListener('open', () => {
    attempts = 0;
    become('live');
  });
  source.addEventListener('news', () => tell('news'));
  source.addEventListener('error', () => {
    // Closed for good is a refusal: no place is free. Else the line broke, or had its time; the first
    // try to mend it comes at once and mostly succeeds, so there is nothing to show yet.
    if (source.readyState === EventSource.CLOSED) become('polling');
    else if (state === 'live' && attempts > 0) become('reconnecting');
    source.close();
    connectLater();
  });
};

const connectLater = () => {
  if (retry || document.hidden) return;
  const pause = RECONNECT[Math.min(attempts, RECONNECT.length - 1)];
  attempts += 1;
  retry = setTimeout(async () => {
    retry = null;
    // A question tells whether somebody is there, which a broken line does not.
    const isThere = await ask('summary').catch(() => true);
    if (!isThere) return;
    tell('news');
    connect();
  }, pause);
};

// A page that nobody looks at keeps no place from others.
document.addEventListener('visibilitychange', () => {
  if (document.hidden) return disconnect();
  attempts = 0;
  connect();
});

/// Repeats `act` when there is news, never twice at a time, and with a pause that grows with what an
/// answer costs.
const follow = act => {
  let isRunning = false;
  let isWanted = false;
  const run = async () => {
    isWanted = true;
    if (isRunning || document.hidden) return;
    isRunning = true;
    while (isWanted) {
      isWanted = false;
      const began = performance.now();
      await act();
      const pause = Math.max(50, Math.min(5000, 4 * (performance.now() - began)));
      await new Promise(done => setTimeout(done, pause));
    }
    isRunning = false;
  };
  on('news', run);
  setInterval(() => { if (state !== 'away') run(); }, AT_LEAST);
  run();
};

return { ask, on, connect, follow, Refusal, isAway: () => state === 'away' };
})();
