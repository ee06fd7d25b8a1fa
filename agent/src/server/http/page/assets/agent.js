'use strict';
// The line to the agent: questions with an end, and the signal that something changed. The signal has
// no content; whoever shows something asks again. Decides whether the agent is there.

const Agent = (() => {
  const PATIENCE = 8000;
  const RECONNECT = [500, 1000, 2000, 5000];
  /// Without signals (all places are taken) it is asked so often.
  const POLL = 5000;
  /// A signal may be lost between two connections; nothing stays wrong for longer than this.
  const AT_LEAST = 30000;

  const listeners = { news: [], state: [] };
  const on = (what, act) => listeners[what].push(act);
  const tell = (what, value) => listeners[what].forEach(act => act(value));

  // 'connecting', 'live', 'reconnecting', 'polling' or 'away'; away has since when.
  let now = { state: 'connecting' };
  const become = state => {
    if (state === now.state) return;
    now = { state, since: new Date() };
    tell('state', now);
  };

  /// What the agent said instead of an answer.
  class Refusal extends Error {}

  /// Asks; throws a Refusal with the agent's words, or some other error when there was no answer.
  const ask = async (question, parameters = {}, outer = null) => {
    const given = Object.entries(parameters).filter(([, value]) => value !== '' && value !== null);
    const query = new URLSearchParams(given).toString();
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), PATIENCE);
    outer?.addEventListener('abort', () => abort.abort());
    try {
      const address = `/api/v1/${question}${query ? `?${query}` : ''}`;
      const response = await fetch(address, { signal: abort.signal, cache: 'no-store' });
      const body = await response.json();
      present();
      if (!response.ok) throw new Refusal(body.error || `the agent answered ${response.status}`);
      return body;
    } catch (error) {
      if (!(error instanceof Refusal) && !outer?.aborted) absent();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  };

  let source = null;
  let attempts = 0;
  let retry = null;
  let poll = null;

  const present = () => {
    if (now.state === 'away') become('reconnecting');
  };

  const absent = () => {
    become('away');
    connectLater();
  };

  const connect = () => {
    clearTimeout(retry);
    retry = null;
    source?.close();
    source = new EventSource('/api/v1/events');
    source.addEventListener('open', () => {
      attempts = 0;
      clearInterval(poll);
      poll = null;
      become('live');
    });
    source.addEventListener('news', () => tell('news'));
    source.addEventListener('error', () => {
      // Closed for good is a refusal: no place is free. Else the line broke, or had its time.
      const isRefused = source.readyState === EventSource.CLOSED;
      source.close();
      if (isRefused && now.state !== 'away') {
        become('polling');
        poll = poll || setInterval(() => tell('news'), POLL);
      } else if (now.state === 'live' && attempts === 0) {
        // The first try comes at once and mostly succeeds: nothing to show yet.
      } else if (now.state !== 'away') {
        become('reconnecting');
      }
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
      try {
        await ask('summary');
        connect();
      } catch (error) {
        if (error instanceof Refusal) connect();
      }
    }, pause);
  };

  // A page that nobody looks at keeps no place from others.
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) {
      clearTimeout(retry);
      retry = null;
      source?.close();
    } else {
      attempts = 0;
      connect();
      tell('news');
    }
  });

  /// Repeats `act` when there is news, never twice at a time, and with a pause that grows with what an
  /// answer costs.
  const follow = act => {
    let isRunning = false;
    let isWanted = false;
    const run = async () => {
      isWanted = true;
      if (isRunning) return;
      isRunning = true;
      while (isWanted) {
        isWanted = false;
        const began = performance.now();
        await act();
        const pause = Math.min(5000, 4 * (performance.now() - began));
        await new Promise(done => setTimeout(done, Math.max(50, pause)));
      }
      isRunning = false;
    };
    on('news', () => { if (!document.hidden) run(); });
    setInterval(() => { if (now.state !== 'away' && !document.hidden) run(); }, AT_LEAST);
    return run;
  };

  return { ask, on, connect, follow, Refusal, state: () => now };
})();
