'use strict';
// The page around the views: which one is shown (by the address), the header, whether the agent is there,
// and the keys that work everywhere.

(() => {
const { el, fill, text, link, row, tag } = Draw;
const views = [Sessions, Routes, Pods, Explain, Check];
const at = id => document.getElementById(id);
const main = at('main');

let summary = null;
let view = null;
/// What had the focus when a view was left.
const focused = new Map();
/// Where Esc leads back to from an explanation.
let from = '#/routes';

const decode = written => {
  try {
    return decodeURIComponent(written);
  } catch {
    return written;
  }
};

// #/routes?find=10.0 is a view, what follows its name, and a query.
const go = change => {
  const old = change?.oldURL ? new URL(change.oldURL).hash : '';
  if (old.startsWith('#/') && !old.startsWith('#/explain')) from = old;
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, ...rest] = path.split('/');
  const chosen = views.find(one => one.title.toLowerCase() === name) || Sessions;
  const held = main.contains(document.activeElement) ? document.activeElement : null;
  const isOther = chosen !== view;
  if (isOther) focused.set(view, held);
  view = chosen;
  const root = view.open(decode(rest.join('/')), new URLSearchParams(query || ''));
  if (isOther) {
    fill(main, root);
    // Focus goes where it was when this view was left, and with whoever followed a link inside.
    const before = focused.get(view);
    if (held && before?.isConnected) before.focus();
    else if (held) main.focus({ preventScroll: true });
  }
  for (const tab of document.querySelectorAll('.views a')) {
    if (tab.innerText === view.title) tab.setAttribute('aria-current', 'page');
    else tab.removeAttribute('aria-current');
  }
  guard(refresh);
};

const guard = async act => {
  try {
    await act();
  } catch (error) {
    if (!(error instanceof Agent.Refusal)) throw error;
    complain(error.message);
  }
};

const refresh = async () => {
  const down = summary ? summary.peers.filter(peer => peer.state !== 'Established').length : 0;
  document.title = Draw.plain(`${down ? `${down} down · ` : ''}${view.title} · ${summary?.node || 'flock'}`);
  if (summary) await view.refresh(summary);
};

const look = async () => {
  summary = await Agent.ask('summary') || summary;
  if (Agent.isAway()) return;
  complain('');
  header(summary.peers.filter(peer => peer.state === 'Established').length, summary.peers.length);
  Sessions.note(summary);
  await refresh();
};

const header = (up, all) => {
  at('node').textContent = Draw.plain(summary.node);
  Table.show(at('who'), row(summary.asn === null ? [tag('no BGP', 'plain')] : [
    text(`AS ${summary.asn}`, 'fact'), text(`router ID ${summary.routerId}`, 'fact'),
    summary.drain ? tag(summary.drain, 'warn') : tag('in service', 'plain'),
  ]));
  const { originated, learned, installed } = summary;
  figure('Sessions up', 'sessions', `${up} of ${all}`, up < all && 'tone-bad');
  figure('Originated', 'routes?which=originated', Draw.count(originated));
  figure('Learned', 'routes?which=received', Draw.count(learned));
  figure('In the kernel', 'routes?which=received', Draw.count(installed), installed < learned && 'tone-warn');
};

const figures = new Map();
const figure = (title, where, value, look) => {
  if (!figures.has(title)) {
    figures.set(title, el('dd'));
    at('figures').append(el('div', {}, el('dt', {}, title), figures.get(title)));
  }
  Table.show(figures.get(title), link(`#/${where}`, value, look));
};

const complain = words => {
  at('banner').textContent = Draw.plain(words);
  at('banner').hidden = words === '';
};

const standing = state => {
  const since = new Date().toTimeString().slice(0, 5);
  at('live').dataset.state = state;
  at('live').textContent = { away: `agent away since ${since}`, polling: 'asking every 5 s: too many listen' }[state] || state;
  complain(state !== 'away' ? '' : `The agent does not answer since ${since}. `
    + 'What is shown is how it was then; pods and routes in the kernel stay as they are.');
};

const keys = event => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  const isTyping = event.target.matches('[type=search], select');
  if (event.key === '/' && !isTyping) {
    event.preventDefault();
    if (!main.querySelector('[type=search]')) {
      history.pushState(null, '', '#/routes');
      go();
    }
    main.querySelector('[type=search]').focus();
  } else if (event.key === 'Escape' && isTyping) {
    if (event.target.value === '') event.target.blur();
  } else if (event.key === 'Escape' && view === Explain) {
    location.hash = from;
  }
};

at('skip').addEventListener('click', event => {
  event.preventDefault();
  main.focus();
});
addEventListener('hashchange', go);
addEventListener('keydown', keys);
setInterval(() => { if (!Agent.isAway()) Draw.tick(); }, 1000);
Agent.on('state', standing);
go();
Agent.follow(() => guard(look));
Agent.connect();
})();
