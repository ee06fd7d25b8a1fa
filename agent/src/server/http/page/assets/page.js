'use strict';
// The page around the views: which one is shown (by the address), the header, whether the agent is there,
// and the keys that work everywhere.

(() => {
  const { el, fill, text, link, row, tag } = Draw;
  const views = [Sessions, Routes, Pods, Explain, Check];
  const at = id => document.getElementById(id);
  const clock = when => when.toTimeString().slice(0, 5);

  let view = null;
  const focused = new Map();
  /// Where Esc leads back to from an explanation.
  let from = '#/routes';
  let summary = null;

  // #/routes?find=10.0 is a view, what follows its name, and a query.
  const place = () => {
    const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
    const [name, ...rest] = path.split('/');
    return { name, rest: decode(rest.join('/')), query: new URLSearchParams(query || '') };
  };

  const decode = written => {
    try {
      return decodeURIComponent(written);
    } catch {
      return written;
    }
  };

  const go = change => {
    const old = change?.oldURL ? new URL(change.oldURL).hash : '';
    if (old.startsWith('#/') && !old.startsWith('#/explain')) from = old;
    if (location.hash && !location.hash.startsWith('#/')) return;
    const { name, rest, query } = place();
    const chosen = views.find(one => one.name === name) || Sessions;
    const isOther = chosen !== view;
    const main = at('main');
    const held = main.contains(document.activeElement) ? document.activeElement : null;
    if (view && isOther) focused.set(view, held);
    view = chosen;
    const root = view.open(rest, query);
    if (isOther) {
      fill(main, root);
      // Focus goes where it was when this view was left, and with whoever followed a link inside.
      const before = focused.get(view);
      if (held && before?.isConnected) before.focus();
      else if (held) main.focus({ preventScroll: true });
    }
    for (const tab of document.querySelectorAll('.views a')) {
      if (tab.hash === `#/${view.name}`) tab.setAttribute('aria-current', 'page');
      else tab.removeAttribute('aria-current');
    }
    headline();
    if (summary) refresh(view);
  };

  const refresh = async shown => {
    try {
      await shown.refresh(summary);
    } catch (error) {
      if (error instanceof Agent.Refusal) complain(error.message);
    }
  };

  const look = async () => {
    try {
      summary = await Agent.ask('summary');
      complain('');
      header();
      Sessions.note(summary);
      headline();
      await refresh(view);
    } catch (error) {
      if (error instanceof Agent.Refusal) complain(error.message);
    }
  };

  const headline = () => {
    const node = summary ? summary.node : 'flock';
    const down = summary ? summary.peers.filter(peer => peer.state !== 'Established').length : 0;
    document.title = Draw.plain(`${down ? `${down} down · ` : ''}${view.title} · ${node}`);
  };

  const header = () => {
    at('node').textContent = Draw.plain(summary.node);
    const who = summary.asn === null ? [tag('no BGP', 'plain')] : [
      text(`AS ${summary.asn}`, 'fact'), text(`router ID ${summary.routerId}`, 'fact'),
      summary.drain ? tag(summary.drain, 'warn') : tag('in service', 'plain'),
    ];
    Table.show(at('who'), row(who));
    const up = summary.peers.filter(peer => peer.state === 'Established').length;
    const all = summary.peers.length;
    figure('sessions', 'Sessions up', '#/sessions', `${up} of ${all}`, up < all ? 'bad' : '');
    figure('originated', 'Originated', '#/routes?which=originated', Draw.count(summary.originated), '');
    figure('learned', 'Learned', '#/routes?which=received', Draw.count(summary.learned), '');
    const isMissing = summary.installed < summary.learned;
    figure('installed', 'In the kernel', '#/routes?which=received', Draw.count(summary.installed), isMissing ? 'warn' : '');
  };

  const figures = new Map();
  const figure = (key, title, href, value, tone) => {
    let shown = figures.get(key);
    if (!shown) {
      shown = el('dd');
      figures.set(key, shown);
      at('figures').append(el('div', {}, el('dt', {}, title), shown));
    }
    Table.show(shown, link(href, value, tone && `tone-${tone}`));
  };

  const complain = words => {
    const banner = at('banner');
    if (Agent.state().state === 'away') return;
    banner.textContent = Draw.plain(words);
    banner.hidden = words === '';
  };

  const words = {
    connecting: () => 'connecting',
    live: () => 'live',
    reconnecting: () => 'reconnecting',
    polling: () => 'asking every 5 s: all places for live updates are taken',
    away: since => `agent away since ${clock(since)}`,
  };
  const standing = ({ state, since }) => {
    const live = at('live');
    live.dataset.state = state;
    live.textContent = words[state](since);
    document.body.classList.toggle('away', state === 'away');
    const banner = at('banner');
    banner.hidden = state !== 'away';
    banner.textContent = state === 'away' ? `The agent does not answer since ${clock(since)}. `
      + 'What is shown is how it was then; pods and routes in the kernel stay as they are.' : '';
  };

  const keys = event => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    const isTyping = event.target.matches('input:not([type=radio]), select, textarea');
    if (event.key === '/' && !isTyping) {
      event.preventDefault();
      if (!at('main').querySelector('[data-search]')) {
        history.pushState(null, '', '#/routes');
        go();
      }
      at('main').querySelector('[data-search]').focus();
    } else if (event.key === 'Escape' && event.target.matches('[data-search]')) {
      if (event.target.value === '') event.target.blur();
    } else if (event.key === 'Escape' && view === Explain && !isTyping) {
      location.hash = from;
    }
  };

  at('skip').addEventListener('click', event => {
    event.preventDefault();
    at('main').focus();
  });
  addEventListener('hashchange', go);
  addEventListener('keydown', keys);
  setInterval(() => { if (Agent.state().state !== 'away') Draw.tick(); }, 1000);
  Agent.on('state', standing);
  go();
  Agent.follow(look)();
  Agent.connect();
})();
